"""Chooses the checks, prepares the server's export, runs the checks and reports."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, BinaryIO

from rpcrdma import IwarpConfig, VerbsConfig
from rpcrdma.commands import (
    DefinitionText,
    ExitStatus,
    Url,
    authority,
    cannot_listen,
    connect_options,
    console,
    describe,
    progress_line,
    read_text,
)
from rpcrdma.errors import ConnectFailed, LocalProtocolError, RpcError, RpcRdmaError
from rpcrdma.provider import Provider, chosen_providers
from rpcrdma_lab.check import (
    ANSWER_S,
    CATALOGUE,
    CLIENT_CATALOGUE,
    FRESH_FILES,
    Abilities,
    Check,
    ClientTrial,
    Result,
    TrialOptions,
    Verdict,
    chosen,
    listening,
    recalled_delegations,
    run_checks,
    spoken_versions,
    void_verdicts,
)
from rpcrdma_lab.check.export_files import prepared_export
from rpcrdma_lab.check.reports import as_html, as_json, as_junit, summary_lines
from rpcrdma_lab.commands.connecting import connecting, find_host
from rpcrdma_lab.commands.output_file import empty, opened_before_work
from rpcrdma_lab.scripted import Outcome, RawTarget

__all__ = ["judge"]

_NFS = (100003, 3)
_INTERRUPTED = "the command was interrupted before it"


async def judge(args: argparse.Namespace) -> ExitStatus:
    """Runs the checks that the arguments choose against a server or clients, and prints and writes the verdicts.

    With --list, prints the checks instead.

    Returns the exit status: DONE; FAILED if a verdict is a violation of a MUST or a harm to other connections; FAILED
    after printing an error if the file of --program cannot be read or does not define exactly one program; USAGE after
    printing an error for wrong arguments, or if no check matches.

    Raises:
        RpcRdmaError, OSError: the server cannot be reached or lacks the program or the URL's path, a file of --write
            cannot be created, the address of --listen cannot be used, or a file cannot be written. For a server, the
            files of --junit and --html have the verdicts so far, if they can be written.
        asyncio.CancelledError: the checks of a server were interrupted; the verdicts so far have been reported.
    """
    checks = _chosen(args)
    if not checks:
        return console.error("no check matches", "rpcrdma check --list names all", status=ExitStatus.USAGE)
    if args.list:
        _list(checks, json=args.json)
        return ExitStatus.DONE
    wrong = _wrong_usage(args) if args.listen is None else _wrong_usage_for_clients(args)
    if wrong:
        return console.error(*wrong, status=ExitStatus.USAGE)
    program = _NFS if args.program is None else _program(args)
    if program is None:
        return ExitStatus.FAILED
    # A file that cannot be written is told before the run.
    with contextlib.ExitStack() as stack:
        files = {
            name: stack.enter_context(opened_before_work(path))
            for name, path in (("junit", args.junit), ("html", args.html))
            if path is not None
        }
        if args.listen is not None:
            return await _judge_client(args, checks, files)
        return await _judge_server(args, checks, program, files)


async def _judge_server(
    args: argparse.Namespace, checks: Sequence[Check], program: tuple[int, int], files: Mapping[str, BinaryIO]
) -> ExitStatus:
    target = RawTarget(
        host=args.url.host,
        port=args.url.port,
        timeout_s=args.timeout or ANSWER_S,
        crc=args.crc,
        capture=args.capture,
        provider=_device(args),
    )
    recalling = sum("recall" in check.needs for check in checks)
    results: list[Result] = []
    versions: dict[str, Outcome] = {}
    notes: list[str] = []
    begun = 0
    told: int | None = None

    def every(cause: str) -> list[Result]:
        left = checks[len(results) :]
        return [*results, *(Result(check=check, verdict=Verdict.NOT_SEEN, cause=cause) for check in left)]

    def report() -> ExitStatus:
        return _report(args, files, str(args.url), list(versions), notes, every(_INTERRUPTED))

    try:
        async with _prepared(args, program, FRESH_FILES * recalling + 1 if recalling else 0) as abilities:
            notes = abilities.notes
            begun = len(notes)
            try:
                versions = await _spoken(args, target, program, abilities.given)
                await _run(args, checks, target, abilities, versions, results)
            except asyncio.CancelledError:
                # Before the files are removed: a second signal would end the process meanwhile.
                report()
                told = len(notes)
                raise
    except asyncio.CancelledError:
        if told is None:
            report()
        for note in notes[told:]:
            console.talk(f"note: {note}")
        # The report is the one object on standard output.
        console.errors_as_json(None)
        raise
    except (RpcRdmaError, OSError) as error:
        unseen = every(f"the run ended before it: {describe(error)[0]}")
        for note in notes[begun:]:
            console.talk(f"note: {note}")
        _write(files, str(args.url), as_json(str(args.url), list(versions), notes, unseen), unseen)
        raise
    if abilities.file_changed:
        void_verdicts(results)
    return report()


async def _run(
    args: argparse.Namespace,
    checks: Sequence[Check],
    target: RawTarget,
    abilities: Abilities,
    versions: Mapping[str, Outcome],
    results: list[Result],
) -> None:
    """Runs the checks against the server at `target`, and adds each result to `results` as soon as it is known.

    `versions` has the protocol versions that the server speaks, each with the outcome of its trial. Before the checks,
    adds to `abilities.met` the needs of checks that are met: the server's versions and their abilities, "risky" with
    --risky, and "recall" if the server recalls a delegation on its holder's connection, as a trial with one of
    `abilities.fresh_files` shows. A check for which the server cannot be reached has a result, and raises nothing.

    Raises:
        OSError: the server cannot be reached for the trial with a fresh file.
    """
    abilities.add_spoken(versions)
    given, met, fresh_files = abilities.given, abilities.met, abilities.fresh_files
    if fresh_files:
        met |= await recalled_delegations(target, given, fresh_files.pop(), next(iter(versions)))
    met |= {"risky"} if args.risky else set()
    with progress_line(len(checks)) as tell:

        def on_result(result: Result) -> None:
            results.append(result)
            tell(result.check.id)

        first_xid = secrets.randbits(31)
        await run_checks(checks, target, given, met, on_result, first_xid=first_xid, fresh_files=fresh_files)


def _device(args: argparse.Namespace) -> Provider | None:
    """Returns the provider of this machine's RDMA devices if --provider names "verbs"; otherwise None.

    Raises:
        LocalProtocolError: packets are to be captured, which only the software RNIC permits.
    """
    if args.provider != "verbs":
        return None
    (provider,) = chosen_providers("verbs", IwarpConfig(), VerbsConfig(), args.capture)
    return provider


def _wrong_usage(args: argparse.Namespace) -> tuple[str, str] | None:
    if args.behind is not None:
        return "--behind answers the calls of clients", "add --listen URL"
    if args.url is None:
        return "no server is named", "write rdma://HOST[:PORT][/PATH]"
    if args.url.scheme != "rdma":
        return f"{args.url} is not RPC-over-RDMA", "write rdma://HOST[:PORT][/PATH]"
    if args.program is not None and args.write is not None:
        return "--write is for NFSv3", "leave out --program or --write"
    return None


def _wrong_usage_for_clients(args: argparse.Namespace) -> tuple[str, str] | None:
    if args.url is not None:
        return "--listen judges clients, a URL a server", "leave out one"
    if args.listen.scheme != "rdma":
        return f"{args.listen} is not RPC-over-RDMA", "write --listen rdma://HOST[:PORT]"
    if args.program is not None or args.write is not None:
        return "--listen judges clients, --program and --write are for servers", "leave out --listen or these"
    if args.behind is not None and args.behind.scheme != "tcp":
        return f"{args.behind} is not reached over TCP", "write --behind tcp://HOST:PORT"
    return None


async def _judge_client(args: argparse.Namespace, checks: Sequence[Check], files: Mapping[str, BinaryIO]) -> ExitStatus:
    """Runs the checks of clients until no more can be run or the command is interrupted, and reports the verdicts.

    `files` are the open files of --junit and --html, by "junit" and "html". Returns the exit status: FAILED after a
    violation or harm, else DONE. An interruption raises nothing.

    Raises:
        ConnectFailed: the address of --listen cannot be used, or the host of --behind has none.
        LocalProtocolError: an RDMA device's packets are to be captured.
    """
    url: Url = args.listen
    timeout_s = args.timeout or TrialOptions().timeout_s
    options = TrialOptions(
        timeout_s=timeout_s,
        pause_s=timeout_s / 20,
        crc=args.crc,
        behind=None if args.behind is None else (args.behind.host, args.behind.port),
        risky=args.risky,
        capture=args.capture,
        provider=_device(args),
    )
    if args.behind is not None:
        # Without the program, checks with its results would have no verdict.
        await find_host(args.behind)
    trial = ClientTrial(checks, options, lambda result: console.talk(f"{result.check.id}: {result.verdict.value}"))
    async with contextlib.AsyncExitStack() as stack:
        try:
            host, port = await stack.enter_async_context(listening(trial, url.host, url.port))
        except (OSError, UnicodeError) as error:
            raise cannot_listen(str(url), error) from None
        console.talk(f"listening at rdma://{authority(host, port)}; each connection meets one of {trial.left} checks")
        with contextlib.suppress(asyncio.CancelledError):
            await trial.done.wait()
        # Before the connections are ended, whose peers may be busy.
        return _report(args, files, str(url), sorted(trial.versions), [], trial.results())


def _chosen(args: argparse.Namespace) -> list[Check]:
    catalogue = CATALOGUE if args.listen is None else CLIENT_CATALOGUE
    if args.list:
        catalogue = CATALOGUE + CLIENT_CATALOGUE
    return chosen(catalogue, args.only, args.skip)


def _list(checks: Sequence[Check], *, json: bool) -> None:
    if json:
        for check in checks:
            row = {"id": check.id, "title": check.title, "statements": check.statements, "sections": check.sections}
            console.json_line({**row, "needs": sorted(check.needs), "conversation": check.conversation})
        return
    rows = [(check.id, " ".join(check.statements), check.title) for check in checks]
    console.table(rows, headings=("check", "statements", "rule"))


def _program(args: argparse.Namespace) -> tuple[int, int] | None:
    """Returns (number, newest version) of the RPC program that the file of --program defines.

    Prints an error and returns None if the file cannot be read or compiled, or does not define exactly one program.
    """
    from rpcrdma.rpc import load_interface  # noqa: PLC0415
    from rpcrdma.xdr.language import LanguageError  # noqa: PLC0415

    source = read_text(str(args.program))
    if source is None:
        return None
    try:
        versions = load_interface(source, source_name=args.program.name, lenient=True).module.versions
    except LanguageError as error:
        DefinitionText(str(args.program), source).show(error.diagnostics)
        return None
    programs = {each.program_number for each in versions}
    if len(programs) != 1:
        console.error(f"{args.program} defines {len(programs)} programs", "name a file that defines one")
        return None
    newest = max(versions, key=lambda each: each.number)
    return newest.program_number, newest.number


@contextlib.asynccontextmanager
async def _prepared(args: argparse.Namespace, program: tuple[int, int], fresh_files: int) -> AsyncIterator[Abilities]:
    if args.program is None:
        url: Url = args.url
        async with prepared_export(
            url, connect_options(args), mount_port=args.mount_port, write=args.write, fresh_files=fresh_files
        ) as abilities:
            abilities.given |= {"program": program[0], "program_version": program[1]}
            yield abilities
    else:
        yield Abilities(given={"program": program[0], "program_version": program[1]})


async def _spoken(
    args: argparse.Namespace, target: RawTarget, program: tuple[int, int], given: Mapping[str, int | bytes]
) -> dict[str, Outcome]:
    """Returns the protocol versions, "1" and "2", that the server speaks, each with the outcome of its trial.

    With --rpcrdma-version other than "auto", only that version. `program` is (number, version) of the RPC program;
    `given`, values for the conversations by name, has both numbers, too.

    Raises:
        ConnectFailed: the server cannot be reached, or speaks none of them.
        RpcError: the server does not offer the program.
    """
    try:
        with connecting(target):
            versions = await spoken_versions(target, given)
    except RpcError as error:
        error.add_note(
            f"rpcrdma programs rdma://{authority(target.host, target.port)} lists the programs of the server"
        )
        raise
    if args.rpcrdma_version != "auto":
        versions = {name: outcome for name, outcome in versions.items() if name == args.rpcrdma_version}
    if not versions:
        raise ConnectFailed(
            f"{args.url.authority} answers no call of program {program[0]} version {program[1]} over RPC-over-RDMA"
        )
    return versions


def _report(
    args: argparse.Namespace,
    files: Mapping[str, BinaryIO],
    url: str,
    versions: list[str],
    notes: list[str],
    results: list[Result],
) -> ExitStatus:
    report = as_json(url, versions, notes, results)
    try:
        if args.json:
            console.json_line(report)
        else:
            for line in summary_lines(report, details=args.details):
                console.data(line)
    finally:
        # Also where the reader of standard output has gone.
        _write(files, url, report, results)
    violated = any(result.verdict in {Verdict.VIOLATES, Verdict.HARMS} for result in results)
    return ExitStatus.FAILED if violated else ExitStatus.DONE


def _write(files: Mapping[str, BinaryIO], url: str, report: Mapping[str, Any], results: Sequence[Result]) -> None:
    texts = {"junit": lambda: as_junit(url, results), "html": lambda: as_html(report)}
    try:
        for name, file in files.items():
            octets = texts[name]().encode()
            empty(file)
            file.write(octets)
            file.flush()
    except UnicodeEncodeError as error:
        raise LocalProtocolError(f"the report cannot be written: {error}") from error
