"""The command `rpcrdma`, also as `python -m rpcrdma`: an interrupt during the imports shows no traceback."""

import sys

__all__ = ["run"]


def run() -> int:
    """Runs `rpcrdma.cli.main.run`, and returns its exit status, or 130 if the import of that module is interrupted."""
    try:
        from rpcrdma.cli import main  # noqa: PLC0415 - a fifth of a second on slow machines
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted\n")
        return 130
    return main.run()


if __name__ == "__main__":
    sys.exit(run())
