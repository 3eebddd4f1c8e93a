"""A shell in a guest, by hand: `shell.py [client|server]`.

`client` can mount our server, which serves an empty directory of this machine; `server` serves /srv with nfsd.
"""

from __future__ import annotations

import argparse
import os
import select
import socket
import sys
import termios
import tty

from failures import CheckFailed, GuestDied, JobTimeout, Missing
from guest import Guest
from image import build_image
from kernel_server import start_kernel_server
from lab import MOUNT_OPTIONS, Lab
from network import HOST, enter_own_network

__all__ = ["main"]

_END = b"\x1d"
"""Ctrl-], as in telnet."""


def main() -> int:
    """The shell's end is the guest's end."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", nargs="?", choices=("client", "server"), default="client")
    args = parser.parse_args()
    try:
        image = build_image()
        enter_own_network()
        with Lab(image) as lab:
            if args.kind == "server":
                start_kernel_server(lab.server)
                _attach(lab.server, f"nfsd serves /srv at {lab.server.address}; this machine is {HOST}")
            else:
                with lab.our_server() as server:
                    words = f"mount.nfs {HOST}:/ /mnt -o {MOUNT_OPTIONS}"
                    _attach(lab.client, f"our server serves {server.directory}; mount it with\n  {words}")
    except (Missing, GuestDied, JobTimeout, CheckFailed) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _attach(guest: Guest, words: str) -> None:
    """Joins this terminal and the guest's until Ctrl-] or the end of standard input."""
    print(f"{words}\nCtrl-] ends the guest.", flush=True)
    keyboard, screen = sys.stdin.fileno(), sys.stdout.fileno()
    settings = termios.tcgetattr(keyboard) if os.isatty(keyboard) else None
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(str(guest.terminal))
        line.sendall(b"\n")
        try:
            if settings:
                tty.setraw(keyboard)
            while True:
                ready, _, _ = select.select([keyboard, line], [], [])
                if line in ready:
                    said = line.recv(65536)
                    if not said:
                        return
                    os.write(screen, said)
                if keyboard in ready:
                    typed = os.read(keyboard, 4096)
                    before, end, _ = typed.partition(_END)
                    line.sendall(before)
                    if end or not typed:
                        return
        finally:
            if settings:
                termios.tcsetattr(keyboard, termios.TCSADRAIN, settings)


if __name__ == "__main__":
    sys.exit(main())
