"""A mechanism of the GSS-API without a realm: deterministic, with one secret for all, and as strict as Kerberos."""

from __future__ import annotations

import hashlib
import hmac
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rpcrdma.rpc.auth import LocalUser
from rpcrdma.rpc.gss.mechanism import GssFailure, GssMajor

__all__ = ["FakeContext", "FakeMechanism"]


class FakeContext:
    """One end; `legs` tokens of the client make a context."""

    def __init__(self, mechanism: FakeMechanism, *, initiates: bool) -> None:
        self._mechanism = mechanism
        self._initiates = initiates
        self._left = mechanism.legs
        self._key = b""
        self.complete = False
        self.principal = mechanism.principal if initiates else ""
        self.expired = False
        self._in_use = threading.Lock()

    @contextmanager
    def _use(self, octets: int) -> Iterator[None]:
        """The libraries of Kerberos do not lock a context: two uses at the same time corrupt it."""
        assert self._in_use.acquire(blocking=False), "two threads use a context at the same time"
        try:
            if self._mechanism.on_use is not None:
                self._mechanism.on_use(octets)
            yield
        finally:
            self._in_use.release()

    @property
    def user(self) -> LocalUser | None:
        return self._mechanism.users.get(self.principal)

    @property
    def lifetime_s(self) -> float | None:
        return self._mechanism.lifetime_s

    def step(self, token: bytes | None) -> bytes | None:
        mechanism = self._mechanism
        mechanism.steps += 1
        if mechanism.on_step is not None:
            mechanism.on_step()
        if self._initiates:
            if token not in {None, b"go on", b"done"}:
                raise GssFailure(f"the server says {(token or b'').decode()}")
            self.complete = token == b"done"
            if self.complete:
                return None
            mechanism.made += 1
            self._key = self._key or hashlib.sha256(mechanism.secret + bytes([mechanism.made & 0xFF])).digest()
            return b"%s|%d" % (mechanism.principal.encode(), mechanism.made)
        try:
            name, _, number = (token or b"").decode().partition("|")
            made = int(number)
        except ValueError:
            raise GssFailure("the token is none", minor=7) from None
        if name in mechanism.refused:
            raise GssFailure("the principal is refused", minor=9, token=b"no")
        self.principal = name
        self._key = self._key or hashlib.sha256(mechanism.secret + bytes([made & 0xFF])).digest()
        self._left -= 1
        self.complete = not self._left
        return b"done" if self.complete else b"go on"

    def mic(self, data: bytes) -> bytes:
        with self._use(len(data)):
            return self._mic(data)

    def verify(self, data: bytes, mic: bytes) -> None:
        with self._use(len(data)):
            self._verify(data, mic)

    def wrap(self, data: bytes) -> bytes:
        with self._use(len(data)):
            return self._crypt(data) + self._mic(data)

    def unwrap(self, data: bytes) -> bytes:
        with self._use(len(data)):
            clear = self._crypt(data[:-20])
            self._verify(clear, data[-20:])
            return clear

    def _mic(self, data: bytes) -> bytes:
        self._check()
        return hmac.digest(self._key, data, "sha256")[:20]

    def _verify(self, data: bytes, mic: bytes) -> None:
        if not hmac.compare_digest(self._mic(data), mic):
            raise GssFailure("the checksum is wrong")

    def _crypt(self, data: bytes) -> bytes:
        stream = hashlib.shake_128(self._key).digest(len(data))
        return (int.from_bytes(data, "big") ^ int.from_bytes(stream, "big")).to_bytes(len(data), "big")

    def _check(self) -> None:
        if self.expired or self._mechanism.expired:
            raise GssFailure("the context has ended", major=GssMajor.CONTEXT_EXPIRED)


@dataclass
class FakeMechanism:
    """Both ends of all its contexts; `steps` and `made` count."""

    principal: str = "alice@REALM"
    users: dict[str, LocalUser] = field(default_factory=dict)
    secret: bytes = b"secret"
    legs: int = 1
    lifetime_s: float | None = None
    refused: set[str] = field(default_factory=set)
    steps: int = 0
    made: int = 0
    expired: bool = False
    blocks: bool = False
    ticket: bool = True
    on_step: Callable[[], None] | None = None
    on_use: Callable[[int], None] | None = None
    """Is called in each use of a finished context, with the octets that it takes time for."""
    mic_octets_max = 20
    wrap_octets_max = 20

    def check_keys(self) -> None:
        if not self.secret:
            raise GssFailure("no key; make one")

    def check_ticket(self) -> None:
        if not self.ticket:
            raise GssFailure("no ticket; run kinit")

    def explained(self, major: int, minor: int, host: str) -> str:
        return f"the server refuses with {major:#x}, {minor} for {host}"

    def initiate(self, host: str) -> FakeContext:
        return FakeContext(self, initiates=True)

    def accept(self) -> FakeContext:
        return FakeContext(self, initiates=False)
