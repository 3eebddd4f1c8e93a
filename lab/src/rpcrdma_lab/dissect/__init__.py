"""From octets to annotated messages: hex text and packet captures of iWARP, RPC-over-RDMA and RPC."""
