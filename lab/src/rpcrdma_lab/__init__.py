"""Tools for engineers of RPC-over-RDMA, which use public names of `rpcrdma` alone.

`check` judges servers and clients, `dissect` reads captures, `scripted` runs conversations that are written as data,
`simulation` counts round trips and runs worlds with faults. `commands` adds the command of each to `rpcrdma`.
"""
