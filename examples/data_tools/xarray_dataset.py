"""xarray keeps labelled arrays in zarr's format: `python xarray_dataset.py rdma://SERVER/DIRECTORY`."""

import sys

import numpy as np
import xarray as xr


def main(top: str) -> None:
    degrees = xr.DataArray(np.arange(12.0).reshape(3, 4), dims=("day", "hour"), coords={"day": [1, 2, 3]})
    xr.Dataset({"degrees": degrees}).to_zarr(f"{top}/weather.zarr", consolidated=False)
    weather = xr.open_zarr(f"{top}/weather.zarr", consolidated=False, chunks=None)
    print("mean of day 2:", float(weather.degrees.sel(day=2).mean()))


if __name__ == "__main__":
    main(sys.argv[1])
