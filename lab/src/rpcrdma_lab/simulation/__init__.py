"""Round trips over the simulated fabric, and worlds of clients and servers with faults."""
