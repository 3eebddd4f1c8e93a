"""The command `rpcrdma`: one file a command."""
