"""The movement of octets: sockets, listeners, the driver of the software RNIC, RPC records, deadlines, captures."""
