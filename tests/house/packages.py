"""The packages that the rules of these tests hold for: the library, and the tools for protocol engineers."""

from __future__ import annotations

from pathlib import Path

__all__ = ["LAB", "LIBRARY", "ROOT", "module_name", "modules", "relative"]

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "src" / "rpcrdma"
LAB = ROOT / "lab" / "src" / "rpcrdma_lab"


def modules(pattern: str = "*.py") -> list[Path]:
    """The files of both packages with such a name, the library's first."""
    return [path for package in (LIBRARY, LAB) for path in sorted(package.rglob(pattern))]


def relative(path: Path) -> str:
    """The path within the library, as "aio/client/connect.py"; that of a file of the lab begins with "lab/"."""
    if path.is_relative_to(LAB):
        return f"lab/{path.relative_to(LAB).as_posix()}".removesuffix("/.")
    return path.relative_to(LIBRARY).as_posix()


def module_name(path: Path) -> str:
    """The name by which the module in this file is imported."""
    package = LAB if path.is_relative_to(LAB) else LIBRARY
    return ".".join(path.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__")
