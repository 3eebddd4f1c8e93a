"""The compiler's output for program blocks: procedures, clients, services."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rpcrdma.nfs import v3
from rpcrdma.rpc.client_stub import ClientStub, WaitingCaller
from rpcrdma.rpc.service import ProcedureUnavailable, Service
from rpcrdma.xdr.codec import Decoder, Encoder
from support.cases import each_case
from support.compiled import load, octets, whole

COUNTER = """
struct pair { int a; int b; };
typedef pair *maybe;
struct node { int v; node *next; };
program COUNTER_PROGRAM {
    version COUNTER_V1 {
        void COUNTERPROC_NULL(void) = 0;
        int COUNTERPROC_ADD(pair) = 1;
        pair COUNTERPROC_MAKE(int, unsigned hyper) = 2;
        maybe COUNTERPROC_FIND(bool) = 7;
        node COUNTERPROC_LIST(void) = 8;
        void RESET(void) = 9;
        float COUNTERPROC_import(double) = 10;
    } = 1;
    version COUNTER_V2 {
        void COUNTERPROC_NULL(void) = 0;
        hyper COUNTERPROC_ADD(pair) = 1;
    } = 2;
} = 0x20000001;
"""


class RecordingCaller:
    """Encodes the arguments, answers with its own argument."""

    def __init__(self, result: Any) -> None:
        self.result = result
        self.calls: list[tuple[Any, Any, Any, Any]] = []

    async def call(self, procedure: Any, args: Any, *, into: Any = None, timeout_s: Any = None) -> Any:
        self.calls.append((procedure, args, into, timeout_s))
        return self.result


class RecordingWaitingCaller(WaitingCaller):
    """As a connection of `rpcrdma.sync`."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, Any, Any, Any]] = []

    def call(self, procedure: Any, args: Any, *, into: Any = None, timeout_s: Any = None) -> Any:
        self.calls.append((procedure, args, into, timeout_s))
        return "waited for"


def test_a_version_is_a_program_with_its_procedures() -> None:
    module = load(COUNTER)
    program = module.COUNTER_V1
    assert (program.number, program.version, program.name) == (0x20000001, 1, "COUNTER_V1")
    assert list(program.procedures) == [0, 1, 2, 7, 8, 9, 10]
    add = program.procedures[1]
    assert add is module.COUNTERPROC_ADD
    assert add is module.ADD
    assert (add.program, add.version, add.number, add.name, add.method) == (0x20000001, 1, 1, "COUNTERPROC_ADD", "add")
    assert [procedure.method for procedure in program.procedures.values()] == [
        "null",
        "add",
        "make",
        "find",
        "list",
        "reset",
        "import_",
    ]


def test_procedures_of_the_same_name_in_two_versions_are_told_apart() -> None:
    module = load(COUNTER)
    assert module.COUNTER_V2.procedures[1] is module.COUNTER_V2_COUNTERPROC_ADD
    assert module.COUNTERPROC_ADD.version == 1
    assert not hasattr(module, "PROGRAM")


def test_a_single_version_is_also_called_program() -> None:
    module = load("program P { version V { void P_NULL(void) = 0; } = 1; } = 1;")
    assert module.PROGRAM is module.V


@each_case(
    ("number", "args", "result", "args_octets", "result_octets"),
    [
        (0, None, None, "", ""),
        (1, "pair", -5, "00000001 00000002", "fffffffb"),
        (2, "make", "pair", "00000001 0000000000000002", "00000001 00000002"),
        (7, True, None, "00000001", "00000000"),
        (8, None, "list", "", "00000005 00000000"),
        (10, 1.0, 1.0, "3ff0000000000000", "3f800000"),
    ],
)
def test_arguments_and_results_have_their_codecs(
    number: int, args: Any, result: Any, args_octets: str, result_octets: str
) -> None:
    module = load(COUNTER)
    named = {"pair": module.pair(1, 2), "make": module.COUNTERPROC_MAKE_args(1, 2), "list": [module.node(5)]}
    procedure = module.COUNTER_V1.procedures[number]
    for encode, decode, value, expected in (
        (procedure.encode_args, procedure.decode_args, args, args_octets),
        (procedure.encode_result, procedure.decode_result, result, result_octets),
    ):
        meant = named.get(value, value) if isinstance(value, str) else value
        encoder = Encoder()
        encode(encoder, meant)
        assert bytes(encoder.reduced) == bytes.fromhex(expected)
        assert whole(decode, bytes.fromhex(expected)) == meant


def test_clients_call_through_their_callers() -> None:
    module = load(COUNTER)
    args, buffer = module.pair(1, 2), bytearray(4)
    caller, waiting = RecordingCaller(3), RecordingWaitingCaller()
    client, sync_client = module.COUNTER_V1_Client(caller), module.COUNTER_V1_SyncClient(waiting)
    assert asyncio.run(client.add(args, into=buffer, timeout_s=1.5)) == 3
    assert sync_client.add(args, into=buffer, timeout_s=1.5) == "waited for"
    asyncio.run(client.null())
    sync_client.null()
    expected = [(module.ADD, args, buffer, 1.5), (module.COUNTERPROC_NULL, None, None, None)]
    assert caller.calls == waiting.calls == expected


def test_a_client_of_the_other_kind_names_the_one_to_use() -> None:
    module = load(COUNTER)
    own = type("Own", (module.COUNTER_V1_Client,), {})
    for client in (module.COUNTER_V1_Client, own):
        with pytest.raises(TypeError, match=r"is asynchronous, and .* rpcrdma\.sync is not: use COUNTER_V1_SyncClient"):
            client(RecordingWaitingCaller())
    with pytest.raises(TypeError, match=r"a connection of rpcrdma\.sync.*; to await .*, use COUNTER_V1_Client$"):
        module.COUNTER_V1_SyncClient(RecordingCaller(3))
    # A class that is not generated names none.
    with pytest.raises(TypeError, match=r"use a class of the kind SyncClient$"):
        ClientStub(RecordingWaitingCaller())
    assert "COUNTERPROC_NULL" in repr(module.COUNTER_V1_Client.null)


def test_a_service_answers_null_and_nothing_else_by_itself() -> None:
    module = load(COUNTER)
    service = module.COUNTER_V1_Service()
    assert isinstance(service, Service)
    assert service.PROGRAM is module.COUNTER_V1
    assert service.null(None, None) is None
    for procedure in module.COUNTER_V1.procedures.values():
        if procedure.number:
            with pytest.raises(ProcedureUnavailable, match=procedure.name):
                getattr(service, procedure.method)(None, None)


def test_a_short_name_that_is_taken_is_not_given_to_a_procedure() -> None:
    module = load("const READ = 7; program P { version V { void XPROC_READ(void) = 0; } = 1; } = 1;")
    assert module.READ == 7
    assert module.XPROC_READ.method == "read"


def test_procedures_with_the_name_of_a_type_or_a_constant_are_told_apart() -> None:
    module = load(
        "struct READ { int at; }; const WRITE = 7;"
        "program P { version V { int READ(READ) = 1; int WRITE(int) = 2; } = 1; } = 1;"
    )
    assert (module.V_READ.number, module.V_WRITE.number) == (1, 2)
    assert whole(module.V_READ.decode_args, octets(module.encode_READ, module.READ(5))) == module.READ(5)
    assert module.WRITE == 7


def test_procedures_that_differ_in_case_or_prefix_alone_have_methods_of_their_own() -> None:
    module = load("program P { version V { int FOOPROC_GET(int) = 1; int GET(int) = 2; int get(int) = 3; } = 1; } = 1;")
    assert [module.V.procedures[number].method for number in (1, 2, 3)] == ["fooproc_get", "GET", "get"]
    assert (module.V_Client.GET.procedure, module.V_Client.get.procedure) == (module.GET, module.get)
    module = load("program P { version V { int IMPORT(int) = 1; int import(int) = 2; } = 1; } = 1;")
    assert [module.V.procedures[number].method for number in (1, 2)] == ["IMPORT", "import_"]


def test_void_reads_nothing() -> None:
    decoder = Decoder(b"abcd")
    load(COUNTER).COUNTERPROC_NULL.decode_args(decoder)
    assert decoder.pos == 0


def test_types_of_rpcgen_may_be_arguments_and_results() -> None:
    source = "program P { version V { string A(netobj) = 1; des_block B(string) = 2; } = 1; } = 7;"
    module = load(source, lenient=True, default_limit=9)
    for kinds, value, wire in (
        ((module.A.encode_args, module.A.decode_args), b"ab", "000000026162 0000"),
        ((module.A.encode_result, module.A.decode_result), "cd", "000000026364 0000"),
        ((module.B.encode_args, module.B.decode_args), "", "00000000"),
        ((module.B.encode_result, module.B.decode_result), b"12345678", "3132333435363738"),
    ):
        encode, decode = kinds
        assert octets(encode, value) == bytes.fromhex(wire)
        assert whole(decode, bytes.fromhex(wire)) == value
    assert module.A.reply_bound(b"").results == 4 + 12


PROCEDURES = """
NULL GETATTR SETATTR LOOKUP ACCESS READLINK READ WRITE CREATE MKDIR SYMLINK MKNOD REMOVE RMDIR RENAME LINK READDIR
READDIRPLUS FSSTAT FSINFO PATHCONF COMMIT
"""


def test_procedures_have_the_numbers_of_rfc_1813() -> None:
    for number, name in enumerate(PROCEDURES.split()):
        procedure = v3.PROGRAM.procedures[number]
        assert (procedure.name, procedure.method) == (f"NFSPROC3_{name}", name.lower())
        assert (procedure.program, procedure.version) == (100003, 3)
        assert getattr(v3, name) is procedure
