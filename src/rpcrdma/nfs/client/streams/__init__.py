"""Open files: read-ahead, write-behind, and data written so that it survives a restart of the server."""
