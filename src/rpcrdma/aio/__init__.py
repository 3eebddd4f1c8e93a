"""Where sockets, clocks, files and tasks are: drivers, connecting and serving on asyncio."""
