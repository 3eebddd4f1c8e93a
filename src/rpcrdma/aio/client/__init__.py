"""Connections to a service, restored after a loss, and calls to clients that return."""
