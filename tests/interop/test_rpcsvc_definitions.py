"""The definitions that systems install for rpcgen compile, by way of the C preprocessor."""

from __future__ import annotations

from pathlib import Path

import pytest

from rpcrdma.cli.main import main

FOLDER = Path("/usr/include/rpcsvc")

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(not list(FOLDER.glob("*.x")), reason="needs rpcsvc-proto: make interop"),
]

MACROS = {
    "key_prot.x": ["-DMAXNETNAMELEN=255"],
    "nlm_prot.x": ["-DLM_MAXSTRLEN=1024", "-DMAXNAMELEN=1025"],
}
"""What these take from headers of C (rpc/auth_des.h), or define in lines for C only."""
PROGRAMS = {
    "bootparam_prot.x", "key_prot.x", "klm_prot.x", "mount.x", "nfs_prot.x", "nis.x", "nis_callback.x", "nlm_prot.x",
    "rex.x", "rquota.x", "rstat.x", "rusers.x", "sm_inter.x", "spray.x", "yp.x", "yppasswd.x",
}  # fmt: skip
DEFINITIONS = sorted(path.name for path in FOLDER.glob("*.x"))


def test_all_that_the_package_has_are_there() -> None:
    assert set(DEFINITIONS) == PROGRAMS | {"nis_object.x"}


@pytest.mark.parametrize("name", DEFINITIONS)
def test_each_compiles(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = FOLDER / name
    if name == "nis_callback.x":
        # Its types are those of nis.x, which only its lines for C include.
        path = tmp_path / name
        path.write_text('#include "nis.x"\n#include <nis_callback.x>\n')
    options = ["--cpp", "--lenient", "--default-limit", "1024", f"-I{FOLDER}", *MACROS.get(name, [])]
    status = main(["xdr", "compile", *options, str(path), "-o", "-"])
    compiled, said = capsys.readouterr()
    assert status == 0, said
    assert "error: " not in said
    compile(compiled, name, "exec")
    assert ("_Client(" in compiled) is (name in PROGRAMS)
