"""Source, section and level of the statements that the catalogue refers to, from the conformance ledger."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

__all__ = ["STATEMENTS", "Statement"]


class Statement(NamedTuple):
    """A row of the conformance ledger, without its text."""

    source: str
    section: str
    level: str


STATEMENTS: Mapping[str, Statement] = MappingProxyType(
    {
        "DDP-4": Statement("RFC 5041", "4.1", "MUST"),
        "DDP-6": Statement("RFC 5041", "4.3", "MUST"),
        "DDP-7": Statement("RFC 5041", "5.2", "MUST"),
        "DDP-9": Statement("RFC 5041", "5.2", "MUST, MUST NOT"),
        "DDP-11": Statement("RFC 5041", "5.3, 5.4", "MUST"),
        "DDP-14": Statement("RFC 5041", "6.2.1", "MUST"),
        "DDP-16": Statement("RFC 5041", "7.1", "MUST"),
        "DDP-18": Statement("RFC 5041", "7.2", "MUST"),
        "DDP-19": Statement("RFC 5041", "8.2", "MUST"),
        "EM-2": Statement("RFC 6581", "6", "MUST"),
        "EM-3": Statement("RFC 6581", "6", "MUST"),
        "EM-4": Statement("RFC 6581", "9", "MUST"),
        "EM-6": Statement("RFC 6581", "9.1", "SHOULD, MUST"),
        "EM-9": Statement("RFC 6581", "9.1", "MUST"),
        "EM-11": Statement("RFC 6581", "9.2", "MUST"),
        "EM-13": Statement("RFC 6581", "9.2", "MUST"),
        "EM-15": Statement("RFC 6581", "10", "REQUIRED, MUST"),
        "MPA-8": Statement("RFC 5044", "4.1", "MUST"),
        "MPA-25": Statement("RFC 5044", "4.4", "MUST"),
        "MPA-29": Statement("RFC 5044", "5.1", "REQUIRED"),
        "MPA-30": Statement("RFC 5044", "5.2, 6", "MUST"),
        "MPA-32": Statement("RFC 5044", "7.1.1", "MUST"),
        "MPA-35": Statement("RFC 5044", "7.1.1", "MUST"),
        "MPA-36": Statement("RFC 5044", "7.1.1", "MUST"),
        "MPA-38": Statement("RFC 5044", "7.1.2-2", "MUST"),
        "MPA-39": Statement("RFC 5044", "7.1.2-2", "SHOULD, MUST"),
        "MPA-42": Statement("RFC 5044", "7.1.2-5", "MUST"),
        "MPA-44": Statement("RFC 5044", "7.1.2-9", "MUST"),
        "MPA-47": Statement("RFC 5044", "8", "MUST, SHOULD"),
        "MPA-48": Statement("RFC 5044", "8", "MUST"),
        "MPA-49": Statement("RFC 5044", "8", "MUST NOT"),
        "MPA-51": Statement("RFC 5044", "A", "MUST NOT"),
        "NF-7": Statement("RFC 8267", "6.4.1", "MUST"),
        "NF-8": Statement("RFC 8267", "6.4.1", "MUST"),
        "NF-12": Statement("RFC 8267", "6.4.2", "SHOULD"),
        "OR-1": Statement("RFC 5531", "9", "MUST"),
        "OR-6": Statement("RFC 5531", "9", "must"),
        "PD-4": Statement("RFC 8797", "4", "MUST"),
        "PD-5": Statement("RFC 8797", "4.1", "MAY"),
        "PD-6": Statement("RFC 8797", "4.1", "MUST"),
        "PD-7": Statement("RFC 8797", "4.1", "MUST"),
        "PD-8": Statement("RFC 8797", "5.1", "MUST"),
        "PD-9": Statement("RFC 8797", "5.2", "MUST"),
        "PD-10": Statement("RFC 8797", "5.2", "should"),
        "RD-1": Statement("RFC 5040", "4.1", "MUST"),
        "RD-2": Statement("RFC 5040", "4.1", "MUST"),
        "RD-7": Statement("RFC 5040", "5.2.1", "MUST"),
        "RD-9": Statement("RFC 5040", "5.3", "MUST"),
        "RD-10": Statement("RFC 5040", "5.3", "MUST"),
        "RD-11": Statement("RFC 5040", "5.4", "MUST"),
        "RD-14": Statement("RFC 5040", "6.2.1", "SHOULD"),
        "RD-16": Statement("RFC 5040", "7.2", "MUST"),
        "V1-3": Statement("RFC 8166", "3.3.1", "MUST NOT"),
        "V1-5": Statement("RFC 8166", "3.3.1", "MUST"),
        "V1-14": Statement("RFC 8166", "3.4.4", "MAY"),
        "V1-21": Statement("RFC 8166", "3.4.5", "MUST"),
        "V1-24": Statement("RFC 8166", "3.4.5.2", "MUST"),
        "V1-26": Statement("RFC 8166", "3.4.6", "MUST"),
        "V1-28": Statement("RFC 8166", "3.4.6.2", "MUST NOT"),
        "V1-29": Statement("RFC 8166", "3.4.6.2", "MUST"),
        "V1-31": Statement("RFC 8166", "3.5.3", "MUST"),
        "V1-32": Statement("RFC 8166", "3.5.3", "MUST"),
        "V1-33": Statement("RFC 8166", "3.5.3", "MAY"),
        "V1-34": Statement("RFC 8166", "3.5.3", "MUST"),
        "V1-35": Statement("RFC 8166", "3.5.3", "MUST"),
        "V1-36": Statement("RFC 8166", "4", "MUST"),
        "V1-37": Statement("RFC 8166", "4", "MAY"),
        "V1-38": Statement("RFC 8166", "4.2.1", "MUST"),
        "V1-40": Statement("RFC 8166", "4.2.2", "MUST"),
        "V1-41": Statement("RFC 8166", "4.2.4", "MUST"),
        "V1-43": Statement("RFC 8166", "4.2.4", "MUST"),
        "V1-44": Statement("RFC 8166", "4.3.1", "MUST"),
        "V1-45": Statement("RFC 8166", "4.3.2", "MUST"),
        "V1-46": Statement("RFC 8166", "4.3.2.2", "MUST"),
        "V1-48": Statement("RFC 8166", "4.3.2.2", "MUST"),
        "V1-50": Statement("RFC 8166", "4.3.2.3", "MUST"),
        "V1-52": Statement("RFC 8166", "4.3.3", "MAY"),
        "V1-53": Statement("RFC 8166", "4.3.3", "MUST"),
        "V1-54": Statement("RFC 8166", "4.5", "MUST"),
        "V1-55": Statement("RFC 8166", "4.5", "MUST"),
        "V1-57": Statement("RFC 8166", "4.5", "MUST"),
        "V1-59": Statement("RFC 8166", "4.5.1", "MUST"),
        "V1-60": Statement("RFC 8166", "4.5.2", "MUST"),
        "V1-61": Statement("RFC 8166", "4.5.2", "SHOULD"),
        "V1-62": Statement("RFC 8166", "6.1", "MUST, MUST NOT"),
        "V1-67": Statement("RFC 8166", "4.5.4", "MUST"),
        "V1-69": Statement("RFC 8166", "4.6.1", "SHOULD"),
        "V1-72": Statement("RFC 8166", "4.6.2", "MUST"),
        "V1-76": Statement("RFC 8166", "7", "must"),
        "V1-85": Statement("RFC 8166", "3.2", "must"),
        "V1-92": Statement("RFC 8166", "3.4.5", "must"),
        "V1-94": Statement("RFC 8166", "3.4.6", "must"),
    }
)
"""Statements by id. A test compares them with specs/requirements."""
