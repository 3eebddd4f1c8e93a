"""The XDR language (RFC 4506): runtime codec, and the compiler in `rpcrdma.xdr.language`."""
