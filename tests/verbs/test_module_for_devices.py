"""The extension module for RDMA devices over fake libraries: objects, their ends, errors, and memory that stays or not.

The fakes (native/tests/fake_devices.c) take the place of libibverbs and librdmacm in a process of its own, which runs
all cases. native/check.py runs them with sanitizers.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from rpcrdma.verbs.binding import ManagerEventKind, Right, find

pytestmark = pytest.mark.thorough

MODULE, MISSING = find()
COMPILER = (sysconfig.get_config_var("CC") or "cc").split()[0]
SOURCE = Path(__file__).parents[2] / "native" / "tests" / "fake_devices.c"
KINDS = ("channels", "identifiers", "contexts", "domains", "regions", "windows", "completion_channels")
LIVE = (*KINDS, "completion_queues", "pairs")
CASES: dict[str, Callable[[Any, Fake], None]] = {}


class Fake:
    """The variables of the fake libraries, as attributes."""

    library: ctypes.CDLL

    def __init__(self) -> None:
        self.__dict__["library"] = ctypes.CDLL("libibverbs.so.1")

    def __getattr__(self, name: str) -> int:
        return ctypes.c_int.in_dll(self.library, name).value

    def __setattr__(self, name: str, value: int) -> None:
        ctypes.c_int.in_dll(self.library, name).value = value

    def happens(self, kind: int, status: int = 0, data: bytes = b"") -> None:
        """An event of the identifier that was made last."""
        self.library.manager_event(kind, status, data, len(data))

    def completes(self, number: int, status: int = 0, octets: int = 0, flags: int = 0, handle: int = 0) -> None:
        """The completion of the send request that was posted as the `number`th."""
        done = (ctypes.c_uint32 * (64 * 12)).in_dll(self.library, "done")
        place = self.completed * 12
        sent = (ctypes.c_uint32 * (64 * 32)).in_dll(self.library, "sent")
        done[place], done[place + 1], done[place + 2] = sent[number * 32], sent[number * 32 + 1], status
        done[place + 5], done[place + 6], done[place + 9] = octets, handle, flags
        self.completed += 1

    def live(self) -> dict[str, int]:
        """The objects that exist, by kind."""
        gc.collect()
        return {name: count for name in LIVE if (count := getattr(self, name))}


def case(function: Callable[[Any, Fake], None]) -> Callable[[Any, Fake], None]:
    CASES[function.__name__] = function
    return function


def identifier_on_device(module: Any) -> Any:
    identifier = module.EventChannel().identifier()
    identifier.bind("127.0.0.1", 20049)
    return identifier


class Pair:
    """A queue pair with a region of 4096 octets."""

    def __init__(self, module: Any) -> None:
        self.identifier = identifier_on_device(module)
        self.domain = self.identifier.domain()
        self.memory = bytearray(4096)
        self.region = self.domain.register(self.memory, int(Right.LOCAL_WRITE), True)
        self.queue_pair = self.identifier.queue_pair(self.domain, 8, 8, 2, 2)


class Work:
    """An object that stands for a work request."""


def error_of(call: Callable[[], object]) -> tuple[type, int | None]:
    try:
        call()
    except Exception as error:  # noqa: BLE001 - its type is the result
        return type(error), getattr(error, "errno", None)
    return type(None), None


@case
def devices_are_told_with_their_ports_and_closed_again(module: Any, fake: Fake) -> None:
    (device,) = module.devices()
    assert (device["name"], device["firmware"], device["type_2_windows"]) == ("fake0", "1.2.3", True)
    assert [port["active"] for port in device["ports"]] == [True, False]
    assert module.status_text(1) == "a fault"
    assert fake.forks_prepared == 1


@case
def connections_are_asked_for_and_accepted_with_private_data(module: Any, fake: Fake) -> None:
    channel = module.EventChannel()
    listener = channel.identifier()
    listener.bind("127.0.0.1", 20049)
    listener.listen(5)
    assert (listener.local, listener.device) == (("127.0.0.1", 20049), "fake0")
    fake.happens(ManagerEventKind.CONNECT_REQUEST, data=b"asked")
    ((peer, of, kind, status, data, inbound, outbound),) = channel.events()
    assert of is listener
    assert (kind, status, data, inbound, outbound) == (ManagerEventKind.CONNECT_REQUEST, 0, b"asked", 3, 5)
    assert error_of(lambda: peer.accept(b"", 1, 1)) == (OSError, errno.EINVAL)
    queue_pair = peer.queue_pair(peer.domain(), 4, 4, 1, 1)
    peer.accept(b"granted", 2, 1)
    assert bytes((ctypes.c_char * 7).in_dll(fake.library, "private_data")) == b"granted"
    peer.disconnect()
    peer.reject(b"no")
    assert bytes((ctypes.c_char * 2).in_dll(fake.library, "private_data")) == b"no"
    assert channel.events() == []
    assert os.get_blocking(channel.fileno()) is False
    assert os.get_blocking(queue_pair.fileno()) is False


@case
def addresses_and_routes_are_resolved(module: Any, fake: Fake) -> None:
    channel = module.EventChannel()
    identifier = channel.identifier()
    identifier.resolve_address("::1", 20049, 1, 100)
    identifier.resolve_route(100)
    assert identifier.peer == ("::1", 20049)
    fake.happens(ManagerEventKind.ADDRESS_RESOLVED)
    fake.happens(ManagerEventKind.ROUTE_ERROR, -errno.ETIMEDOUT)
    assert [event[2:4] for event in channel.events()] == [(0, 0), (3, -errno.ETIMEDOUT)]
    assert error_of(lambda: identifier.bind("127.0.0.1", 70000))[0] is ValueError
    assert error_of(lambda: identifier.resolve_address("host", 1, 0, 100))[0] is ValueError
    assert error_of(lambda: identifier.connect(bytes(256), 1, 1))[0] is ValueError


@case
def a_call_takes_a_bounded_number_of_events(module: Any, fake: Fake) -> None:
    channel = module.EventChannel()
    identifier = channel.identifier()
    for number in range(100):
        fake.happens(ManagerEventKind.DISCONNECTED, number)
    found = [channel.events() for _ in range(3)]
    assert [len(events) for events in found] == [64, 36, 0]
    assert [event[3] for events in found for event in events] == list(range(100))
    assert found[0][0][0] is identifier


@case
def events_of_closed_identifiers_are_passed_over_and_their_requests_end(module: Any, fake: Fake) -> None:
    channel = module.EventChannel()
    identifier = channel.identifier()
    fake.happens(ManagerEventKind.CONNECT_REQUEST)
    fake.happens(ManagerEventKind.DISCONNECTED)
    identifier.close()
    assert fake.identifiers == 1
    assert channel.events() == []
    assert fake.identifiers == 0
    assert error_of(lambda: identifier.local)[0] is ValueError
    fake.fail_create_id = errno.EMFILE
    assert error_of(channel.identifier) == (OSError, errno.EMFILE)


@case
def an_identifier_that_is_freed_lets_an_exception_pass(module: Any, fake: Fake) -> None:
    for close in (True, False):
        held = [identifier_on_device(module)]
        if close:
            held[0].close()
        assert error_of(lambda held=held: (held.pop(), 1 // 0))[0] is ZeroDivisionError  # type: ignore[misc]


@case
def an_identifier_ends_after_the_objects_that_were_made_from_it(module: Any, fake: Fake) -> None:
    pair = Pair(module)
    pair.identifier.close()
    assert (fake.identifiers, pair.identifier.device) == (1, "fake0")
    pair.queue_pair.close()
    pair.queue_pair.close()
    assert (fake.pairs, fake.completion_queues, fake.completion_channels) == (0, 0, 0)
    del pair.domain, pair.region
    pair.identifier.close()
    assert fake.identifiers == 0


@case
def memory_is_registered_and_kept_until_it_is_deregistered(module: Any, fake: Fake) -> None:
    domain, memory = identifier_on_device(module).domain(), bytearray(4096)
    region = domain.register(memory, int(Right.LOCAL_WRITE), True)
    assert region.start_of(memoryview(memory)[4000:]) == 4000
    assert error_of(lambda: region.start_of(bytearray(5000)))[0] is ValueError
    assert error_of(lambda: memory.append(0))[0] is BufferError
    region.deregister()
    region.deregister()
    memory.append(0)
    assert error_of(lambda: region.handle)[0] is ValueError
    assert error_of(lambda: domain.register(b"read only", int(Right.LOCAL_WRITE), True))[0] is BufferError
    lent = domain.register(memory, int(Right.LOCAL_WRITE), False)
    memory.append(0)
    del lent
    fake.fail_reg_mr = errno.ENOMEM
    assert error_of(lambda: domain.register(memory, 0, True)) == (OSError, errno.ENOMEM)
    memory.append(0)


@case
def memory_that_the_device_does_not_let_go_of_stays(module: Any, fake: Fake) -> None:
    pair = Pair(module)
    fake.fail_destroy = errno.EBUSY
    assert error_of(pair.region.deregister) == (OSError, errno.EBUSY)
    assert error_of(lambda: pair.memory.append(0))[0] is BufferError
    fake.fail_destroy = 0
    # The fake still has the region, and so has the domain.
    fake.regions -= 1


@case
def memory_is_free_once_the_device_was_unplugged(module: Any, fake: Fake) -> None:
    pair = Pair(module)
    window = pair.domain.window()
    fake.unplugged = 1
    assert pair.queue_pair.broken()
    assert error_of(lambda: pair.domain.register(bytearray(1), 0, True)) == (OSError, errno.EIO)
    window.end()
    pair.region.deregister()
    pair.memory.append(0)
    pair.queue_pair.end()
    assert not pair.queue_pair.broken()


@case
def a_window_has_the_handle_of_its_binding(module: Any, fake: Fake) -> None:
    pair = Pair(module)
    window, entry = pair.domain.window(), (pair.region, 16, 32)
    handle = window.handle | 1
    pair.queue_pair.post_sends([("bind", (entry,), module.BIND_WINDOW, handle, 1, window), ("send", (entry,), 2)])
    assert (window.handle, fake.sends) == (handle, 2)
    for windows in ((), (None,), (pair.region,), (identifier_on_device(module).domain().window(),)):
        posting = [("bind", (entry,), module.BIND_WINDOW, handle, 1, *windows)]
        assert error_of(lambda posting=posting: pair.queue_pair.post_sends(posting))[0] is ValueError  # type: ignore[misc]
    window.end()
    window.end()
    assert window.handle == 0


@case
def work_that_is_no_list_of_tuples_within_memory_is_refused(module: Any, fake: Fake) -> None:
    pair = Pair(module)
    region, work = pair.region, Work()
    references = sys.getrefcount(work)
    for error, posting in (
        (TypeError, None),
        (TypeError, ((work, (), 2),)),
        (TypeError, [1]),
        (TypeError, [(work, (), 2), [work, (), 2]]),
        (TypeError, [(work, [], 2)]),
        (TypeError, [(work, (1,), 2)]),
        (TypeError, [(work, ((1, 0, 0),), 2)]),
        (ValueError, [(work, ((region, 4090, 7),), 2)]),
        (ValueError, [(work, ((region, -1, 7),), 2)]),
        (ValueError, [(work, ((region, 0, 1),) * 3, 2)]),
        (ValueError, [(work, ((Pair(module).region, 0, 1),), 2)]),
    ):
        assert error_of(lambda posting=posting: pair.queue_pair.post_sends(posting))[0] is error, posting  # type: ignore[misc]
        del posting
    assert (fake.sends, sys.getrefcount(work)) == (0, references)
    pair.queue_pair.post_sends([])
    region.deregister()
    assert error_of(lambda: pair.queue_pair.post_sends([(work, ((region, 0, 1),), 2)]))[0] is ValueError
    pair.queue_pair.end()
    assert error_of(lambda: pair.queue_pair.post_receives([(work, ())]))[0] is ValueError


@case
def work_is_kept_from_its_posting_to_its_completion(module: Any, fake: Fake) -> None:
    def references() -> list[int]:
        return [sys.getrefcount(work) for work in works]

    pair, works = Pair(module), [Work() for _ in range(3)]
    unused, entry = references(), (pair.region, 0, 8)
    fake.fail_post, fake.posted_before_failure = errno.ENOMEM, 1
    assert error_of(lambda: pair.queue_pair.post_sends([(work, (entry,), 2) for work in works]))[1] == errno.ENOMEM
    assert references() == [unused[0] + 1, *unused[1:]]
    fake.completes(0)
    ((done, *rest),) = pair.queue_pair.completions(16, False)
    assert (done is works[0], rest) == (True, [0, 0, 0])
    del done
    assert references() == unused
    pair.queue_pair.post_receives([(work, (entry,)) for work in works])
    assert references() == [count + 1 for count in unused]
    pair.queue_pair.end()
    assert references() == unused


@case
def completions_tell_statuses_and_only_handles_that_were_invalidated(module: Any, fake: Fake) -> None:
    pair = Pair(module)
    pair.queue_pair.post_sends([(number, (), module.SEND) for number in range(4)])
    fake.completes(0, octets=10, flags=8, handle=0x1234)
    fake.completes(1, octets=10, flags=8)
    fake.completes(2, status=5, octets=10, flags=8, handle=0x1234)
    fake.completes(3, octets=7)
    expected = [(0, 0, 10, 0x1234), (1, 0, 10, 0), (2, 5, 0, 0), (3, 0, 7, 0)]
    assert [pair.queue_pair.completions(1, False) for _ in expected] == [[each] for each in expected]
    assert pair.queue_pair.completions(0, True) == []
    fake.fail_poll = -12
    assert error_of(lambda: pair.queue_pair.completions(1, True)) == (OSError, errno.EIO)


@case
def a_queue_that_is_polled_looks_for_an_event_only_where_one_was_asked_for(module: Any, fake: Fake) -> None:
    pair = Pair(module)
    fake.reads = fake.notified = 0
    os.eventfd_write(pair.queue_pair.fileno(), 1)
    for _ in range(5):
        pair.queue_pair.completions(1, False)
    assert (fake.reads, fake.notified) == (2, 0)
    fake.fail_notify = errno.EIO
    assert error_of(lambda: pair.queue_pair.completions(1, True)) == (OSError, errno.EIO)
    fake.fail_notify = 0
    pair.queue_pair.completions(1, True)
    pair.queue_pair.completions(1, True)
    assert fake.notified == 2


@case
def a_queue_pair_that_cannot_be_made_leaves_nothing(module: Any, fake: Fake) -> None:
    identifier = identifier_on_device(module)
    domain = identifier.domain()
    fake.fail_create_qp = errno.ENOSPC
    assert error_of(lambda: identifier.queue_pair(domain, 4, 4, 1, 1)) == (OSError, errno.ENOSPC)
    assert error_of(lambda: identifier.queue_pair(domain, 4096, 4096, 1, 1)) == (OSError, errno.EINVAL)
    fake.fail_notify = errno.EIO
    assert error_of(lambda: identifier.queue_pair(domain, 4, 4, 1, 1)) == (OSError, errno.EIO)
    assert (fake.completion_channels, fake.completion_queues) == (0, 0)


@case
def a_device_tells_its_events(module: Any, fake: Fake) -> None:
    device = identifier_on_device(module).open_device()
    assert device.node == "uverbs7"
    assert os.get_blocking(device.fileno()) is False
    fake.library.device_event(10, 1)
    assert device.events() == [(10, 1)]
    assert device.events() == []
    device.close()
    device.close()
    assert error_of(device.events)[0] is ValueError


@case
def a_device_is_let_go_of_when_no_event_loop_has_a_queue_pair_on_it(module: Any, fake: Fake) -> None:
    device, others = identifier_on_device(module).open_device(), [Pair(module), Pair(module), Pair(module)]
    window = others[1].domain.window()
    for closed in (1, 0, 2):
        assert error_of(device.let_go) == (OSError, errno.EBUSY)
        assert os.get_blocking(device.fileno()) is False
        others[closed].queue_pair.end()
        # The rings of its completion queue are mapped as well.
        assert error_of(device.let_go) == (OSError, errno.EBUSY)
        others[closed].queue_pair.close()
    device.let_go()
    assert error_of(device.let_go)[0] is ValueError
    for call in (window.end, others[0].region.deregister):
        call()
    others[0].memory.append(0)
    # The kernel has freed them.
    del others, window
    gc.collect()
    fake.domains = fake.regions = fake.windows = 0


@case
def a_forked_child_ends_nothing_of_its_parent(module: Any, fake: Fake) -> None:
    pair, device = Pair(module), identifier_on_device(module).open_device()
    window = pair.domain.window()
    before = fake.live()
    child = os.fork()
    if not child:
        try:
            pair.queue_pair.end()
            window.end()
            pair.region.deregister()
            pair.memory.append(0)
            device.close()
            del pair, window, device
            kept = fake.live() == before
            own = Pair(module)
            own.region.deregister()
            del own
            os._exit(0 if kept and fake.live() == before else 1)
        except BaseException:  # noqa: BLE001 - the child must not go on with the parent's work
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@case
def a_second_interpreter_of_the_process_does_not_load_the_module(module: Any, fake: Fake) -> None:
    interpreters = import_module("_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters")
    code = "try:\n import rpcrdma_verbs\nexcept ImportError:\n pass\nelse:\n raise SystemError('it was loaded')"
    other = interpreters.create()
    assert interpreters.run_string(other, code) is None
    interpreters.destroy(other)


def outcome(module: Any, fake: Fake, run: Callable[[Any, Fake], None]) -> str:
    """A traceback, or nothing where the case holds and leaves no object."""
    for name in ("create_id", "create_qp", "reg_mr", "destroy", "post", "poll", "notify"):
        setattr(fake, f"fail_{name}", 0)
    fake.unplugged = fake.sends = fake.receives = fake.completed = 0
    try:
        run(module, fake)
    except BaseException:  # noqa: BLE001 - it is the result
        return traceback.format_exc()
    left = fake.live()
    return f"objects were left: {left}" if left else ""


@pytest.mark.skipif(MODULE is None, reason=MISSING)
@pytest.mark.skipif(shutil.which(COMPILER) is None, reason=f"there is no C compiler {COMPILER}")
def test_the_module_keeps_its_rules_over_libraries_that_fail(tmp_path: Path) -> None:
    library = tmp_path / "libibverbs.so.1"
    # Not with a sanitizer's runtime, which is for Python.
    plain = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    flags = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared")
    subprocess.run([COMPILER, *flags, "-o", str(library), str(SOURCE)], env=plain, check=True)
    (tmp_path / "librdmacm.so.1").symlink_to(library)
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path), "PYTHONFAULTHANDLER": "1"}
    environment.pop("RDMAV_ALLOW_DISASSOC_DESTROY", None)
    done = subprocess.run([sys.executable, __file__], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    broken = [f"{rule}: {told}" for rule, told in json.loads(done.stdout).items() if told]
    assert not broken, "\n".join(broken)


if __name__ == "__main__":
    json.dump({name: outcome(MODULE, Fake(), run) for name, run in CASES.items()}, sys.stdout)
