"""`python -m rpcrdma`: the command."""

import sys

from rpcrdma.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
