"""Imports go downward only, and only the upper layers touch sockets, clocks and tasks (see ARCHITECTURE.md)."""

from __future__ import annotations

import ast
import functools
import graphlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from packages import LAB, LIBRARY, ROOT, module_name, modules, relative

MODULES = modules()

# Layers of one rank do not know each other: the transport meets the software RNIC at `verbs` alone.
RANKS = {
    "errors": 0,
    "deferred": 0,
    "limits": 0,
    "file_limits": 0,
    "wire": 1,
    "xdr": 2,
    "rpc": 3,
    "verbs": 3,
    "transport": 4,
    "iwarp": 4,
    "rtr": 5,
    "extension": 6,
    "aio": 6,
    "provider": 7,
    "nfs": 7,
    "": 8,  # the package itself, which re-exports the names for users
    "testing": 8,
    "sync": 9,
    "commands": 9,
    "fsspec": 10,
    "cli": 11,
    "__main__": 12,
    # The other package: tests/house/test_boundary.py has the names that it takes from this one.
    "lab/limits": 12,
    "lab/dissect": 13,
    "lab/scripted": 13,
    "lab/check": 14,
    "lab/simulation": 14,
    "lab/commands": 15,
}
# A machine whose time, randomness and input are handed in can be tested and simulated to the last octet.
EFFECTS = {"asyncio", "logging", "random", "secrets", "selectors", "socket", "ssl", "subprocess", "threading", "time"}
# TLS over buffers in memory: OpenSSL draws random numbers and looks at the clock, but opens no socket.
WITH_EFFECTS = {"transport/host_authentication.py": {"ssl"}}
# The seam itself, and providers and sockets of the machine, which no simulation uses.
OWN_RANDOMNESS = {
    "aio/drivers/effects.py",
    "aio/drivers/loopback_provider.py",
    "aio/drivers/sockets.py",
    "aio/drivers/software_rnic.py",
}
# Within a layer, too, imports go downward; rooms of one rank do not know each other.
ROOM_RANKS = {
    "aio/drivers": 0,
    "aio": 1,
    "aio/answering": 1,
    "aio/connections": 2,
    "aio/client": 3,
    "aio/server": 3,
    "nfs/export": 0,
    "nfs/v3": 0,
    "nfs": 1,
    "nfs/v4": 1,
    "nfs/v3/server": 2,
    "nfs/v4/server": 2,
    "nfs/v4/client": 2,
    "nfs/client": 3,
    "nfs/server": 3,
}

SHAPELESS = {"base", "common", "helper", "helpers", "misc", "util", "utilities", "utils"}


def layer_of(dotted: str) -> str:
    """ "rpcrdma.rpc.message" -> "rpc", "rpcrdma" -> "", "rpcrdma_lab.dissect.fields" -> "lab/dissect"."""
    package, _, rest = dotted.partition(".")
    layer = rest.partition(".")[0]
    return f"lab/{layer}" if package == LAB.name else layer


MODULE_NAMES = {module_name(path) for path in MODULES}


def imports_in(source: str, package: list[str]) -> Iterator[tuple[int, str]]:
    """(line, absolute dotted name) of every module that a module of `package` imports, wherever in its text.

    Imports under `TYPE_CHECKING` and in functions count: their reader needs the other module as well.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            origin = package[: len(package) - node.level + 1] if node.level else []
            origin = [*origin, *(node.module or "").split(".")] if node.module else origin
            for alias in node.names:
                # `from rpcrdma import limits` names a module, `from rpcrdma.limits import X` a value in one.
                module = ".".join([*origin, alias.name])
                yield node.lineno, module if module in MODULE_NAMES else ".".join(origin)


@functools.cache
def imports(path: Path) -> list[tuple[int, str]]:
    """(line, absolute dotted name) of every module that the module at `path` imports."""
    return list(imports_in(path.read_text(), module_name(path.parent / "__init__.py").split(".")))


def test_every_layer_has_its_rank() -> None:
    layers = {layer_of(name) for name in MODULE_NAMES} - {"lab/"}
    assert layers <= set(RANKS), "give a new layer its rank here and its room in ARCHITECTURE.md"


@pytest.mark.thorough
def test_imports_go_downward() -> None:
    wrong = []
    for path in MODULES:
        own = layer_of(module_name(path))
        for line, name in imports(path):
            if name.split(".")[0] not in {LIBRARY.name, LAB.name}:
                continue
            other = layer_of(name)
            if other not in RANKS:
                other = ""  # a name exported by the package itself
            if other != own and RANKS[other] >= RANKS[own]:
                wrong.append(f"{relative(path)}:{line}: {own or 'the package itself'} may not import {name}")
    assert not wrong, "\n".join(wrong)


def test_below_aio_no_module_touches_sockets_clocks_or_randomness() -> None:
    wrong = [
        f"{relative(path)}:{line}: {name} is for rpcrdma.aio and above; pass its result as an argument"
        for path in MODULES
        if RANKS.get(layer_of(module_name(path)), 0) < RANKS["aio"]
        for line, name in imports(path)
        if name.split(".")[0] in EFFECTS - WITH_EFFECTS.get(relative(path), set())
    ]
    assert not wrong, "\n".join(wrong)


def test_what_a_simulation_runs_draws_random_numbers_from_its_loop_alone() -> None:
    simulated = [path for path in MODULES if relative(path).startswith(("aio/", "nfs/client/"))]
    wrong = [
        f"{relative(path)}:{line}: {name} differs from run to run; take random_bits of rpcrdma.aio.drivers.effects"
        for path in simulated
        if relative(path) not in OWN_RANDOMNESS
        for line, name in imports(path)
        if name in {"random", "secrets"}
    ]
    assert not wrong, "\n".join(wrong)


def room_of(dotted: str) -> str | None:
    """ "rpcrdma.aio.drivers.sockets" -> "aio/drivers"; None where a layer has no rooms."""
    parts = dotted.split(".")[1:]
    return next((room for end in (3, 2, 1) if (room := "/".join(parts[:end])) in ROOM_RANKS), None)


def test_imports_go_downward_within_a_layer() -> None:
    wrong = []
    for path in MODULES:
        own = room_of(module_name(path))
        # The package's own module exports names of the rooms, as `rpcrdma` does those of the layers.
        if own is None or relative(path) == "nfs/__init__.py":
            continue
        for line, name in imports(path):
            other = room_of(name) if layer_of(name) == layer_of(module_name(path)) else None
            if other not in {own, None} and ROOM_RANKS[str(other)] >= ROOM_RANKS[own]:
                wrong.append(f"{relative(path)}:{line}: {own} may not import {name}")
    assert not wrong, "\n".join(wrong)


def circle_in(graph: dict[str, set[str]]) -> list[str]:
    """The names of one circle of imports, the first and the last of which are the same; empty if there is none."""
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = {module_name(path): {name for _, name in imports(path)} & MODULE_NAMES for path in MODULES}
    circle = circle_in(graph)
    assert circle == [], (
        f"{' is imported by '.join(circle)}: no module of a circle is understood before the "
        "others, under TYPE_CHECKING no more than at run time; give the lower module a Protocol of the part that it "
        "needs, or move that part down"
    )


def test_a_circle_is_named_with_all_its_modules() -> None:
    assert set(circle_in({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}})) == {"a", "b", "c"}
    assert circle_in({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []
    assert circle_in({"a": {"a"}}) == ["a", "a"]


def test_the_extension_uses_what_any_extension_may_use() -> None:
    wrong = [
        f"{relative(path)}:{line}: {name} is the transport's own; import from rpcrdma.transport what it exports"
        for path in MODULES
        if layer_of(module_name(path)) == "rtr"
        for line, name in imports(path)
        if name.startswith("rpcrdma.transport.")
    ]
    assert not wrong, "\n".join(wrong)


PROVIDER_MODULES = (
    "rpcrdma.iwarp",
    "rpcrdma.verbs.loopback",
    "rpcrdma.aio.drivers.iwarp_driver",
    "rpcrdma.aio.drivers.listener",
    "rpcrdma.aio.drivers.loopback_provider",
    "rpcrdma.aio.drivers.software_rnic",
)
# Where options are, which choose a provider and have the settings of the software RNIC; TCP listens at sockets, too.
THEY_CHOOSE = {"aio/client/connect.py", "aio/server/rdma_server.py", "aio/server/tcp_server.py"}


def test_above_the_drivers_no_provider_is_named() -> None:
    above = [path for path in MODULES if (room_of(module_name(path)) or "").startswith("aio/")]
    wrong = [
        f"{relative(path)}:{line}: {name} is one provider; ask for it by rpcrdma.aio.drivers.provider"
        for path in above
        if room_of(module_name(path)) != "aio/drivers" and relative(path) not in THEY_CHOOSE
        for line, name in imports(path)
        if name in PROVIDER_MODULES
    ]
    assert not wrong, "\n".join(wrong)
    connection = (LIBRARY / "aio" / "connections" / "rdma_connection.py").read_text().lower()
    assert [word for word in ("iwarp", "socket.", "software rnic", "loopback") if word in connection] == []


def test_every_room_of_these_layers_has_its_rank() -> None:
    folders = {relative(path.parent) for layer in ("aio", "nfs") for path in LIBRARY.glob(f"{layer}/*/__init__.py")}
    assert folders <= set(ROOM_RANKS)


def test_modules_are_named_for_what_they_do() -> None:
    wrong = [relative(path) for path in MODULES if path.stem in SHAPELESS or path.parent.name in SHAPELESS]
    assert not wrong, f"a name that fits anything says nothing: {wrong}"


def test_the_scan_sees_every_form_of_import() -> None:
    source = "import socket\nfrom rpcrdma import limits\nfrom . import auth\ndef f():\n    from ..wire import buffers\n"
    names = [name for _, name in imports_in(source, ["rpcrdma", "rpc"])]
    assert names == ["socket", "rpcrdma.limits", "rpcrdma.rpc.auth", "rpcrdma.wire.buffers"]


def test_every_layer_has_its_room_in_the_architecture() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    layers = [relative(path.parent) for package in (LIBRARY, LAB) for path in package.glob("*/__init__.py")]
    assert [layer for layer in layers if f"**`{layer}`**" not in text] == []
