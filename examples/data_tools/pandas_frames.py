"""pandas reads and writes tables: `python pandas_frames.py rdma://SERVER/DIRECTORY`."""

import sys

import pandas as pd


def main(top: str) -> None:
    weather = pd.DataFrame({"city": ["Bergen", "Cairo", "Bergen", "Cairo"], "degrees": [4.5, 31.0, 5.5, 33.0]})
    weather.to_csv(f"{top}/weather.csv", index=False)
    weather.to_parquet(f"{top}/weather.parquet")
    print("csv:", pd.read_csv(f"{top}/weather.csv").degrees.max())
    print("parquet:", pd.read_parquet(f"{top}/weather.parquet", columns=["degrees"]).degrees.mean())


if __name__ == "__main__":
    main(sys.argv[1])
