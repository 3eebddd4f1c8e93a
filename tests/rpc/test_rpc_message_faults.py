"""Each fault in the header of a call or reply: the field, the offset and the values that its error names."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rpcrdma.errors import DecodeError
from rpcrdma.rpc import errors, message
from rpcrdma.rpc.auth import AuthStat, OpaqueAuth
from rpcrdma.rpc.message import AcceptStat, CallHeader, CallRefused
from rpcrdma.xdr.codec import Decoder, Encoder
from support.cases import each_case
from support.octets import words

XID = 0x11223344
STARTS = pytest.mark.parametrize("start", [0, 5])
"""A message may stand behind a header of the transport: offsets count from its own start."""


def at(start: int, data: bytes) -> Decoder:
    return Decoder(b"\xff" * start + data + b"\xff" * 8, start, start + len(data))


def fault_of(decode: Callable[[], object]) -> object:
    """The fault that the decoder names, or the header that it decodes."""
    try:
        return decode()
    except DecodeError as error:
        return error.field, error.offset, error.need, error.have


@STARTS
@each_case("more", [0, 7])
@each_case(
    ("header", "fault"),
    [
        ((XID, 1, 2), ("msg_type", 4, "CALL", "1")),
        ((XID, 2, 2), ("msg_type", 4, "CALL", "2")),
        ((XID, 1, 3), ("msg_type", 4, "CALL", "1")),
        ((XID, 0, 1), ("rpcvers", 8, "2", "1")),
        ((XID, 0, 3), ("rpcvers", 8, "2", "3")),
        ((XID, 0, 2, 7, 1, 1, 1, 401), ("credential", 28, "at most 400", "401")),
        ((XID, 0, 2, 7, 1, 1, 0, 0, 1, 401), ("verifier", 36, "at most 400", "401")),
        ((XID, 0, 2, 7, 1, 1, 1, 4, 9, 0, 1 << 31), ("verifier", 40, "at most 400", "2147483648")),
    ],
)
def test_a_fault_in_a_call_is_told_with_its_place(
    header: tuple[int, ...], fault: tuple[str, int, str, str], more: int, start: int
) -> None:
    octets = words(*header, *[0] * more)
    assert fault_of(lambda: message.decode_call(at(start, octets))) == fault


@STARTS
@each_case(
    ("header", "fault"),
    [
        ((XID + 1, 1, 0, 0, 0, 0), ("xid", 0, "0x11223344", "0x11223345")),
        ((XID, 0, 0, 0, 0, 0), ("msg_type", 4, "REPLY", "0")),
        ((XID, 2, 0, 0, 0, 0), ("msg_type", 4, "REPLY", "2")),
        ((XID, 1, 2, 0, 0, 0), ("reply_stat", 8, "MSG_ACCEPTED or MSG_DENIED", "2")),
        ((XID, 1, 0, 0, 401, 0), ("verifier", 16, "at most 400", "401")),
        ((XID, 1, 0, 0, 0, 6), ("accept_stat", 20, "0 to 5", "6")),
        ((XID, 1, 0, 1, 4, 0, 6), ("accept_stat", 24, "0 to 5", "6")),
        ((XID, 1, 1, 2, 0, 0), ("reject_stat", 12, "RPC_MISMATCH or AUTH_ERROR", "2")),
    ],
)
def test_a_fault_in_a_reply_is_told_with_its_place(
    header: tuple[int, ...], fault: tuple[str, int, str, str], start: int
) -> None:
    assert fault_of(lambda: message.decode_reply(at(start, words(*header)), XID)) == fault


@each_case("xid", [0, 1, 2])
def test_a_reply_is_that_of_its_first_word_alone(xid: int) -> None:
    """Not that of another word which is the XID by chance."""
    for other in (0, 1, 2, 3):
        found = fault_of(lambda other=other: message.decode_reply(at(0, words(other, 1, 0, 0, 0, 0)), xid))
        assert found == (None if other == xid else ("xid", 0, f"{xid:#010x}", f"{other:#010x}"))


@STARTS
def test_bodies_of_all_lengths_travel_in_calls(start: int) -> None:
    for length in (0, 1, 2, 3, 4, 5, 7, 8, 396, 397, 399, 400):
        for in_verifier in (False, True):
            auth = OpaqueAuth(3, b"\xee" * length)
            none = OpaqueAuth(0, b"")
            header = CallHeader(XID, 1 << 31, 2, 3, *((none, auth) if in_verifier else (auth, none)))
            enc = Encoder()
            message.encode_call(enc, *header)
            assert len(enc.reduced) == 40 + (length + 3) // 4 * 4
            for arguments in (b"", b"\0" * 3, b"\xff" * 9):
                dec = at(start, bytes(enc.reduced) + arguments)
                assert message.decode_call(dec) == header
                assert dec.remaining == len(arguments)
            for end in range(len(enc.reduced)):
                with pytest.raises(DecodeError):
                    message.decode_call(at(start, bytes(enc.reduced[:end])))


@STARTS
@each_case("length", [0, 1, 2, 3, 4, 5, 399, 400])
@each_case("flavor", [0, 1, 6])
def test_results_stand_behind_a_verifier_of_any_length(flavor: int, length: int, start: int) -> None:
    padded = (length + 3) // 4 * 4
    header = words(XID, 1, 0, flavor, length) + b"\xee" * padded
    for results in (b"", b"\0" * 4, b"\xff" * 9):
        dec = at(start, header + words(0) + results)
        message.decode_reply(dec, XID)
        assert dec.pos == start + 24 + padded
    for stat, error in (
        (1, errors.ProgramUnavailable),
        (3, errors.NoSuchProcedure),
        (4, errors.GarbageArguments),
        (5, errors.RemoteSystemError),
    ):
        with pytest.raises(error):
            message.decode_reply(at(start, header + words(stat)), XID)
    with pytest.raises(errors.ProgramMismatch) as caught:
        message.decode_reply(at(start, header + words(2, 3, 4)), XID)
    assert (caught.value.low, caught.value.high) == (3, 4)


@pytest.mark.parametrize("version", [0, 1, 3])
def test_a_call_of_another_rpc_version_is_answered_word_for_word(version: int) -> None:
    with pytest.raises(CallRefused) as caught:
        message.decode_call(Decoder(words(XID, 0, version)))
    assert bytes(caught.value.reply) == words(XID, 1, 1, 0, 2, 2)


@each_case(("header", "stat"), [((1, 401), AuthStat.AUTH_BADCRED), ((0, 0, 1, 401), AuthStat.AUTH_BADVERF)])
def test_a_body_without_bounds_is_answered_word_for_word(header: tuple[int, ...], stat: AuthStat) -> None:
    with pytest.raises(CallRefused) as caught:
        message.decode_call(Decoder(words(XID, 0, 2, 7, 1, 1, *header)))
    assert bytes(caught.value.reply) == words(XID, 1, 1, 1, stat)


@each_case("stat", list(AcceptStat))
def test_accepted_replies_are_encoded_word_for_word(stat: AcceptStat) -> None:
    enc = Encoder()
    message.encode_accepted(enc, XID, stat, low=3, high=9)
    assert bytes(enc.reduced) == words(XID, 1, 0, 0, 0, stat, *((3, 9) if stat == AcceptStat.PROG_MISMATCH else ()))


def test_the_first_words_tell_the_xid_and_the_direction() -> None:
    class Begun(bytes):
        """A message of which `size` octets count, in memory that goes on with more."""

        size = 0

        def __len__(self) -> int:
            return self.size

    for kind in (0, 1, 2):
        octets = Begun(words(XID, kind, 0xFFFFFFFF))
        for octets.size in range(12):
            assert message.peek_xid(octets) == (XID if octets.size >= 4 else None)
            assert message.peek_is_call(octets) is (kind == 0 and octets.size >= 8)
        assert message.peek_xid(words(XID, kind)[:3]) is None
