"""RPCSEC_GSS version 1 (RFC 2203): proof of the user, integrity and privacy for calls and replies."""
