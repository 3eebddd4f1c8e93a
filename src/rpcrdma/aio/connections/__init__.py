"""Connections over RDMA and TCP, and the calls of either end."""
