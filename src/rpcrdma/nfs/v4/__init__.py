"""NFS versions 4.1 and 4.2 (RFC 8881, RFC 7862)."""
