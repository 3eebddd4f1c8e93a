"""The end of the validity of certificates."""

from __future__ import annotations

from base64 import b64decode, b64encode
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rpcrdma.rpc.certificate_dates import first_expiry_s
from support.cases import each_case
from support.host_certificates import Authority

BEGIN, END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"


@each_case("days", [1, 400, 365 * 60])
def test_the_first_certificate_of_a_chain_that_expires_counts(tmp_path: Path, days: int) -> None:
    """The last case is beyond 2049, from when times have years of four digits."""
    authority = Authority(tmp_path)
    before = datetime.now(UTC)
    chain = authority.issue("host.example", days=(-1, days)).read_text() + authority.path.read_text()
    expires = datetime.fromtimestamp(first_expiry_s(chain), UTC)
    assert timedelta(days=min(days, 10), seconds=-1) <= expires - before < timedelta(days=min(days, 10), minutes=5)
    leaf = datetime.fromtimestamp(first_expiry_s(chain.partition(END)[0] + END), UTC)
    assert timedelta(days=days, seconds=-1) <= leaf - before < timedelta(days=days, minutes=5)


def test_text_without_a_whole_certificate_is_refused(tmp_path: Path) -> None:
    whole = Authority(tmp_path).path.read_text()
    octets = b64decode("".join(whole.splitlines()[1:-1]))
    refused = 0
    for broken in (*(octets[:length] for length in range(len(octets))), *(bytes([first]) * 40 for first in range(256))):
        try:
            assert first_expiry_s(f"{BEGIN}\n{b64encode(broken).decode()}\n{END}") == first_expiry_s(whole)
        except ValueError:
            refused += 1
    assert refused > 256 + 100
    with pytest.raises(ValueError, match="empty"):
        first_expiry_s("no certificate")
