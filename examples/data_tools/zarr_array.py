"""zarr keeps an array in chunks, each of them a file: `python zarr_array.py rdma://SERVER/DIRECTORY`."""

import sys

import numpy as np
import zarr


def main(top: str) -> None:
    store = f"{top}/image.zarr"
    image = zarr.create_array(store, shape=(64, 64), chunks=(16, 16), dtype="i4")
    image[:] = np.arange(64 * 64).reshape(64, 64)
    again = zarr.open_array(store, mode="r")
    print("chunks:", again.nchunks_initialized)
    print("a part:", again[30:32, 40:42].tolist())


if __name__ == "__main__":
    main(sys.argv[1])
