"""NFS version 4.1 as nfs41.x defines it: types, codecs, programs, clients and services, loaded from there."""

from __future__ import annotations

from pathlib import Path

from rpcrdma.rpc import load_interface

_DEFINITION = Path(__file__).with_name("nfs41.x")
_LOADED = load_interface(_DEFINITION.read_text(encoding="utf-8"), source_name=_DEFINITION.name)

globals().update({name: found for name, found in _LOADED.classes.items() if not name.startswith("_")})
