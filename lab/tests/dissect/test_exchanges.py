"""Messages grouped by call."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dissected_captures import READ, call, dissected, reply
from rpcrdma.commands import own_definition_text
from rpcrdma_lab import limits as lab_limits
from rpcrdma_lab.dissect.connection import Settings
from rpcrdma_lab.dissect.exchange_page import exchange_page
from rpcrdma_lab.dissect.exchange_text import exchange_lines
from rpcrdma_lab.dissect.exchanges import Exchange, Exchanges
from rpcrdma_lab.dissect.fields import Field, FieldFault, Message
from rpcrdma_lab.dissect.rpc_body import Interfaces
from support.cases import each_case
from support.functions_entered import instructions_run
from support.nfs4_client import ANONYMOUS, getattr_, putfh, sequence
from support.nfs4_client import read as read_operation
from support.octets import words
from support.raw_capture import CLIENT, SERVER, HandMadeCapture
from transmission_talk import response

ERR_CHUNK = 2
Script = Callable[[HandMadeCapture], None]


@pytest.fixture
def grouped(tmp_path: Path) -> Callable[..., list[Exchange]]:
    """The exchanges after the start-up frames."""

    def of(script: Script, known: Interfaces | None = None) -> list[Exchange]:
        file = tmp_path / "capture.pcap"
        with HandMadeCapture(file) as capture:
            script(capture)
        found = list(Exchanges().each(dissected(file, known)))
        assert [one.number for one in found[0].messages] == [1, 2]
        return found[1:]

    return of


def numbers(exchanges: list[Exchange]) -> list[tuple[int | None, list[int]]]:
    return [(exchange.xid, [message.number for message in exchange.messages]) for exchange in exchanges]


def test_calls_that_overlap_come_in_the_order_in_which_they_begin(grouped) -> None:
    def script(capture: HandMadeCapture) -> None:
        capture.send(CLIENT, call(7))
        capture.send(CLIENT, call(8))
        capture.send(SERVER, reply(8))
        capture.send(SERVER, reply(7))

    assert numbers(grouped(script)) == [(7, [3, 6]), (8, [4, 5])]


def test_operations_on_a_call_s_memory_belong_to_the_call(grouped) -> None:
    def script(capture: HandMadeCapture) -> None:
        chunk = words(0, 1, 1, 0x55, 4096, 0, 0x2000, 0, 0)
        capture.send(CLIENT, call(7, READ, chunk))
        capture.send(CLIENT, call(8))
        capture.write(SERVER, 0x55, 0x2000, bytes(10))
        capture.write(SERVER, 0x66, 0x2000, bytes(10))
        capture.send(SERVER, reply(8))
        capture.send(SERVER, reply(7))

    assert numbers(grouped(script)) == [(7, [3, 5, 8]), (8, [4, 7]), (None, [6])]


def test_a_refused_call_has_failed_and_is_whole(grouped) -> None:
    def script(capture: HandMadeCapture) -> None:
        capture.send(CLIENT, call(7))
        capture.send(SERVER, words(7, 1, 32, 4, ERR_CHUNK))
        capture.send(CLIENT, call(8))
        capture.send(SERVER, reply(8))

    refused, answered = grouped(script)
    assert (refused.outcome, refused.failed, refused.whole) == ("ERR_CHUNK", True, True)
    assert (answered.outcome, answered.failed) == ("SUCCESS", False)


def test_calls_without_an_answer_and_answers_without_a_call_are_shown(grouped) -> None:
    def script(capture: HandMadeCapture) -> None:
        capture.send(SERVER, reply(7))
        capture.send(CLIENT, call(8))

    answer, question = grouped(script)
    assert (answer.xid, answer.requester.partition(":")[0], answer.procedure) == (7, "192.0.2.1", None)
    assert (question.xid, question.outcome, question.failed) == (8, "no answer", True)


def test_each_direction_has_its_own_xids(grouped) -> None:
    def script(capture: HandMadeCapture) -> None:
        capture.send(CLIENT, call(7))
        capture.send(SERVER, call(7))
        capture.send(CLIENT, reply(7))
        capture.send(SERVER, reply(7))

    forward, reverse = grouped(script)
    assert numbers([forward, reverse]) == [(7, [3, 6]), (7, [4, 5])]
    assert (forward.requester, forward.responder) == (reverse.responder, reverse.requester)


@each_case("limit", [("EXPLAINED_MESSAGES_MAX", 3), ("EXPLAINED_HELD_OCTETS_MAX", 40_000)])
def test_no_more_messages_are_held_than_the_bounds(grouped, monkeypatch, limit) -> None:
    monkeypatch.setattr(lab_limits, *limit)

    def script(capture: HandMadeCapture) -> None:
        capture.send(CLIENT, call(7))
        for xid in range(8, 12):
            capture.send(CLIENT, call(xid))
            capture.send(SERVER, reply(xid))
        capture.send(SERVER, reply(7))

    assert numbers(grouped(script)) == [(8, [4, 5]), (9, [6, 7]), (10, [8, 9]), (7, [3, 12]), (11, [10, 11])]


def test_unanswered_calls_add_no_work_to_a_further_call(monkeypatch: pytest.MonkeyPatch) -> None:
    def work_beside(calls: int) -> int:
        monkeypatch.setattr(lab_limits, "EXPLAINED_MESSAGES_MAX", calls)
        exchanges, found = Exchanges(), list[Exchange]()
        for number in range(calls + 1):
            message = Message("rpcrdma", "", number=number, facts={"xid": number, "message": "call"})
            work = instructions_run(lambda message=message: found.extend(exchanges.add(message)))
        assert [each.xid for each in found] == [0]
        return work

    assert work_beside(200) < 1.2 * work_beside(10)


def test_a_message_that_does_not_end_holds_back_no_call_beyond_the_bound(grouped, monkeypatch) -> None:
    monkeypatch.setattr(lab_limits, "EXPLAINED_MESSAGES_MAX", 3)

    def script(capture: HandMadeCapture) -> None:
        more = 2
        for xid in (6, 7, 8):
            capture.send(CLIENT, words(xid, 2, 0x00200001, 0, more, 0, 0, 0, 0) + call(xid)[28:])
        for xid in range(9, 13):
            capture.send(CLIENT, call(xid))
            capture.send(SERVER, reply(xid))

    found = grouped(script)
    assert sorted(exchange.xid or 0 for exchange in found if not exchange.whole) == [6, 7, 8]
    assert [exchange.xid for exchange in found if exchange.whole] == [9, 10, 11, 12]


@each_case("end", [CLIENT, SERVER])
@each_case("piece", [words(7, 2, 0x00200001, 0, 3, 0, 0, 0, 0) + reply(7)[28:], response(count=2)])
def test_an_unfinished_reply_is_sent_by_the_responder_and_belongs_to_its_call(grouped, piece, end) -> None:
    """By MORE, or in transmissions of the round-trip extension."""

    def script(capture: HandMadeCapture) -> None:
        capture.send(end, piece)
        capture.send(1 - end, words(8, 2, 0x00200001, 0, 0, 0, 0, 0, 0) + call(8)[28:])
        capture.send(end, words(8) + piece[4:])

    found = grouped(script)
    assert numbers(found) == [(7, [3]), (8, [4, 5])]
    senders = {CLIENT: "192.0.2.1:40000", SERVER: "192.0.2.2:20049"}
    assert [(one.requester, one.responder) for one in found] == [(senders[1 - end], senders[end])] * 2
    assert [one.outcome for one in found] == ["no answer"] * 2


def test_messages_outside_of_calls_hold_back_no_call_of_another_connection() -> None:
    exchanges = Exchanges()
    told = []
    for number, connection, facts in (
        (1, 1, {}),
        (2, 2, {"message": "call", "xid": 7}),
        (3, 2, {"message": "reply", "xid": 7, "answers": 2}),
        (4, 1, {}),
    ):
        message = Message("rdmap", "", number, connection=connection, facts=facts)
        told += [(exchange.xid, number) for exchange in exchanges.add(message)]
    assert told == [(None, 3), (7, 3)], "and both at once"
    assert numbers(list(exchanges.finish())) == [(None, [4])]


def test_a_procedure_is_chosen_by_its_name_with_or_without_the_program(grouped) -> None:
    (found,) = grouped(lambda capture: capture.send(CLIENT, call(7)))
    assert [found.is_of(name) for name in ("GETATTR", "getattr", "NFS_V3 GETATTR", "GET", "NFS_V3", "READ")] == [
        *(True, True, True),
        *(False, False, False),
    ]


def test_the_name_of_a_compound_has_only_so_many_operations(grouped) -> None:
    known = Interfaces()
    known.add(own_definition_text("nfs4.x"), "nfs4.x")
    count = lab_limits.DISSECTED_OPERATIONS_MAX + 1
    header = words(7, 0, 2, 100003, 4, 1, 0, 0, 0, 0)
    compound = words(7, 1, 32, 0, 0, 0, 0) + header + words(0, 1, count, *[24] * count)
    (found,) = grouped(lambda capture: capture.send(CLIENT, compound), known)
    assert found.procedure == f"NFS_V4 {'PUTROOTFH+' * (count - 1)}..."
    assert found.is_of("PUTROOTFH")


def test_a_compound_of_version_4_has_the_names_of_its_operations(grouped) -> None:
    known = Interfaces()
    known.add_when_met(100003, 4, lambda: own_definition_text("nfs4.x"), "nfs4.x")
    operations = [sequence(bytes(16), 1), putfh(b"file"), read_operation(ANONYMOUS, 0, 100), getattr_(1 << 4)]
    header = words(7, 0, 2, 100003, 4, 1, 0, 0, 0, 0)
    compound = words(7, 1, 32, 0, 0, 0, 0) + header + words(0, 1, len(operations)) + b"".join(operations)
    (found,) = grouped(lambda capture: capture.send(CLIENT, compound), known)
    assert found.procedure == "NFS_V4 SEQUENCE+PUTFH+READ+GETATTR"
    assert [found.is_of(name) for name in ("read", "GETATTR", "WRITE")] == [True, True, False]
    arguments = found.body("arguments")
    assert arguments is not None
    assert [each.value for each in arguments.walk() if each.name == "count"] == [100]


def test_names_from_the_wire_reach_neither_the_terminal_nor_the_page_as_they_are(grouped) -> None:
    name = b"\x1b[2J</script><b>&'\""
    lookup = call(7, 3) + words(4, 0x01020304, len(name)) + name + bytes(-len(name) & 3)

    def script(capture: HandMadeCapture) -> None:
        capture.send(CLIENT, lookup)

    exchanges = grouped(script)
    exchanges[0].messages[0].groups.append(hostile := exchanges[0].messages[0].groups[0])
    hostile.name = name.decode()
    exchanges[0].messages[0].summary = name.decode()
    page = exchange_page(name.decode(), exchanges).text
    assert page.count("</script>") == 2
    assert "<b>&" not in page
    lines = list(exchange_lines(exchanges[0]))
    assert all(character in range(ord(" "), ord("~") + 1) for line in lines for character in line.encode())
    assert max(map(len, lines)) <= 72


@each_case("limit", [("EXPLAINED_PAGE_MESSAGES_MAX", 3), ("EXPLAINED_PAGE_FILE_OCTETS_MAX", 10_000)])
def test_a_page_leaves_out_calls_beyond_its_bounds_and_says_so(grouped, monkeypatch, limit) -> None:
    monkeypatch.setattr(lab_limits, *limit)

    def script(capture: HandMadeCapture) -> None:
        for xid in range(7, 10):
            capture.send(CLIENT, call(xid))
            capture.send(SERVER, reply(xid))

    page = exchange_page("a capture", grouped(script))
    assert (page.shown, page.left_out) == (1, 2)
    assert page.text.count("<details") == 1


def test_a_page_shows_so_many_fields_of_a_message_and_counts_the_others(grouped, monkeypatch) -> None:
    monkeypatch.setattr(lab_limits, "EXPLAINED_PAGE_FIELDS_MAX", 30)
    (exchange,) = grouped(lambda capture: capture.send(CLIENT, call(7)))
    fields = [Field(f"name {number}", 4 * number) for number in range(99)]
    exchange.messages[0].groups = [Field("RPC", 0, fields=fields[:20]), Field("results", 0, fields=fields)]
    page = exchange_page("a capture", [exchange]).text
    assert page.count('"name ') == 30
    assert '"name 9", ' in page
    assert "and 89 more fields" in page


def test_a_message_whose_header_cannot_be_read_is_the_call_that_an_error_refuses(grouped) -> None:
    def script(capture: HandMadeCapture) -> None:
        capture.send(CLIENT, words(7, 9, 32, 0, 0, 0, 0))
        capture.send(SERVER, words(7, 9, 32, 4, 1, 1, 2))
        capture.send(CLIENT, words(8, 1, 32, 5))
        capture.send(SERVER, words(8, 1, 32, 4, ERR_CHUNK))

    found = grouped(script)
    assert numbers(found) == [(7, [3, 4]), (8, [5, 6])]
    assert [exchange.outcome for exchange in found] == ["ERR_VERS", "ERR_CHUNK"]


@each_case(
    "octets",
    [words(7, 1, 32, 3), words(7, 2, 0x00200001, 0x104, 1, 7, 2, 1, 0, 3), words(7, 2, 0x00200001, 0x104, 1)],
)
def test_a_message_that_is_never_a_call_takes_the_place_of_none(grouped, octets) -> None:
    """An RDMA_DONE, a report with a wrong field, and one that is cut off; all with the XID of their sender's call."""

    def script(capture: HandMadeCapture) -> None:
        capture.send(CLIENT, call(7))
        capture.send(CLIENT, octets)
        capture.send(SERVER, reply(7))

    found = grouped(script)
    assert numbers(found) == [(7, [3, 5]), (None, [4])]
    assert found[1].messages[0].faults


def test_arguments_that_rpcsec_gss_may_wrap_are_not_read() -> None:
    names = Interfaces()
    names.add("struct word { int it; };\nprogram P { version P_V1 { void TRY(word) = 1; } = 1; } = 77;", "p.x")
    for flavor, read in ((0, True), (6, False)):
        conversation = Settings(names).conversation()
        message = Message("rdmap", "", number=1)
        rpc = words(7, 0, 2, 77, 1, 1, flavor, 0, 0, 0, 99)
        conversation.send(0, words(7, 1, 32, 0, 0, 0, 0) + rpc, message)
        assert message.facts["procedure"] == "P_V1 TRY"
        assert any(group.name.endswith("arguments") for group in message.groups) is read


@each_case(("deliberate", "of_client", "of_both"), [(False, ["wrong"], 2), (True, ["deliberate"], 1)])
def test_the_deliberate_mistakes_of_a_checker_are_told_from_those_of_the_server(
    tmp_path: Path, *, deliberate: bool, of_client: list[str], of_both: int
) -> None:
    """Captures of `rpcrdma check` and `send` mark their own end."""
    file = tmp_path / "capture.pcap"
    with HandMadeCapture(file, deliberate=deliberate) as capture:
        capture.send(CLIENT, call(7, lists=words(2, 0, 0)))
        capture.send(SERVER, reply(7)[:16] + words(0, 2, 0) + reply(7)[28:])
    found = list(Exchanges().each(dissected(file)))
    lines = [line for one in found for line in exchange_lines(one)]
    kinds = [kind for line in lines for kind in ("wrong", "deliberate") if f"{kind}: " in line]
    assert kinds == [*of_client, "wrong"]
    assert sum(len(one.faults) for one in found) == of_both
    assert sum(len(one.deliberate_faults) for one in found) == 2 - of_both
    page = exchange_page("x", found).text
    assert (", deliberate: " in page, page.count("<div class='fault'>")) == (deliberate, of_both)


def test_a_page_holds_no_characters_that_act_on_a_reader() -> None:
    hostile = "\x1b]0;\x07\x9b\udcff<script>'\"&\u202e"
    fault = FieldFault(hostile, 0, hostile, hostile)
    fields = [Field(hostile, 0, 4, hostile, hostile, hostile, hostile)]
    groups = [Field(f"{hostile} arguments", 0, 4, fields=fields), Field(hostile, 0, 4, fields=fields)]
    facts = {"xid": 1, "message": "call", "procedure": hostile, "version": hostile, "error": hostile, "octets": 9}
    message = Message("roce", hostile, 1, 0.0, hostile, "b", 1, groups, [fault], [hostile], facts, bytes(9))
    text = exchange_page(hostile, Exchanges().each([message])).text
    assert not [each for each in text if not each.isprintable() and each != "\n"]
    assert text.count("<script") == exchange_page("", []).text.count("<script")
    assert "'\"&\\u202e" not in text
