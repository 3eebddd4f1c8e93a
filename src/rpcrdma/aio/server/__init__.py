"""Serving programs to any number of connections: who is let in, what is counted."""
