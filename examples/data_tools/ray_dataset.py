"""Ray Data reads and writes a directory of Parquet files: `python ray_dataset.py rdma://SERVER/DIRECTORY`."""

import sys

import fsspec
import ray


def main(top: str) -> None:
    fs, path = fsspec.url_to_fs(f"{top}/squares")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    numbers = ray.data.range(100).map(lambda row: {"square": row["id"] ** 2})
    numbers.write_parquet(path, filesystem=fs)
    print("sum:", ray.data.read_parquet(path, filesystem=fs).sum("square"))
    ray.shutdown()


if __name__ == "__main__":
    main(sys.argv[1])
