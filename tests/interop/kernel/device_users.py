"""RDMA devices as users meet them: the tests that run over each provider, and the demonstration in each version."""

from __future__ import annotations

from guest import Guest
from lab import Lab, check
from python_layer import PYTHON

__all__: list[str] = []

_TESTS_S = 120.0
_DEMO_S = 60.0
_VERSIONS = ("--rpcrdma-version 1", "--rpcrdma-version 2", "--extension rtr")
_PYTEST = """
cd /data
export RPCRDMA_TEST_DEVICE=ADDRESS HOME=/tmp
python3 -m pytest -k verbs- --tb=short --no-showlocals -p no:cacheprovider tests
"""
_DEMO = """
python3 -m rpcrdma demo --json --address ADDRESS --provider verbs --limit-bytes 2M OPTIONS >/run/demo.json
grep -q '"provider": "verbs"' /run/demo.json || { cat /run/demo.json; exit 1; }
"""


def _show(guest: Guest) -> None:
    start = f"set -e\nulimit -l unlimited\n{PYTHON}"
    guest.run(start + _PYTEST.replace("ADDRESS", guest.address), _TESTS_S)
    for options in _VERSIONS:
        guest.run(start + _DEMO.replace("ADDRESS", guest.address).replace("OPTIONS", options), _DEMO_S)


@check(named=True)
def verbs_show_users_the_same_over_rxe(lab: Lab) -> None:
    """Over a device with memory windows."""
    _show(lab.device_tests)


@check(named=True)
def verbs_show_users_the_same_over_siw(lab: Lab) -> None:
    """Over a device without."""
    guest = lab.device_tests
    guest.run("set -e; rdma link delete rxe0; rdma link add siw0 type siw netdev eth0")
    _show(guest)
    guest.run("set -e; rdma link delete siw0; rdma link add rxe0 type rxe netdev eth0")
