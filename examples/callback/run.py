"""A server that calls its clients back on the connections that they made, over RDMA and over TCP.

Run it: `python examples/callback/run.py`.
"""

import asyncio

import auction

import rpcrdma
from rpcrdma.rpc import CallContext


class Auction(auction.AUCTION_V1_Service):
    """Tells everyone who has joined of each bid that beats the ones before."""

    # Who joins again after a lost connection must be heard, not answered from memory.
    IDEMPOTENT = frozenset((auction.AUCTION_JOIN.number,))

    def __init__(self) -> None:
        self._highest = 0
        self._bidders: dict[str, rpcrdma.ReturningClient] = {}

    def auction_join(self, args: str, context: CallContext) -> None:
        # A client that joins offers BIDDER: the server may now call it, on this connection and on later ones.
        known = self._bidders.get(args)
        if known is None:
            self._bidders[args] = rpcrdma.ReturningClient(context.client)
        else:
            known.came_back(context.client)

    async def auction_bid(self, args: auction.bid, context: CallContext) -> bool:
        if args.amount <= self._highest:
            return False
        self._highest = args.amount
        others = [name for name in self._bidders if name != args.bidder]
        await asyncio.gather(*(self._tell(name, args) for name in others))
        return True

    async def _tell(self, name: str, bid: auction.bid) -> None:
        client = auction.BIDDER_V1_Client(self._bidders[name])
        try:
            stays = await client.bidder_outbid(bid, timeout_s=5.0)
        except rpcrdma.RpcRdmaError:
            # The bidder stays away, or does not answer.
            stays = False
        if not stays:
            del self._bidders[name]


class Bidder(auction.BIDDER_V1_Service):
    """Answers the server's calls on this client's connection."""

    def __init__(self, name: str, most: int) -> None:
        self._name = name
        self._most = most

    def bidder_outbid(self, args: auction.bid, context: CallContext) -> bool:
        stays = args.amount < self._most
        print(f"{self._name} hears that {args.bidder} bids {args.amount}, and {'stays' if stays else 'leaves'}")
        return stays


async def main() -> None:
    """Serves and bids in one process; two machines differ in nothing but the URL."""
    async with rpcrdma.serve([Auction()], listen=["rdma://127.0.0.1:0", "tcp://127.0.0.1:0"]) as server:
        over_rdma, over_tcp = server.listening
        as_ann = rpcrdma.ConnectOptions(services=[Bidder("Ann", 100)])
        as_bob = rpcrdma.ConnectOptions(services=[Bidder("Bob", 500)])
        async with (
            rpcrdma.connect(over_rdma, auction.AUCTION_V1, options=as_ann) as ann_connection,
            rpcrdma.connect(over_tcp, auction.AUCTION_V1, options=as_bob) as bob_connection,
        ):
            ann = auction.AUCTION_V1_Client(ann_connection)
            bob = auction.AUCTION_V1_Client(bob_connection)
            await ann.auction_join("Ann")
            await bob.auction_join("Bob")
            await ann.auction_bid(auction.bid(bidder="Ann", amount=50))
            await bob.auction_bid(auction.bid(bidder="Bob", amount=90))
            await bob.auction_bid(auction.bid(bidder="Bob", amount=120))
            await bob.auction_bid(auction.bid(bidder="Bob", amount=130))


asyncio.run(main())
