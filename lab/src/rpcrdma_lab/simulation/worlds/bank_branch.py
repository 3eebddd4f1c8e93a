"""The bank of simulated worlds and its customers: services whose handlers record each of their runs."""

from __future__ import annotations

import asyncio
import zlib
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from rpcrdma import ReturningClient
from rpcrdma.errors import RpcRdmaError
from rpcrdma.rpc import CallContext
from rpcrdma_lab.simulation import bank
from rpcrdma_lab.simulation.worlds.history import CallMade, HandlerRun, History

__all__ = ["BankBranch", "Books", "Customer", "statement_text"]

_NOTICE_TIMEOUT_S = 60.0
_PRINTING_S = 0.0005


def statement_text(entry: int, octets: int) -> bytes:
    """Returns the text of a bank statement or extract: the number of its journal entry, repeated to `octets` octets."""
    line = b"%012d " % entry
    return (line * (octets // len(line) + 1))[:octets]


@dataclass(slots=True)
class Books:
    """The journal and the balances (by account) of a simulated bank, which persist when its server crashes."""

    entries: int = 0
    """The number of entries in the journal."""
    balances: dict[int, int] = field(default_factory=lambda: defaultdict(int))


class BankBranch(bank.BANK_V1_Service):
    """The bank service of one simulated server, from one start of the server to the next.

    Its handlers record their runs in `history`. When a customer that has joined gets money, the service
    calls that customer in the reverse direction, and records this call, too.

    Args:
        server: the number of the server.
        boot: the number of starts of the server so far, with this one.
        history: the record of the world.
        books: the journal and balances.
        stalled_until_s: returns, for a server's number, the virtual time in seconds until which its handlers wait.
    """

    IDEMPOTENT = frozenset({bank.BANK_JOIN.number})

    def __init__(
        self, server: int, boot: int, history: History, books: Books, stalled_until_s: Callable[[int], float]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._server = server
        self._boot = boot
        self._history = history
        self._books = books
        self._stalled_until_s = stalled_until_s
        self._customers: dict[int, ReturningClient] = {}
        self._told: dict[int, int] = {}
        self._telling: set[asyncio.Task[None]] = set()

    def _run(self, order: bank.bank_order) -> int:
        """Adds an entry to the journal, and records in the history that a handler runs for `order`.

        Returns the number of the entry, from 1.
        """
        self._books.entries += 1
        run = HandlerRun(self._boot, self._books.entries, self._loop.time())
        self._history.runs[self._server, order.customer, order.number].append(run)
        return run.entry

    def bank_transfer(self, args: bank.bank_transfer, context: CallContext) -> bank.bank_receipt:
        entry = self._run(args.order)
        balances = self._books.balances
        balances[args.debit] -= args.amount
        balances[args.credit] += args.amount
        if args.credit in self._customers:
            task = self._loop.create_task(self._tell(args.credit, entry))
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)
        return bank.bank_receipt(entry, balances[args.debit], balances[args.credit], zlib.crc32(args.note))

    async def bank_statement(self, args: bank.bank_request, context: CallContext) -> bank.bank_statement:
        await self._print()
        text = context.buffer(args.octets)
        entry = self._run(args.order)
        text[:] = statement_text(entry, args.octets)
        return bank.bank_statement(entry, text)

    async def bank_extract(self, args: bank.bank_request, context: CallContext) -> bank.bank_extract:
        entry = self._run(args.order)
        await self._print()
        return bank.bank_extract(entry, statement_text(entry, args.octets))

    def bank_join(self, args: int, context: CallContext) -> None:
        known = self._customers.get(args)
        if known is None:
            self._customers[args] = ReturningClient(context.client)
        else:
            known.came_back(context.client)

    async def _print(self) -> None:
        """Waits for 0.5 ms of virtual time or, if that is later, until the time to which handlers are stalled."""
        await asyncio.sleep(max(_PRINTING_S, self._stalled_until_s(self._server) - self._loop.time()))

    async def _tell(self, customer: int, entry: int) -> None:
        number = self._told[customer] = self._told.get(customer, 0) + 1
        # Numbers of another start of the server are others.
        number += self._boot << 20
        call = CallMade(customer, self._server, number, "notice", self._loop.time(), _NOTICE_TIMEOUT_S)
        self._history.notices.append(call)
        notice = bank.bank_notice(customer, number, entry)
        try:
            client = bank.CUSTOMER_V1_Client(self._customers[customer])
            call.entry = await client.customer_notice(notice, timeout_s=_NOTICE_TIMEOUT_S)
        except RpcRdmaError as error:
            call.error = error
        call.ended_s = self._loop.time()

    async def settle(self) -> None:
        """Waits until all calls of the bank to its customers, in the reverse direction, have ended or failed."""
        while self._telling:
            await asyncio.wait(self._telling)

    def close(self) -> None:
        """Gives up the customers that have joined for good, and cancels the calls of the bank to customers.

        Does not wait for the cancelled calls.
        """
        for client in self._customers.values():
            client.forget()
        for task in self._telling:
            task.cancel()


class Customer(bank.CUSTOMER_V1_Service):
    """The service of client number `client`, which the bank of server number `server` calls in the reverse direction.

    Its handler records each of its runs in `history`.
    """

    def __init__(self, client: int, server: int, history: History) -> None:
        self._client = client
        self._server = server
        self._history = history
        self._had = 0

    def customer_notice(self, args: bank.bank_notice, context: CallContext) -> int:
        self._had += 1
        self._history.notice_runs[self._client, self._server, args.number].append(self._had)
        return self._had
