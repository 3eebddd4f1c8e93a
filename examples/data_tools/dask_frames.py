"""Dask reads and writes many files at a time, in threads and in processes: `python dask_frames.py rdma://SERVER/DIRECTORY`."""

import sys

import dask.dataframe as dd
import pandas as pd
from dask.distributed import Client, LocalCluster


def work(top: str) -> float:
    numbers = dd.from_pandas(pd.DataFrame({"value": range(100), "kind": ["a", "b"] * 50}), npartitions=4)
    numbers.to_parquet(top)
    return float(dd.read_parquet(top).groupby("kind").value.sum().compute()["b"])


def main(top: str) -> None:
    for how, processes in (("threads", False), ("processes", True)):
        # Workers connect for themselves: Dask starts them by "spawn", so they inherit nothing.
        with (
            LocalCluster(n_workers=2, threads_per_worker=1, processes=processes, dashboard_address=":0") as cluster,
            Client(cluster),
        ):
            print(f"{how}: {work(f'{top}/{how}')}")


if __name__ == "__main__":
    main(sys.argv[1])
