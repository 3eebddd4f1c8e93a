"""Whether the type checker refuses a mistake: then `make check` notices it, and it is no program of the package."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path

from mutations import UNCHANGED, apply

__all__ = ["TypeCheck"]

_ERROR = re.compile(r"^.*?:\d+: error: (.*)$", re.MULTILINE)


class TypeCheck:
    """mypy with the settings of a project, if its `pyproject.toml` has any; nothing is written to the sources."""

    def __init__(self, root: Path, cache_directory: Path) -> None:
        self._root = root
        self._cache_directory = cache_directory
        settings = root / "pyproject.toml"
        self._is_used = settings.exists() and "mypy" in tomllib.loads(settings.read_text()).get("tool", {})
        self._without = cache(lambda path: self._errors(path, UNCHANGED))

    def complaint(self, path: str, number: int) -> str:
        """The first error of mypy about the module with its mistake `number`, empty if there is none."""
        if not self._is_used:
            return ""
        # Without its comments a module can have errors besides.
        return next(iter(self._errors(path, number) - self._without(path)), "")

    def _errors(self, path: str, number: int) -> Counter[str]:
        with tempfile.NamedTemporaryFile("w", suffix=".py") as mutant:
            mutant.write(ast.unparse(apply((self._root / path).read_text(), number)))
            mutant.flush()
            command = [sys.executable, "-m", "mypy", "--cache-dir", str(self._cache_directory), "--no-error-summary"]
            command += ["--shadow-file", path, mutant.name, path]
            done = subprocess.run(command, cwd=self._root, capture_output=True, text=True, check=False)
        if done.returncode > 1:
            raise SystemExit(f"error: mypy does not run\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return Counter(_ERROR.findall(done.stdout))
