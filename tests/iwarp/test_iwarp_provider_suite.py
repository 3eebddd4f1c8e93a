"""The software RNIC is a provider like any other, however its stream is cut and its frames are sized."""

from __future__ import annotations

import random

import pytest

from rpcrdma.iwarp import IwarpConfig, IwarpQueuePair, MpaRole
from rpcrdma.testing.joined_pair import Chunking, JoinedPair, sizes, whole
from rpcrdma.testing.provider_suite import CHECKS, Check, MakePair, PairParts
from rpcrdma.verbs.protection_domain import SoftwareProtectionDomain
from support.cases import each_case
from support.draws import draws


def maker(emss: int, chunking: Chunking, *, crc: bool, peer_to_peer: bool) -> MakePair:
    def make_pair(
        *,
        private_data: bytes = b"",
        inbound_reads: tuple[int, int] = (32, 32),
        outbound_reads: tuple[int, int] = (32, 32),
    ) -> PairParts:
        pds = SoftwareProtectionDomain(draws(1)), SoftwareProtectionDomain(draws(1 << 20))
        ends = [
            IwarpQueuePair(
                role,
                pd,
                IwarpConfig(crc=crc, inbound_reads=inbound, outbound_reads=outbound, peer_to_peer=peer_to_peer),
                emss,
                private_data if role is MpaRole.INITIATOR else b"",
            )
            for role, pd, inbound, outbound in zip(MpaRole, pds, inbound_reads, outbound_reads, strict=True)
        ]
        joined = JoinedPair(*ends, chunking=chunking)
        return PairParts(ends[0], pds[0], ends[1], pds[1], joined.progress)

    return make_pair


KINDS = {
    "loopback frames": maker(65483, whole, crc=True, peer_to_peer=False),
    "ethernet frames": maker(1448, whole, crc=True, peer_to_peer=True),
    "no crc": maker(32741, whole, crc=False, peer_to_peer=False),
    "random cuts": maker(8948, sizes(random.Random(11).randint), crc=True, peer_to_peer=False),
}


def test_a_joined_end_without_room_for_octets_is_no_endless_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = maker(1448, whole, crc=True, peer_to_peer=False)()
    monkeypatch.setattr(IwarpQueuePair, "next_buffers", lambda _: [])
    with pytest.raises(AssertionError, match="no buffer"):
        pair.progress()


@pytest.mark.req("DDP-19", "DDP-20", "RD-12", "RD-17", "DDP-3", "MPA-21", "RD-10", "V2-3", "V2-64")
@each_case("kind", KINDS)
@each_case("check", CHECKS)
def test_the_software_rnic_is_a_provider(kind: str, check: Check) -> None:
    check(KINDS[kind])
