"""Runs pynfs's suite of version 4.1 at our server, and compares its failures with the known ones.

`pynfs_suite.py DIRECTORY [CODE...]`: DIRECTORY is `nfs4.1` of a pynfs that was built there; pynfs is fetched and built
by whoever runs this, since its license is another. CODEs are those of tests or of groups of tests; by default it is
`all`. PYNFS_PYTHON names the Python that has pynfs's needs (ply, setuptools; from 3.13 on xdrlib3); by default it is
this one. The server has a short lease, since pynfs waits for leases to pass. The exit status is 1 if a test fails that
`pynfs_failures.toml` does not name, or if one that it names passes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_KNOWN = Path(__file__).with_name("pynfs_failures.toml")
_LEASE_S = 11
_SERVE = f"""
import functools, sys
from rpcrdma.cli.main import run
from rpcrdma.nfs.v4.server.state import State
State.__init__ = functools.partialmethod(State.__init__, lease_s={_LEASE_S})
sys.exit(run())
"""
_SUITE_S = 1800.0


def main() -> int:
    """Exit status 0 if the failures are the known ones, 1 if not, 2 if pynfs does not run."""
    if len(sys.argv) < 2 or not Path(sys.argv[1], "testserver.py").exists():
        print(
            f"error: no testserver.py in {sys.argv[1:2]}; name the directory nfs4.1 of a built pynfs", file=sys.stderr
        )
        return 2
    with tempfile.TemporaryDirectory(prefix="rpcrdma-pynfs-") as name:
        home = Path(name)
        with _served(home) as port:
            command = [os.environ.get("PYNFS_PYTHON", sys.executable), "testserver.py"]
            command += [f"nfs://127.0.0.1:{port}/data", "--minorversion=1", "--maketree", f"--json={home / 'results'}"]
            done = subprocess.run(
                [*command, *(sys.argv[2:] or ["all"])],
                cwd=sys.argv[1], capture_output=True, text=True, timeout=_SUITE_S, check=False,
            )  # fmt: skip
        if not (home / "results").exists():
            print(f"error: pynfs ended with status {done.returncode}:\n{done.stderr[-2000:]}", file=sys.stderr)
            return 2
        return _judge(json.loads((home / "results").read_text())["testcase"])


def _judge(cases: list[dict[str, object]]) -> int:
    """Prints what differs from the known failures."""
    known = {str(row["code"]): str(row["reason"]) for row in tomllib.loads(_KNOWN.read_text())["failure"]}
    run = {str(case["code"]): case.get("failure") for case in cases if "skipped" not in case}
    failed = {code: failure for code, failure in run.items() if failure is not None}
    for code, failure in failed.items():
        print(f"{code} fails: {known[code]}" if code in known else f"{code} FAILS: {failure}")
    mended = sorted(code for code in known if code in run and code not in failed)
    for code in mended:
        print(f"{code} passes now: take it out of {_KNOWN.name}")
    print(f"{len(run) - len(failed)} of {len(run)} tests of pynfs pass")
    return 1 if mended or failed.keys() - known.keys() else 0


@contextmanager
def _served(home: Path) -> Iterator[int]:
    """Our server with an empty export, /data; its port."""
    (home / "data").mkdir()
    options = ["--no-root-squash", "--state-dir", str(home / "state"), "--json", "--stop-at-eof"]
    options += ["--listen", "tcp://127.0.0.1:0", "--export", f"data={home / 'data'}"]
    with subprocess.Popen(
        [sys.executable, "-c", _SERVE, "serve", *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        for line in server.stdout:
            event = json.loads(line)
            if event["event"] == "listening":
                yield int(event["url"].rpartition(":")[2])
                break
        server.stdin.close()
        server.stdout.read()


if __name__ == "__main__":
    sys.exit(main())
