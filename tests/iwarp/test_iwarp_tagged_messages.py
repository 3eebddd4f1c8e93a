"""Segments of tagged messages: which one may come, and which rule another one breaks."""

from __future__ import annotations

from collections import deque

from rpcrdma.iwarp.config import ReadyFrame
from rpcrdma.iwarp.segments import READ_REQUEST
from rpcrdma.iwarp.sender import Sender
from rpcrdma.iwarp.tagged import TaggedMessages
from rpcrdma.iwarp.work import ReadWork
from rpcrdma.verbs import Completion, SoftwareProtectionDomain
from support.cases import each_case

HANDLE, BASE = 7, 10_000
SINK_OFFSET, READ_OCTETS = BASE + 100, 500
WRITE, RESPONSE = 0x40, 0x42
GOES_ON, LAST = 0x81, 0xC1


class Scene:
    """With `reading`, two RDMA Reads of 500 octets, the first to octet 100 of the memory."""

    def __init__(self, *, reading: bool = False) -> None:
        self.completions: deque[Completion] = deque()
        pd = SoftwareProtectionDomain(lambda bits: 0)
        self.sender = Sender(pd, self.completions, flush_each_message=False)
        self.tagged = TaggedMessages(pd, self.sender)
        for number in range(2 * reading):
            read = ReadWork(number, READ_REQUEST, READ_OCTETS, 99, 0, HANDLE, SINK_OFFSET + READ_OCTETS * number)
            self.sender.reads.append(read)
            self.sender.in_flight.append(read)

    def code(
        self,
        control: int = LAST,
        rdmap: int = WRITE,
        handle: int = HANDLE,
        offset: int = BASE,
        octets: int = 10,
        ready: ReadyFrame | None = None,
    ) -> int | None:
        """The code of the rule that such a segment breaks."""
        violation = self.tagged.check((14 + octets, control, rdmap, handle, offset), octets, ready)
        return None if violation is None else int(violation[1])


@each_case("version", range(4))
def test_versions_are_one(version: int) -> None:
    scene = Scene()
    assert scene.code(control=0xC0 | version) == (None if version == 1 else 0x1104)
    assert scene.code(rdmap=version << 6) == (None if version == 1 else 0x0205)
    # Reserved bits are not looked at.
    assert scene.code(control=0xFC | version) == (None if version == 1 else 0x1104)
    assert scene.code(rdmap=version << 6 | 0x30) == (None if version == 1 else 0x0205)


@each_case("opcode", range(16))
def test_opcodes_are_those_of_writes_and_expected_responses(opcode: int) -> None:
    assert Scene().code(rdmap=0x40 | opcode) == (None if opcode == 0 else 0x0206)
    expected = {0: None, 2: None}
    assert Scene(reading=True).code(rdmap=0x40 | opcode, offset=SINK_OFFSET, control=GOES_ON) == expected.get(
        opcode, 0x0206
    )


@each_case("ready", [None, *ReadyFrame])
def test_a_ready_frame_is_an_empty_write_if_it_is_a_write(ready: ReadyFrame | None) -> None:
    fits = ready in {None, ReadyFrame.WRITE}
    assert Scene().code(octets=0, ready=ready) == (None if fits else 0x2007)
    assert Scene().code(octets=1, ready=ready) == (None if ready is None else 0x2007)
    assert Scene().code(octets=0, control=GOES_ON, ready=ready) == (None if ready is None else 0x2007)
    response = Scene(reading=True).code(octets=0, control=GOES_ON, rdmap=RESPONSE, ready=ready)
    assert response == (None if ready is None else 0x2007)


@each_case("received", [0, 200])
@each_case(
    ("control", "handle", "shift", "octets", "code"),
    [
        (GOES_ON, HANDLE, 0, 10, None),
        (GOES_ON, HANDLE + 1, 0, 10, 0x1100),
        (GOES_ON, HANDLE, 1, 10, 0x1101),
        (GOES_ON, HANDLE, -1, 10, 0x1101),
        # Neither is looked at in an empty segment.
        (GOES_ON, HANDLE + 1, 1, 0, None),
        (GOES_ON, HANDLE, 0, READ_OCTETS, None),
        (GOES_ON, HANDLE, 0, READ_OCTETS + 1, 0x1101),
        (LAST, HANDLE, 0, READ_OCTETS, None),
        (LAST, HANDLE, 0, READ_OCTETS - 1, 0x1101),
        (LAST, HANDLE, 0, READ_OCTETS + 1, 0x1101),
        (LAST, HANDLE, 0, 0, 0x1101),
        (LAST, HANDLE, 0, 1, 0x1101),
    ],
)
def test_a_response_goes_on_where_it_is_and_ends_where_the_read_does(
    received: int, control: int, handle: int, shift: int, octets: int, code: int | None
) -> None:
    scene = Scene(reading=True)
    scene.sender.reads[0].received = received
    if octets >= READ_OCTETS - 1:
        octets -= received
    offset = SINK_OFFSET + received + shift
    assert scene.code(control, RESPONSE, handle, offset, octets) == code
