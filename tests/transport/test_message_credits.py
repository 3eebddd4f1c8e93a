"""Credits that count messages: the words of headers, and their effect at either end."""

from __future__ import annotations

import pytest

from rpcrdma.limits import SPARE_RECEIVES, UNREAD_SENDS_MAX
from rpcrdma.transport.message import Cause, Inbound, Kind, Outgoing, OutgoingError, OutgoingProperties, Refusal
from rpcrdma.transport.message_credits import CREDITS_MAX, MessageWindow
from support.cases import each_case
from window_space import admitted


class Call(Outgoing):
    kind = Kind.CALL


class Reply(Outgoing):
    kind = Kind.REPLY


CALL = Call(1, answers_call=False)
REPLY = Reply(1, answers_call=True)
ERROR = OutgoingError(1, 2, Refusal(Cause.SYSTEM), answers_call=True)
PROPERTIES = OutgoingProperties(1, ())


def received(kind: Kind, credit_word: int = 0) -> Inbound:
    return Inbound(kind, 1, credit_word, 2)


def halves(credit_word: int | None) -> tuple[int, int]:
    """Of a word of two halves: the most that can be outstanding, and the new part."""
    assert credit_word is not None
    assert credit_word <= 0xFFFFFFFF
    return credit_word >> 16, credit_word & 0xFFFF


def continued(window: MessageWindow, message: Outgoing) -> int | None:
    """The credit word of a further piece; None if it has to wait."""
    return window.admit_piece(message) if window.balance > 0 else None


def deliver(sender: MessageWindow, receiver: MessageWindow, message: Outgoing) -> None:
    """Sends a message that goes into one Send, and takes it."""
    word = admitted(sender, message)
    assert word is not None
    inbound = received(message.kind, word)
    assert receiver.on_arrival(inbound)
    if message.kind is not Kind.PROPERTIES:
        assert receiver.on_received(inbound)


def introduced(client: tuple[int, int], server: tuple[int, int]) -> tuple[MessageWindow, MessageWindow]:
    """The windows of a client and a server that have told each other their properties."""
    windows = MessageWindow(*client), MessageWindow(*server)
    deliver(windows[0], windows[1], PROPERTIES)
    deliver(windows[1], windows[0], PROPERTIES)
    return windows


def usable(window: MessageWindow) -> int:
    """Calls that may be sent now."""
    count = 0
    while admitted(window, CALL) is not None:
        count += 1
    return count


def deliver_several(sender: MessageWindow, receiver: MessageWindow, message: Outgoing, count: int) -> None:
    """Sends so many calls, or replies, in one message, and takes them."""
    word = sender.admit_several(message, count)
    assert receiver.on_arrival(received(Kind.EXTENSION, word))
    for _ in range(count):
        assert receiver.on_received(received(message.kind))


def test_what_several_calls_in_one_message_save_is_no_room_for_more() -> None:
    """The peer takes the credits back, but not at once."""
    client, server = introduced((64, 1), (1, 8))
    assert client.balance == 9
    deliver_several(client, server, CALL, 8)
    assert (client.balance, client.in_flight, server.unanswered) == (8, 8, 8)
    assert admitted(client, CALL) is None
    deliver(server, client, REPLY)
    assert client.balance == 8
    assert client.allowed == 8
    for _ in range(7):
        deliver(server, client, REPLY)
    assert (client.balance, client.in_flight, server.unanswered) == (9, 0, 0)
    assert usable(client) == 8


def test_a_grant_within_a_call_does_not_look_like_room_for_another() -> None:
    client, server = introduced((8, 1), (8, 2))
    word = admitted(server, CALL)
    assert word is not None
    assert client.on_arrival(received(Kind.PIECE, word))
    assert client.on_arrival(received(Kind.GRANT))
    assert client.balance == 4, "one of them is for the answer, one is over and above"
    assert client.allowed == 2


@pytest.mark.req("V2-7")
def test_there_is_a_receive_for_a_grant_over_and_above() -> None:
    window = MessageWindow(8, 5)
    assert window.receives_wanted == 1 + 1 + SPARE_RECEIVES
    assert admitted(window, PROPERTIES) is not None
    assert window.receives_wanted == 6 + 1 + SPARE_RECEIVES
    assert window.on_arrival(received(Kind.PROPERTIES, 10))
    assert admitted(window, CALL) is not None
    assert window.receives_wanted == window.outstanding + 1 + SPARE_RECEIVES == 7 + 1 + SPARE_RECEIVES
    window = MessageWindow(2, 1, 3)
    assert admitted(window, PROPERTIES) is not None
    assert window.receives_wanted == 2 + 1 + SPARE_RECEIVES
    window.reserve(3)
    window.grant_word()
    assert window.receives_wanted == window.outstanding + 1 + SPARE_RECEIVES == 5 + 1 + SPARE_RECEIVES


def test_a_call_that_is_never_answered_gives_its_credit_back() -> None:
    client, server = introduced((8, 1), (8, 2))
    for _ in range(2):
        deliver(client, server, CALL)
        server.on_dropped()
    assert admitted(client, CALL) is None
    assert server.refresh_due
    assert client.on_arrival(received(Kind.GRANT, server.grant_word()))
    assert usable(client) == 2


def test_calls_that_were_dropped_and_given_up_take_no_place_of_others() -> None:
    client, server = introduced((2, 1), (8, 2))
    for _ in range(3):
        for _ in range(2):
            deliver(client, server, CALL)
            server.on_dropped()
        assert client.on_arrival(received(Kind.GRANT, server.grant_word()))
        assert admitted(client, CALL) is None, "they may be answered yet"
        client.on_abandoned(2)
    assert usable(client) == 2


def test_a_call_that_is_given_up_keeps_its_place_until_it_ends() -> None:
    client, server = introduced((2, 1), (8, 2))
    for _ in range(2):
        deliver(client, server, CALL)
    client.on_abandoned(1)
    assert admitted(client, CALL) is None, "the server still works on it"
    deliver(server, client, REPLY)
    client.on_abandoned(-1)
    assert client.allowed == client.requested == 2
    assert usable(client) == 1


def test_calls_of_the_peer_are_no_room_for_more_of_ones_own() -> None:
    client, server = introduced((64, 5), (64, 9))
    for count in range(1, 4):
        deliver(client, server, CALL)
        deliver(server, client, CALL)
        deliver(client, server, REPLY)
        deliver(server, client, CALL)
        assert (server.unanswered, client.unanswered) == (count, count)
        assert (client.allowed, server.allowed) == (9, 5)


@each_case("granted", range(1, 9))
def test_credits_are_low_once_half_of_them_are_spent(granted: int) -> None:
    """Only then it is asked whether a grant is due."""
    window = MessageWindow(8, granted)
    assert admitted(window, PROPERTIES) is not None
    for left in range(granted, -1, -1):
        assert window.on_arrival(received(Kind.PROPERTIES))
        assert window.low is (2 * left <= granted + 1)
        assert window.low or not window.refresh_due
    assert not window.on_arrival(received(Kind.PROPERTIES))


def test_unread_sends_are_bounded_by_what_the_peer_gave() -> None:
    client, _ = introduced((8, 1), (8, 9))
    assert client.may_owe(2 * (10 + SPARE_RECEIVES))
    assert not client.may_owe(2 * (10 + SPARE_RECEIVES) + 1)
    assert client.on_arrival(received(Kind.PROPERTIES, CREDITS_MAX))
    assert client.balance == CREDITS_MAX, "no peer gives more"
    assert client.may_owe(2 * (UNREAD_SENDS_MAX + SPARE_RECEIVES))
    assert not client.may_owe(2 * (UNREAD_SENDS_MAX + SPARE_RECEIVES) + 1)


def test_words_of_two_halves() -> None:
    client, server = MessageWindow(8, 3), MessageWindow(2, 5)
    assert halves(admitted(client, PROPERTIES)) == (12, 3), "one of the four was there before"
    assert server.on_arrival(received(Kind.PROPERTIES, 12 << 16 | 3))
    assert server.balance == 4
    assert halves(admitted(server, PROPERTIES)) == (8, 6)
    assert halves(continued(server, PROPERTIES)) == (8, 0)
    assert halves(admitted(server, CALL)) == (8, 1)


@each_case(("requested", "granted"), [(1 << 20, 1), (1, 1 << 20), (70_000, 70_000), (65_535, 65_535)])
def test_no_more_is_given_than_two_octets_hold(requested: int, granted: int) -> None:
    window = MessageWindow(requested, granted)
    word = admitted(window, PROPERTIES)
    assert halves(word) == (CREDITS_MAX, min(granted, CREDITS_MAX - 1))
    assert window.outstanding == min(granted + 1, CREDITS_MAX)


@pytest.mark.req("V2-49")
def test_the_words_of_errors_and_of_what_cannot_be_read_give_nothing() -> None:
    client, server = introduced((8, 5), (8, 5))
    before = client.balance
    for message in (received(Kind.ERROR, 7), received(Kind.UNREADABLE, 7), None):
        assert client.on_arrival(message)
    assert client.balance == before
    assert client.outstanding == 2
    deliver(server, client, CALL)
    owed = client.owed
    assert halves(admitted(client, ERROR)) == (14, 0), "what its receiver ignores is not given"
    assert client.owed == owed + 1


@pytest.mark.req("V2-5")
def test_a_grant_gives_something_and_takes_no_credit() -> None:
    client, server = introduced((8, 3), (8, 5))
    for _ in range(6):
        assert server.on_arrival(None)
    balance = server.balance
    assert server.refresh_due
    assert halves(server.grant_word()) == (14, 6)
    assert server.balance == balance
    outstanding, before = client.outstanding, client.balance
    assert client.on_arrival(received(Kind.GRANT, 14 << 16 | 6))
    assert (client.outstanding, client.balance) == (outstanding, before + 6)
