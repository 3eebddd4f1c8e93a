"""NFS version 3 and MOUNT (RFC 1813): interface, server and client."""
