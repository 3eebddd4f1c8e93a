"""Records a report of `rpcrdma check --json` in linux_verdicts.toml: `record_verdicts.py SYSTEM KERNEL REPORT`.

RPCRDMA_CHECK_REPORT=FILE keeps the report of a check of guests. SYSTEM is a name that the file has already.
"""

from __future__ import annotations

import datetime as dt
import sys
import textwrap
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import Any

# The means of the checks stand in the folder of the library's, `support` and `realm` above it.
sys.path.insert(0, str(Path(__file__).parents[4] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[4] / "tests/interop"))
sys.path.insert(0, str(Path(__file__).parents[4] / "tests/interop/kernel"))

from judged_kernel import VERDICTS, steady_verdicts

__all__ = ["main"]

_HEAD = """\
# The checks of `rpcrdma check` that Linux meets, by verdict; over siw where a system names no other device. A statement
# behind a check is the broken one, where it is not the check's first. The checks of guests compare these verdicts with
# those that they find, and the ledger page shows them. record_verdicts.py writes this file.
"""


def main(system: str, kernel: str, report: str) -> None:
    """Replaces the verdicts on the system."""
    judged = tomllib.loads(VERDICTS.read_text())["judged"]
    (row,) = (each for each in judged if each["system"] == system)
    row.clear()
    row |= {"system": system, "kernel": kernel, "date": dt.datetime.now(dt.UTC).date()}
    by_verdict: dict[str, list[str]] = defaultdict(list)
    for name, verdict in steady_verdicts(Path(report).read_text()).items():
        if verdict != "not seen":
            by_verdict[verdict].append(name)
    row |= by_verdict
    VERDICTS.write_text(_HEAD + "".join(map(_table, judged)))


def _table(row: dict[str, Any]) -> str:
    lines = ["", "[[judged]]"]
    for name, value in row.items():
        key = name if name.isidentifier() else f'"{name}"'
        if isinstance(value, list):
            names = " ".join(f'"{each.replace(" ", "~")}",' for each in value)
            wrapped = textwrap.fill(names, 116, break_long_words=False, break_on_hyphens=False).replace("~", " ")
            lines += [f"{key} = [", textwrap.indent(wrapped, "    "), "]"]
        else:
            lines.append(f"{key} = {value}" if isinstance(value, dt.date) else f'{key} = "{value}"')
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main(*sys.argv[1:])
