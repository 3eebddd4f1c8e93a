"""Files that systemd hands to a service as credentials: systemd.exec(5)."""

from __future__ import annotations

import argparse
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["Credential", "credential_or_path"]

_PREFIX: Final = "credential:"
_VARIABLE: Final = "CREDENTIALS_DIRECTORY"
_NAME: Final = re.compile(r"(?!\.{1,2}$)[^/\0]{1,255}", re.DOTALL)
"""The name of a file in a directory."""


@dataclass(frozen=True, slots=True)
class Credential:
    """A credential of systemd with the name `name`, as `LoadCredential=NAME:FILE` in a unit makes one.

    Its text is credential:NAME, as in settings.
    """

    name: str

    def __str__(self) -> str:
        return f"{_PREFIX}{self.name}"

    @property
    def path(self) -> Path:
        """The credential's file; if this process has no credentials, a path at which there is no file."""
        folder = os.environ.get(_VARIABLE)
        return Path(folder) / self.name if folder else Path(str(self))

    @property
    def is_hidden(self) -> bool:
        """Whether systemd hides the unit's credentials from this process, as version 252 does from `ExecReload=`."""
        folder = os.environ.get(_VARIABLE, "")
        return folder != "" and not Path(folder).is_dir()

    def fault(self) -> str | None:
        """Returns a text with cause and remedy if this process cannot read the credential; None if it can.

        None also for a hidden one (`is_hidden`), which the server itself reads.
        """
        if not os.environ.get(_VARIABLE):
            return (
                f"{self} is for a service of systemd, which sets {_VARIABLE}; start the unit by systemctl, with "
                f"LoadCredential={self.name}:FILE, or name a file"
            )
        if not self.is_hidden and not os.access(self.path, os.R_OK):
            return f"the unit has no credential {self.name}; add LoadCredential={self.name}:FILE to it, and restart it"
        return None


def credential_or_path(text: str) -> Credential | Path:
    """Parses credential:NAME into a credential, and any other text into the path of a file.

    Raises:
        ArgumentTypeError: NAME cannot be the name of a credential.
    """
    if not text.startswith(_PREFIX):
        return Path(text)
    name = text.removeprefix(_PREFIX)
    if not _NAME.fullmatch(name):
        raise argparse.ArgumentTypeError(f"{text!r} names no credential; write {_PREFIX}NAME as in LoadCredential=NAME")
    return Credential(name)
