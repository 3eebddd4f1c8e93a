"""Every encoder has a decoder, and the two stand side by side in the same order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from packages import modules, relative

# One direction only, and why.
ALONE = {
    "decode_reply": "reads each kind of reply, which have an encoder each",
    "encode_accepted": "read by decode_reply",
    "encode_rpc_mismatch": "read by decode_reply",
    "encode_auth_error": "read by decode_reply",
    "decode_result": "reads a whole reply message; the dispatcher writes it piece by piece",
    "encode_message": "read by decode_header, and written without making a Header first: the hot path",
    "encode_chunk_refused": "read by decode_header",
}


def codec_names(path: Path) -> tuple[list[str], list[str]]:
    """The types that the module's functions encode and decode, in order."""
    # Read, not parsed: each process that runs tests looks at all modules before the first.
    functions = re.findall(r"^def (\w+)", path.read_text(), re.MULTILINE)
    return (
        [name.removeprefix("encode_") for name in functions if name.startswith("encode_")],
        [name.removeprefix("decode_") for name in functions if name.startswith("decode_")],
    )


WITH_CODECS = [path for path in modules() if any(codec_names(path))]


@pytest.mark.parametrize("module", WITH_CODECS, ids=relative)
def test_encoders_and_decoders_come_in_pairs(module: Path) -> None:
    encoded, decoded = codec_names(module)
    encoded = [name for name in encoded if f"encode_{name}" not in ALONE]
    decoded = [name for name in decoded if f"decode_{name}" not in ALONE]
    assert encoded == decoded


def test_exceptions_still_exist() -> None:
    names = {
        f"{verb}_{name}"
        for path in modules()
        for verb, found in zip(("encode", "decode"), codec_names(path), strict=True)
        for name in found
    }
    assert set(ALONE) <= names
