"""Arrow writes a directory of Parquet files and reads some columns: `python arrow_dataset.py rdma://SERVER/DIRECTORY`."""

import sys

import fsspec
import pyarrow as pa
import pyarrow.dataset as ds


def main(top: str) -> None:
    fs, path = fsspec.url_to_fs(f"{top}/readings")
    table = pa.table({"year": [2024, 2024, 2025, 2025], "value": [1, 2, 3, 4]})
    ds.write_dataset(table, path, filesystem=fs, format="parquet", partitioning=["year"], partitioning_flavor="hive")
    readings = ds.dataset(path, filesystem=fs, format="parquet", partitioning="hive")
    print("files:", len(readings.files))
    print("2025:", readings.to_table(filter=ds.field("year") == 2025)["value"].to_pylist())


if __name__ == "__main__":
    main(sys.argv[1])
