"""The lab takes public names from the library alone, and the library takes nothing of the lab.

Public are the names in `__all__` of the documented modules, and those of the generated modules of NFS.
"""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from packages import LAB, LIBRARY, ROOT, module_name, modules
from rpcrdma.cli.command_table import OWN

PACKAGES = {LIBRARY.name, LAB.name}
GENERATED = ("rpcrdma.nfs.v3", "rpcrdma.nfs.mount")
IMPORT = re.compile(r"^(?:from|import) rpcrdma[^(\n]*(?:\([^)]*\))?", re.MULTILINE)
"""An import in a document, at the start of a line."""
EXCEPTIONS: dict[str, str] = {}
"""Names that the lab takes although they are not public, each with the reason."""


def documented_modules() -> tuple[str, ...]:
    """The modules with a page of their own, as docs/api_pages.py lists them."""
    for node in ast.parse((ROOT / "docs" / "api_pages.py").read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "MODULES":
            return tuple(ast.literal_eval(node.value))
    raise AssertionError("docs/api_pages.py has no MODULES")


MODULES = {module_name(path): path.read_text() for path in modules()}
PUBLIC = {*documented_modules(), *GENERATED}


def is_lab(name: str) -> bool:
    return name.partition(".")[0] == LAB.name


def is_public(name: str) -> bool:
    """Whether a dotted name of this package, such as "rpcrdma.nfs.v3.READ", is public or a public module."""
    module, _, exported = name.rpartition(".")
    return name in PUBLIC or (module in PUBLIC and exported in importlib.import_module(module).__all__)


def names_taken(source: str) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of every name of both packages that a module imports, or takes from their modules."""
    tree = ast.parse(source)
    bound: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                if top in PACKAGES:
                    yield node.lineno, alias.name
                    bound[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "write the whole name of the module"
            if str(node.module).partition(".")[0] in PACKAGES:
                for alias in node.names:
                    name = f"{node.module}.{alias.name}"
                    yield node.lineno, name
                    if name in MODULES:
                        bound[alias.asname or alias.name] = name
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        # Of a.b.c the whole is looked at, up to the first name that is no module.
        if isinstance(node, ast.Attribute) and id(node) not in inner:
            first, *others = dotted(node)
            if first in bound:
                name = bound[first]
                for other in others:
                    name = f"{name}.{other}"
                    if name not in MODULES:
                        break
                yield node.lineno, name


def dotted(node: ast.expr) -> list[str]:
    """The names of a.b.c; those behind any other expression begin with an empty one."""
    if isinstance(node, ast.Attribute):
        return [*dotted(node.value), node.attr]
    return [node.id] if isinstance(node, ast.Name) else [""]


@pytest.mark.thorough
def test_the_lab_takes_public_names_alone() -> None:
    taken = [
        (f"{module}:{line}", name)
        for module, source in MODULES.items()
        if is_lab(module)
        for line, name in names_taken(source)
        if not is_lab(name)
    ]
    wrong = [
        f"{where}: {name} is not public" for where, name in taken if not is_public(name) and name not in EXCEPTIONS
    ]
    assert not wrong, "\n".join(wrong)
    unused = set(EXCEPTIONS) - {name for _, name in taken}
    assert unused == set(), "take these out of EXCEPTIONS"


@pytest.mark.thorough
def test_the_library_takes_nothing_of_the_lab() -> None:
    """The command finds those of the lab by the entry point group `rpcrdma.commands`."""
    wrong = [
        f"{module}:{line}: {name}"
        for module, source in MODULES.items()
        if not is_lab(module)
        for line, name in names_taken(source)
        if is_lab(name)
    ]
    assert not wrong, "\n".join(wrong)


WITHOUT_LAB = """
import importlib, pkgutil, sys
sys.modules["rpcrdma_lab"] = None
import rpcrdma
for module in pkgutil.walk_packages(rpcrdma.__path__, "rpcrdma."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
from rpcrdma.cli.main import build_parser
print(*next(each for each in build_parser(whole=True)._actions if each.dest == "command").choices)
"""


@pytest.mark.thorough
def test_the_library_and_its_commands_do_without_the_lab() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_LAB], capture_output=True, text=True, check=True)
    assert done.stdout.split() == list(OWN)


def test_documents_and_examples_take_public_names_alone() -> None:
    """Tests of the example of batches look into connections, as no program needs to."""
    examples = [path for path in ROOT.glob("examples/**/*.py") if "extension_batches" not in path.parts]
    sources = {str(path.relative_to(ROOT)): path.read_text() for path in examples}
    for page in (*ROOT.glob("docs/*.md"), ROOT / "README.md"):
        sources[page.name] = "\n".join(IMPORT.findall(page.read_text()))
    wrong = [
        f"{where}: {name}"
        for where, source in sources.items()
        for _, name in names_taken(source)
        if not is_public(name)
    ]
    assert not wrong, "\n".join(wrong)


def test_every_form_of_taking_a_name_is_seen() -> None:
    source = (
        "import rpcrdma\nimport rpcrdma.errors as wrong\nfrom rpcrdma import limits\nfrom rpcrdma.nfs import v3\n"
        "def f(x):\n    from rpcrdma.wire import crc32c\n    x.limits.A\n    f().v3.B\n"
        "    return wrong.C, limits.D.real, v3.E.number, rpcrdma.nfs.v3.F.method, rpcrdma.connect()\n"
    )
    names = sorted(name for _, name in names_taken(source))
    assert names == [
        *(
            "rpcrdma",
            "rpcrdma.connect",
            "rpcrdma.errors",
            "rpcrdma.errors.C",
            "rpcrdma.limits",
            "rpcrdma.limits.D",
            "rpcrdma.nfs.v3",
        ),
        *("rpcrdma.nfs.v3.E", "rpcrdma.nfs.v3.F", "rpcrdma.wire.crc32c"),
    ]
    assert [name for name in names if is_public(name)] == [
        "rpcrdma",
        "rpcrdma.connect",
        "rpcrdma.errors",
        "rpcrdma.nfs.v3",
    ]
    assert is_public("rpcrdma.nfs.v3.READ")
    assert [name for _, name in names_taken("import rpcrdma_lab.check\nfrom rpcrdma_lab import limits")] == [
        "rpcrdma_lab.check",
        "rpcrdma_lab.limits",
    ]
    assert is_lab("rpcrdma_lab.check.runner.Witness")
    assert not is_lab("rpcrdma.labels")
