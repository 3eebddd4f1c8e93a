"""Parts of the documentation that programs of the benchmarks write."""

from __future__ import annotations

from pathlib import Path

END = "<!-- end -->\n"


def put(page: Path, program: str, text: str) -> None:
    """Puts the text between the program's marks in a page."""
    begin = f"<!-- benchmarks/{program} -->\n"
    head, found, rest = page.read_text().partition(begin)
    _, ended, tail = rest.partition(END)
    if not (found and ended):
        raise ValueError(f"{page} has no part between {begin.strip()} and {END.strip()}")
    page.write_text(f"{head}{begin}{text}{END}{tail}")
