"""The client of NFS versions 4.1 and 4.2."""
