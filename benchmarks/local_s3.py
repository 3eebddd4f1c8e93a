"""Files at an S3 server on this machine, for s3fs: moto, in a process of its own and in memory, without encryption."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

BUCKET = "bench"
HINT = "pip install s3fs 'moto[server]'"

_SERVER = """
import json, logging, sys
from moto.server import ThreadedMotoServer

logging.getLogger("werkzeug").setLevel(logging.WARNING)
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(json.dumps(server.get_host_and_port()), flush=True)
sys.stdin.read()
server.stop()
"""


def installed() -> bool:
    return all(importlib.util.find_spec(name) for name in ("s3fs", "moto", "flask"))


@contextlib.contextmanager
def stored(directory: Path, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """A bucket, `BUCKET`, that has these files of the directory; the options for s3fs."""
    import fsspec  # noqa: PLC0415 - where there is no s3fs, nothing here is needed

    with subprocess.Popen(
        [sys.executable, "-c", _SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        host, port = json.loads(server.stdout.readline())
        options = {"endpoint_url": f"http://{host}:{port}", "key": "any", "secret": "any"}
        fs = fsspec.filesystem("s3", **options)
        fs.mkdir(BUCKET)
        for name in names:
            fs.pipe_file(f"{BUCKET}/{name}", Path(directory, name).read_bytes())
        yield options
        server.stdin.close()
