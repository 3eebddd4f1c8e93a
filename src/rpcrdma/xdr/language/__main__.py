"""`python -m rpcrdma.xdr.language FILE.x [-o OUT.py]`: the compiler without the rest of the command."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rpcrdma.xdr.language import LanguageError, compile_source


def main() -> int:
    """Compiles one file; the exit status is 1 if it has errors."""
    parser = argparse.ArgumentParser(prog="python -m rpcrdma.xdr.language", description="Compile an XDR definition.")
    parser.add_argument("file", type=Path)
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    try:
        compiled = compile_source(arguments.file.read_text(encoding="utf-8"), source_name=arguments.file.name)
    except LanguageError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if arguments.output is None:
        sys.stdout.write(compiled.text)
    else:
        arguments.output.write_text(compiled.text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
