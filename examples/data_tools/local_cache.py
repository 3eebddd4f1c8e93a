"""Files that are read again and again are kept on this machine: `python local_cache.py rdma://SERVER/DIRECTORY`."""

import sys
import tempfile
from pathlib import Path

import fsspec


def main(top: str) -> None:
    with fsspec.open(f"{top}/model.bin", "wb") as file:
        file.write(bytes(1000))
    with tempfile.TemporaryDirectory() as cache:
        for _ in range(2):
            with fsspec.open(f"simplecache::{top}/model.bin", simplecache={"cache_storage": cache}) as file:
                print("octets:", len(file.read()))
        print("kept here:", [path.stat().st_size for path in Path(cache).iterdir()])


if __name__ == "__main__":
    main(sys.argv[1])
