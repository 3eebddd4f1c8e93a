"""Connecting to a service, again when the connection is lost, and to clients that come back."""
