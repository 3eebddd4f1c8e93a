"""The settings of `rpcrdma serve`: their table, the configuration file, and the values that take effect."""
