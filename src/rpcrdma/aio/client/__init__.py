"""Connections to a service, made again when they are lost, and calls to clients that come back."""
