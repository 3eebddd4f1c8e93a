"""Manual pages for `man`, generated from the parsers and the table of settings, as Markdown for Sphinx's builder `man`.

`conf.py` writes them where that builder runs; the Debian package has them.
"""

from __future__ import annotations

from collections.abc import Sequence

from reference_pages import described, own_options, setting_row, shared_options, subparsers, usage

from rpcrdma.cli.command_table import OF_LAB
from rpcrdma.cli.main import build_parser
from rpcrdma.cli.settings.table import NAME_OF_EXPORT, OF_EXPORTS, OF_RULES, OF_SERVER, SOURCES_OF_EXPORT
from rpcrdma.commands.setting import Setting

__all__ = ["MAN_PAGES", "pages"]

_AUTHORS = "The rpcrdma authors"
MAN_PAGES = [
    ("rpcrdma", "rpcrdma", "RPC-over-RDMA and NFS from the command line", _AUTHORS, 1),
    ("rpcrdma-serve", "rpcrdma-serve", "NFS server over RDMA and TCP", _AUTHORS, 8),
    ("rpcrdma.toml", "rpcrdma.toml", "configuration file of rpcrdma-serve(8)", _AUTHORS, 5),
]
"""Source, name, purpose, authors and section of each page, as Sphinx takes them."""

_EXIT_STATUS = """\
## Exit status

0
: done

1
: the operation failed

2
: wrong usage, or a mistake in the configuration

3
: no connection could be made

4
: one side broke the protocol
"""

_SERVER_LIFE = """\
## Signals

SIGTERM, SIGINT
: end the server after the calls in progress, for which it waits ten seconds

SIGHUP
: with `--config`, reads the configuration and the files of certificates again; a configuration with a mistake changes
  nothing

## Files

/etc/rpcrdma/rpcrdma.toml, /etc/rpcrdma/exports.d/\\*.toml
: the configuration of `rpcrdma.service`: rpcrdma.toml(5)

/etc/rpcrdma/USER/rpcrdma.toml
: that of `rpcrdma@USER.service`, the server of one user

/var/lib/rpcrdma/file-handle.key
: the key of file handles: without it, clients have to mount again; keep a copy

/var/lib/rpcrdma/clients.sqlite3, clients.sqlite3.lock
: the clients of version 4, which take back their locks after a restart; the servers that are running

/var/lib/rpcrdma/places.sqlite3
: where objects were last seen; it may be removed

/var/lib/rpcrdma/format
: the number of the layout of these files; an older version refuses a newer one
"""

_TOML_HEAD = """\
# rpcrdma.toml

## Description

The settings and exports of rpcrdma-serve(8), in TOML. Settings of the server stand above the first line in brackets,
`[defaults]` has terms of all exports, and each `[[export]]` is one export, with terms of its own. The files
`exports.d/*.toml` beside the file have further exports, and are read in the order of their names.

`rpcrdma serve --config FILE --check` prints all mistakes, and `rpcrdma config show --config FILE` each value with its
origin.

## Example

```
listen = ["tcp://[::]:2049", "tcp://[::]:20048", "rdma://[::]:20049"]

[[export]]
name = "/data"
directory = "/srv/data"
hosts = ["192.0.2.0/24"]
```
"""


def _listed(_: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A definition list: tables are too wide for terminals."""
    return "\n".join(f"{term}\n: {meaning or ' '}\n" for term, meaning in rows)


def _settings(found: Sequence[Setting]) -> str:
    rows = []
    for each in found:
        key, kind, meaning, option, taken = setting_row(each)
        of_option = f", option {option}" if option else ""
        rows.append((key, f"{meaning}. Type: {kind}{of_option}; a change takes: {taken}."))
    return _listed((), rows)


def _see_also(*names: str) -> str:
    return (
        "## See also\n\n"
        + ", ".join(f"{name}({section})" for _, name, *_, section in MAN_PAGES if name in names)
        + "\n"
    )


def pages() -> dict[str, str]:
    """The source of each manual page, by its file."""
    top = build_parser(whole=True)
    parsers = dict(subparsers(top))
    # The package has no rpcrdma-lab.
    elsewhere = {"serve", *OF_LAB}
    options = [section.replace("###", "##", 1) for section in shared_options(top, 3, _listed)]
    command = [
        "# rpcrdma\n",
        "## Synopsis\n\n`rpcrdma` *COMMAND* [*options*] [*arguments*]\n",
        "## Description\n",
        f"{top.description or ''} `rpcrdma help COMMAND` describes one command.\n",
        *(described(name, parser, 2, _listed) for name, parser in parsers.items() if name not in elsewhere),
        *options,
        _EXIT_STATUS,
        _see_also("rpcrdma-serve", "rpcrdma.toml"),
    ]
    serve = parsers["serve"]
    server = [
        "# rpcrdma-serve\n",
        f"## Synopsis\n\n{usage(serve)}",
        f"## Description\n\n{serve.description}\n",
        "## Options\n",
        *own_options(serve, _listed),
        *shared_options(serve, 2, _listed),
        f"## Examples and rights\n\n```\n{serve.epilog}\n```\n",
        _SERVER_LIFE,
        _EXIT_STATUS,
        _see_also("rpcrdma", "rpcrdma.toml"),
    ]
    toml = [
        _TOML_HEAD,
        "## The server\n",
        _settings(OF_SERVER),
        "## Exports\n",
        "The keys of `[[export]]` and, except the first three, of `[defaults]`.\n",
        _settings((NAME_OF_EXPORT, *SOURCES_OF_EXPORT, *OF_EXPORTS)),
        "## Rules\n",
        (
            "The first `[[export.rule]]` of an export that matches a call holds for it, and last the export itself."
            f" A rule has {', '.join(f'`{each.name}`' for each in OF_RULES if each in OF_EXPORTS)}, which it takes from"
            " its export where it leaves them out, and:\n"
        ),
        _settings([each for each in OF_RULES if each not in OF_EXPORTS]),
        _see_also("rpcrdma", "rpcrdma-serve"),
    ]
    found = {"rpcrdma.md": command, "rpcrdma-serve.md": server, "rpcrdma.toml.md": toml}
    return {name: "---\norphan: true\n---\n" + "\n".join(text) for name, text in found.items()}
