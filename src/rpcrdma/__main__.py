"""`python -m rpcrdma`: the command."""

import sys

from rpcrdma.cli.main import run

if __name__ == "__main__":
    sys.exit(run())
