"""The service of NFS version 3 (RFC 1813) over exported trees of files, and MOUNT."""
