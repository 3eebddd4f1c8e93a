"""A simulated fabric in virtual time, under the unchanged transport, RPC and NFS code."""
