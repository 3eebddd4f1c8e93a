"""Serving programs to any number of connections: listeners, admission of clients, statistics."""
