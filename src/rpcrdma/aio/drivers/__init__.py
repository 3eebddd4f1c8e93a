"""What moves octets: sockets and their listeners, the driver of the software RNIC, RPC records, deadlines, captures."""
