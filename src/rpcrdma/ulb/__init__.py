"""Upper-layer bindings: which items may be placed directly, and how large replies get (RFC 8267)."""

from rpcrdma.ulb import nfs3, watch
from rpcrdma.ulb.registry import binding_for, default_binding, register_binding

__all__ = ["binding_for", "default_binding", "register_binding"]

register_binding(nfs3.PROGRAM, nfs3.VERSION, nfs3.bind)
register_binding(watch.WATCH, watch.VERSION, watch.bind)
register_binding(watch.WATCHER, watch.VERSION, watch.bind)
