"""Calls of a service's handlers without a transport: arguments and results pass the codecs."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from rpcrdma.aio.answering.worker_pool import Worker
from rpcrdma.nfs import v3
from rpcrdma.rpc.auth import AuthNone
from rpcrdma.rpc.host_identity import CallOrigin
from rpcrdma.rpc.program import Procedure
from rpcrdma.rpc.service import Execution, Steps, execution_of
from rpcrdma.wire.buffers import Buffer
from rpcrdma.xdr.codec import Decoder, Encoder

__all__ = ["Direct"]


class Direct:
    """A connection to a service of NFS in this process; `seen` has the names of the procedures called."""

    def __init__(self, service: v3.NFS_V3_Service) -> None:
        self.service = service
        self.seen: list[str] = []

    async def call(
        self, procedure: Procedure[Any, Any], args: Any, *, into: Buffer | None = None, timeout_s: float | None = None
    ) -> Any:
        self.seen.append(procedure.method)
        context = SimpleNamespace(
            buffer=lambda octets: memoryview(bytearray(octets)),
            client=SimpleNamespace(origin=CallOrigin("127.0.0.1", "tcp")),
            credential=AuthNone(),
            may_block=False,
        )
        handler = getattr(self.service, procedure.method)
        context.may_block = execution_of(handler) is Execution.WORKER
        result = handler(_passed(args, procedure.encode_args, procedure.decode_args), context)
        if execution_of(handler) is Execution.INLINE_OR_WORKER:
            result = _finished(result, context)
        result = _passed(result, procedure.encode_result, procedure.decode_result)
        if into is not None and result.status is v3.nfsstat3.NFS3_OK:
            view = memoryview(into)[: len(result.value.data)]
            view[:] = result.value.data
            result.value.data = view
        return result


def _finished(steps: Steps[Any], context: SimpleNamespace) -> Any:
    try:
        step = next(steps)
        context.may_block = True
        return Worker().finish(steps, step)
    except StopIteration as end:
        return end.value


def _passed(value: Any, encode: Callable[[Encoder, Any], None], decode: Callable[[Decoder], Any]) -> Any:
    enc = Encoder()
    encode(enc, value)
    return decode(Decoder(b"".join(enc.gather())))
