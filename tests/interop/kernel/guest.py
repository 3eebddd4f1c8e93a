"""A Linux kernel in an emulated machine, and jobs in it."""

from __future__ import annotations

import base64
import functools
import os
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from archive import Archive
from failures import CheckFailed, GuestDied, JobTimeout
from image import Image
from network import add_tap
from patience import PACE_MAX, PROBE, PROBE_QUIET_S

__all__ = ["Files", "Guest", "Job", "Result"]

Files = Mapping[str, bytes | Path]
"""Files to be laid into a guest, by their names there."""
_CHANNELS = 5
"""Jobs that run in one guest at the same time; the last channel is kept for measuring its pace."""
_SILENCE_S = 12.0
"""About one boot in a hundred hangs before its first word."""
_BOOT_S = 90.0
_BOOT_OF_DEBIAN_S = 600.0
"""systemd starts some forty processes, each of which is a second of an emulated processor."""
_ATTEMPTS = 3
_GRACE_S = 15.0
"""Extra time for the end of a job: the commands that end it in the guest may wait for the network."""
_TROUBLE = ("Kernel panic", "Oops", "BUG:", "WARNING:", "general protection", "blocked for more than", "Call Trace")


@dataclass(frozen=True)
class Result:
    """A job's standard output and error, and its exit status."""

    output: str
    status: int


class Job:
    """A shell script that runs in a guest, which gets `quiet_s` seconds of a quiet machine for it."""

    def __init__(
        self,
        channel: socket.socket,
        script: str,
        quiet_s: float,
        pace: Callable[[], float],
        done: Callable[[], None],
        console: Callable[[], str],
    ) -> None:
        self._channel = channel
        self._script = script
        self._pace = pace
        self._done = done
        self._console = console
        self._quiet_s = quiet_s
        self._started = time.monotonic()
        self._received = b""
        encoded = base64.b64encode(script.encode())
        # The guest itself ends the job after the time that it may take at the slowest pace.
        channel.sendall(b"%d %s\n" % (quiet_s * PACE_MAX, encoded))

    def wait(self, *, check: bool = True) -> Result:
        """Waits for its end.

        Raises:
            CheckFailed: It ended with another status than 0, and `check` was not turned off.
            JobTimeout: It did not end in its time.
            GuestDied: The guest ended.
        """
        allowed_s = self._quiet_s + _GRACE_S
        while not self.poll(max(self._started + allowed_s - time.monotonic(), 0.0)):
            waited_s = time.monotonic() - self._started
            if waited_s >= allowed_s:
                pace = self._pace()
                allowed_s = self._quiet_s * pace + _GRACE_S
                if waited_s >= allowed_s:
                    raise JobTimeout(f"after {waited_s:.0f} s, at a pace of {pace:.1f}, no end of: {self._short}")
        status, _, rest = self._received.partition(b"\n")
        output = base64.b64decode(rest.removesuffix(b".\n")).decode(errors="replace")
        self._done()
        result = Result(output, int(status))
        if check and result.status:
            raise CheckFailed(f"status {result.status} of: {self._short}\n{_ending(output)}")
        return result

    def poll(self, wait_s: float = 0.0) -> bool:
        """Whether the job has ended; waits for its end up to `wait_s`."""
        if self._received.endswith(b"\n.\n"):
            return True
        self._channel.settimeout(max(wait_s, 0.001))
        try:
            piece = self._channel.recv(65536)
        except TimeoutError:
            return False
        if not piece:
            raise GuestDied(
                f"the guest ended during: {self._short}\nits console ended with\n{_ending(self._console())}"
            )
        self._received += piece
        return self._received.endswith(b"\n.\n")

    @property
    def _short(self) -> str:
        return " ".join(self._script.split())[:200]


class Guest:
    """A running guest; leaving the context ends it at once."""

    def __init__(
        self,
        image: Image,
        number: int,
        *,
        name: str = "guest",
        layers: tuple[Path, ...] = (),
        files: Files | None = None,
        memory_mib: int = 1024,
        disk: Path | None = None,
    ) -> None:
        """Boots it, and returns when it takes jobs.

        Args:
            image: The image that it boots.
            number: The last octet of its address, which no other running guest has.
            name: Its name in messages.
            layers: Further archives of files, unpacked over the base system: those of `image.layers`, for example.
            files: Further files.
            memory_mib: All its files are in memory.
            disk: An image with a file system of Debian, whose systemd is the first process; changes there are forgotten
                when the guest ends.

        Raises:
            GuestDied: It did not come up.
        """
        self.name = name
        self.address = f"192.168.77.{number}"
        self._number = number
        self._directory = tempfile.TemporaryDirectory(prefix=f"rpcrdma-{name}-")
        self._home = Path(self._directory.name)
        self._channels: list[socket.socket] = []
        self._pace_channel: socket.socket | None = None
        self._measuring = threading.Lock()
        self.pace = 1.0
        """By how many times the guest was slower than on a quiet machine when last measured; see `patience`."""
        self._trouble_seen = 0
        initrd = self._home / "initrd"
        settings = f"ADDRESS={self.address}\nNAME={name}\n".encode()
        here = Path(__file__)
        overlay = {
            "init": here.with_name("init.sh"),
            "agent.sh": here.with_name("agent.sh"),
            "etc/guest": settings,
            **(files or {}),
        }
        with Archive(self._home / "overlay.cpio") as archive:
            for path, content in overlay.items():
                archive.file(path, content, executable=True)
        with initrd.open("wb") as joined:
            for part in (image.system, *layers, self._home / "overlay.cpio"):
                joined.write(part.read_bytes())
        add_tap(f"tap{number}")
        for _ in range(_ATTEMPTS):
            self._process = self._emulate(image.kernel, initrd, memory_mib, disk)
            if self._comes_up(_BOOT_OF_DEBIAN_S if disk else _BOOT_S):
                self.measure_pace()
                return
            self._end()
        console = self.console
        self._directory.cleanup()
        raise GuestDied(f"{name} did not come up; its console ended with\n{_ending(console)}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def console(self) -> str:
        """All that the kernel has said."""
        path = self._home / "console"
        return path.read_text(errors="replace") if path.exists() else ""

    @property
    def processor_s(self) -> float:
        """Processor time that the emulation has taken, in seconds."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def terminal(self) -> Path:
        """The socket of a serial line at which a shell waits."""
        return self._home / "terminal"

    def run(self, script: str, quiet_s: float = 60.0, *, check: bool = True) -> Result:
        """Runs a shell script to its end; see Job.wait for its exceptions."""
        return self.start(script, quiet_s).wait(check=check)

    def start(self, script: str, quiet_s: float = 60.0) -> Job:
        """Starts a shell script, which on a quiet machine would end in `quiet_s`."""
        assert self._channels, f"{self.name} runs {_CHANNELS - 1} jobs already"
        channel = self._channels.pop()
        free = functools.partial(self._channels.append, channel)
        return Job(channel, script, quiet_s, self.measure_pace, free, lambda: self.console)

    def measure_pace(self) -> float:
        """Measures the pace; the guest may run jobs meanwhile, which count as slowness.

        Raises:
            GuestDied: It stands still, or has ended.
        """
        with self._measuring:
            assert self._pace_channel is not None
            started = time.monotonic()
            quiet_s = PROBE_QUIET_S * PACE_MAX
            probe = Job(self._pace_channel, PROBE, quiet_s, lambda: PACE_MAX, lambda: None, lambda: self.console)
            try:
                probe.wait()
            except JobTimeout:
                raise GuestDied(f"{self.name} stands still; its console ended with\n{_ending(self.console)}") from None
            self.pace = max(1.0, (time.monotonic() - started) / PROBE_QUIET_S)
            return self.pace

    def new_trouble(self) -> str:
        """The kernel's complaints since the last call of this, with the lines after them; empty if it has none."""
        said = self.console
        fresh, self._trouble_seen = said[self._trouble_seen :], len(said)
        at = min((found for word in _TROUBLE if (found := fresh.find(word)) >= 0), default=-1)
        return fresh[at : at + 4000] if at >= 0 else ""

    def close(self) -> None:
        """Turns the guest off, without a shutdown of the programs in it."""
        self._end()
        self._directory.cleanup()

    def _emulate(self, kernel: Path, initrd: Path, memory_mib: int, disk: Path | None) -> subprocess.Popen[bytes]:
        (self._home / "console").unlink(missing_ok=True)
        words = "console=ttyS0 earlyprintk=serial,ttyS0 loglevel=6 panic=1 mitigations=off tsc=reliable edd=off"
        # On a busy machine the timer seems not to work, and the kernel gives up.
        words += " no_timer_check"
        command = ["qemu-system-x86_64", "-M", "pc", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2"]
        command += ["-m", str(memory_mib), "-nodefaults", "-display", "none", "-no-reboot"]
        command += ["-kernel", str(kernel), "-initrd", str(initrd), "-append", words]
        command += ["-chardev", f"file,id=console,path={self._home}/console", "-serial", "chardev:console"]
        self.terminal.unlink(missing_ok=True)
        command += ["-chardev", f"socket,id=terminal,path={self.terminal},server=on,wait=off"]
        command += ["-serial", "chardev:terminal"]
        command += ["-netdev", f"tap,id=net,ifname=tap{self._number},script=no,downscript=no"]
        command += ["-device", f"virtio-net-pci,netdev=net,mac=52:54:00:77:00:{self._number:02x}"]
        if disk is not None:
            command += ["-drive", f"file={disk},if=virtio,format=raw,snapshot=on"]
        command += ["-device", "virtio-rng-pci", "-device", "virtio-serial-pci"]
        for index in range(_CHANNELS):
            path = self._home / f"channel{index}"
            path.unlink(missing_ok=True)
            command += ["-chardev", f"socket,id=channel{index},path={path},server=on,wait=off"]
            command += ["-device", f"virtserialport,chardev=channel{index},name=channel{index}"]
        with (self._home / "emulator").open("wb") as messages:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=messages, stderr=subprocess.STDOUT)

    def _comes_up(self, boot_s: float) -> bool:
        started = time.monotonic()
        while "guest: ready" not in (said := self.console):
            waited = time.monotonic() - started
            if self._process.poll() is not None:
                if said:
                    return False
                message = (self._home / "emulator").read_text(errors="replace")
                raise GuestDied(f"{self.name}: the emulator ended: {message.strip()}")
            if waited > boot_s or (waited > _SILENCE_S and not said):
                return False
            if not self._channels:
                self._open_channels()
            time.sleep(0.05)
        return bool(self._channels)

    def _open_channels(self) -> None:
        paths = [self._home / f"channel{index}" for index in range(_CHANNELS)]
        if all(path.exists() for path in paths):
            for path in paths:
                channel = socket.socket(socket.AF_UNIX)
                channel.connect(str(path))
                self._channels.append(channel)
            self._pace_channel = self._channels.pop()

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()
        for channel in self._channels:
            channel.close()
        self._channels.clear()
        if self._pace_channel is not None:
            self._pace_channel.close()
            self._pace_channel = None


def _ending(text: str) -> str:
    return "\n".join("    " + line for line in text.strip().splitlines()[-15:])
