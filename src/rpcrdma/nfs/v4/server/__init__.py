"""The server of NFS versions 4.1 and 4.2 over exported trees.

A function of an operation, `name(compound, args)`, returns the result, or raises `Refused` with a status of the RFC, an
error of a tree, or `WorkerNeeded`: see `rpcrdma.nfs.v4.server.compound`.
"""
