"""Where sockets, clocks and tasks are: connecting and serving on asyncio."""
