"""From the definition to the octets: an item that a pragma names may be placed directly; no other is taken out."""

from __future__ import annotations

import re
from typing import Any

import pytest

from rpcrdma.commands.definition import own_definition
from rpcrdma.testing.endpoint_pair import EndpointPair
from rpcrdma.transport import ReplyArrived, ReplyBound, TransportConfig
from rpcrdma.xdr.codec import Decoder, Encoder, Payload, PlacedByPosition, PlacedInOrder, ReducedIneligibleItem
from rpcrdma.xdr.language import compile_source
from support.cases import each_case
from support.compiled import load

# Every place where octets and texts may stand, as a pair: `named` by a pragma, and not.
DEFINITION = """
typedef string path<16>;
typedef opaque body<16>;
struct texts { string plain<16>; string named<16>; path plain_path; path named_path; path *maybe; };
struct octets { opaque plain<16>; opaque named<16>; body plain_body; body named_body; body *maybe; };
union choice switch (unsigned which) {
    case 0: string plain<16>; case 1: string named<16>; case 2: opaque octets<16>; case 3: opaque eligible<16>;
    case 4: path where; case 5: body what;
};
struct entry { path name; body value; entry *next; };
struct many { path names<4>; entry *entries; };
pragma ddp texts.named; pragma ddp texts.named_path; pragma ddp octets.named; pragma ddp octets.named_body;
pragma ddp choice.named; pragma ddp choice.eligible;
"""

LONG = "sixteen octets ."
BODY = LONG.encode()


def values(module: Any) -> list[tuple[str, Any, int]]:
    """(type, value, how many of its items are eligible)."""
    return [
        ("texts", module.texts(LONG, LONG, LONG, LONG, LONG), 2),
        ("octets", module.octets(BODY, BODY, BODY, BODY, BODY), 2),
        *[("choice", module.choice(which, LONG), int(which == 1)) for which in (0, 1, 4)],
        *[("choice", module.choice(which, BODY), int(which == 3)) for which in (2, 3, 5)],
        ("many", module.many([LONG, LONG], [module.entry(LONG, BODY), module.entry(LONG, BODY)]), 0),
    ]


def encoded(module: Any, kind: str, value: Any) -> Payload:
    encoder = Encoder()
    getattr(module, f"encode_{kind}")(encoder, value)
    return encoder


def decode(module: Any, kind: str, decoder: Decoder) -> Any:
    value = getattr(module, f"decode_{kind}")(decoder)
    decoder.done(kind)
    return value


@pytest.mark.req("V1-12", "V1-13", "V1-75", "V2-15")
def test_only_what_a_pragma_names_is_taken_out_by_the_encoder() -> None:
    module = load(DEFINITION)
    for kind, value, eligible in values(module):
        payload = encoded(module, kind, value)
        assert [bytes(item.data) for item in payload.items] == [BODY] * eligible, (kind, value)
        stream = b"".join(payload.gather())
        # All that is not eligible stands in the reduced stream.
        assert bytes(payload.reduced).count(BODY) == stream.count(BODY) - eligible


@pytest.mark.req("V1-12", "V1-13", "V1-63", "V1-75", "V2-15", "V2-67")
def test_only_what_a_pragma_names_is_taken_from_a_chunk_by_the_decoder() -> None:
    """Each text and each octets of each value is taken out of the stream in turn, as by a peer that may or may not."""
    module = load(DEFINITION)
    for kind, value, _ in values(module):
        payload = encoded(module, kind, value)
        stream = b"".join(payload.gather())
        eligible = [item.position for item in payload.items]
        for match in re.finditer(re.escape(BODY), stream):
            at = match.start()
            reduced = stream[:at] + stream[match.end() :]
            placed = PlacedByPosition({at: memoryview(BODY)})
            if at in eligible:
                assert decode(module, kind, Decoder(reduced, placed=placed)) == value
            else:
                # For any content of the shortened stream, the chunk belongs to no item.
                with pytest.raises(ReducedIneligibleItem):
                    decode(module, kind, Decoder(stream, placed=placed))
        if not eligible:
            with pytest.raises(ReducedIneligibleItem):
                decode(module, kind, Decoder(stream, placed=PlacedInOrder([memoryview(BODY)])))


LARGE = """
struct args { string name<20000>; opaque data<20000>; string where<20000>; opaque rest<20000>; };
pragma ddp args.data; pragma ddp args.where;
"""


@pytest.mark.req("V1-12", "V1-13", "V1-75", "V2-15")
@each_case("version", ["1", "2"])
# The rest is inline, or in a Long message.
@each_case("plain", [100, 9000])
def test_what_is_not_eligible_is_in_no_chunk_of_its_own_on_the_way(plain: int, version: str) -> None:
    module = load(LARGE)
    args = module.args("n" * plain, b"d" * 9001, "w" * 9002, b"r" * plain)
    small = TransportConfig(
        inline_send_octets=4096,
        inline_receive_octets=4096,
        offered_send_octets=4096,
        offered_receive_octets=4096,
        in_messages_octets_max=0,
    )
    pair = EndpointPair(small, small, version=version).connect()

    def message(direction: int) -> Payload:
        encoder = Encoder()
        encoder.u32(7, "xid")
        encoder.u32(direction, "direction")
        module.encode_args(encoder, args)
        return encoder

    def taken(decoder: Decoder) -> Any:
        decoder.octets(8, "start")
        value = module.decode_args(decoder)
        decoder.done("message")
        return module.args(value.name, bytes(value.data), value.where, bytes(value.rest))

    pair.client.call(7, message(0), ReplyBound(20_100, (20_000, 20_000)))
    (incoming,) = pair.arrived()
    first = 8 + 4 + plain + 4
    items = [(first, 9001), (first + 9004 + 4, 9002)]
    chunks = {chunk.position: chunk.length for chunk in incoming.chunks.reads}
    long = chunks.pop(0, None)
    assert (long is not None) is (plain == 9000)
    assert list(chunks.items()) == items
    assert taken(incoming.decoder) == args
    pair.server.reply(incoming, message(1))
    pair.run()
    (event,) = pair.client_events()
    assert isinstance(event, ReplyArrived)
    assert taken(event.decoder) == args


ELIGIBLE = {"WRITE3args.data", "symlinkdata3.symlink_data", "READ3resok.data", "READLINK3resok.data"}


@pytest.mark.req("NF-1", "V1-13", "V1-75", "V2-15")
@each_case(("definition", "eligible"), [("nfs3.x", ELIGIBLE), ("mount3.x", set())])
@each_case("side", ["enc", "dec"])
def test_the_codecs_of_nfs_take_out_what_the_binding_lists(definition: str, eligible: set[str], side: str) -> None:
    """In the text that the compiler writes: every item of every type is there."""
    path = own_definition(definition)
    text = compile_source(path.read_text(), source_name=definition).text
    bulk = set(re.findall(rf'\b{side}\.bulk\w*\([^"]*"([^"]+)"', text))
    inline = set(re.findall(rf'\b{side}\.(?:opaque|string)\([^"]*"([^"]+)"', text))
    assert bulk == eligible
    assert len(inline) >= 1
    assert not inline & bulk


@pytest.mark.req("V1-86")
@each_case("length", range(9))
@each_case("kind", ["string", "opaque"])
def test_padding_is_sent_as_zero_and_never_shown(kind: str, length: int) -> None:
    module = load(f"struct s {{ {kind} a<9>; {kind} b<9>; unsigned last; }}; pragma ddp s.b;")
    value = module.s(*(["x" * length] * 2 if kind == "string" else [b"x" * length] * 2), 0xFFFFFFFF)
    payload = encoded(module, "s", value)
    pad = -length % 4
    one = length.to_bytes(4) + b"x" * length
    assert b"".join(payload.gather()) == (one + bytes(pad)) * 2 + b"\xff" * 4
    # A peer's padding may hold anything, inline as in a Read chunk.
    stray = one + b"y" * pad
    assert decode(module, "s", Decoder(stray * 2 + b"\xff" * 4)) == value
    at = len(stray) + 4
    placed = PlacedByPosition({at: memoryview(b"x" * length + b"y" * pad)})
    assert decode(module, "s", Decoder(stray + one[:4] + b"\xff" * 4, placed=placed)) == value
