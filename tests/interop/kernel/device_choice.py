"""The choice between RDMA devices and the software RNIC, and the doctor, on rxe (RoCE) and on siw (iWARP)."""

from __future__ import annotations

from failures import CheckFailed
from guest import Guest
from lab import Lab, check
from python_layer import PYTHON

__all__: list[str] = []

_PORT, _TCP_PORT = 20061, 20063
_COMMAND = "python3 -m rpcrdma"
_START = f"""
ulimit -l unlimited
mkdir -p /run/chosen
rm -f /run/chosen.log
{_COMMAND} serve --no-root-squash --state-dir /run/state LISTEN --listen tcp://ADDRESS:{_TCP_PORT} \\
    /run/chosen >/run/chosen.log 2>&1 &
echo $! >/run/chosen.pid
until grep -q 'listening at tcp' /run/chosen.log; do
    kill -0 $(cat /run/chosen.pid) || {{ cat /run/chosen.log; exit 1; }}
    sleep 0.2
done
"""
_STOP = """
kill $(cat /run/chosen.pid)
while kill -0 $(cat /run/chosen.pid) 2>/dev/null; do sleep 0.2; done
! grep -E 'Traceback|ERROR' /run/chosen.log
"""
_PING = f"{_COMMAND} ping -v --count 3 "


def _run(guest: Guest, script: str) -> str:
    return guest.run(f"set -e\nexec 2>&1\n{PYTHON}{script.replace('ADDRESS', guest.address)}", 120.0).output


def _expect(said: str, *expected: str) -> None:
    for text in expected:
        if text not in said:
            raise CheckFailed(f"not said: {text}\n{said}")


def _serving(guest: Guest, listen: str, *scripts: str) -> list[str]:
    """The output of the server at its start, and the output of each script that runs meanwhile."""
    said = [_run(guest, _START.replace("LISTEN", listen) + "cat /run/chosen.log")]
    said += [_run(guest, script) for script in scripts]
    _run(guest, _STOP)
    return said


@check(quick=True)
def verbs_are_chosen_where_a_device_reaches(lab: Lab) -> None:
    """Without --provider at either end; and the software RNIC where the server has no device, or does not use it."""
    guest = lab.devices
    place = f"rdma://ADDRESS:{_PORT}"
    started, by_device, over_tcp, examined = _serving(
        guest,
        f"--listen {place} --listen rdma://127.0.0.1:{_PORT}",
        _PING + place,
        f"{_PING} --provider iwarp {place}",
        f"{_COMMAND} doctor {place}",
    )
    _expect(started, "over verbs (rxe0) and iwarp\n", f"rdma://127.0.0.1:{_PORT} over iwarp\n")
    _expect(by_device, "provider verbs (rxe0)\n", "provider verbs (rxe0), inline")
    _expect(over_tcp, "provider iwarp\n")
    _expect(
        examined,
        "device rxe0     RoCE on eth0: port 1 active (Ethernet)",
        "memory windows, RDMA Reads outstanding",
        "provider verbs  provider auto uses a device",
        "control group   no limit on RDMA devices",
        "is an address of this machine, of rxe0 (RoCE, active): provider auto tries that first",
        "over verbs (rxe0): connected in",
    )
    started, by_device, over_tcp = _serving(
        guest,
        f"--listen '{place}?provider=iwarp' --listen 'rdma://ADDRESS:{_PORT + 1}?provider=verbs'",
        f"{_PING}rdma://ADDRESS:{_PORT + 1}",
        _PING + place,
    )
    _expect(started, f"{_PORT} over iwarp\n", f"{_PORT + 1} over verbs (rxe0)\n")
    _expect(by_device, "provider verbs (rxe0)\n")
    _expect(over_tcp, "by provider verbs: ", "refused; trying provider iwarp", "provider iwarp\n")


@check()
def verbs_are_chosen_on_siw(lab: Lab) -> None:
    """The device takes the port of TCP, at which the software RNIC's clients reach it as well."""
    place = f"rdma://ADDRESS:{_PORT}"
    started, by_device = _serving(lab.client, f"--listen {place}", f"ulimit -l unlimited; {_PING}{place}")
    _expect(started, "over verbs (siw0)\n", "not by provider iwarp: address already in use")
    _expect(by_device, "provider verbs (siw0)\n")
