"""Worlds of clients and servers with faults, checkers that watch them, and a minimiser of failing worlds."""
