"""How large a reply can get; see `rpcrdma.rpc.reply_bound`."""

from rpcrdma.rpc.reply_bound import ReplyBound

__all__ = ["ReplyBound"]
