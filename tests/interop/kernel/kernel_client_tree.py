"""The kernel's client works on trees of files that our server serves."""

from __future__ import annotations

from failures import CheckFailed
from lab import Lab, check

__all__: list[str] = []

COMPARE = "cd {directory}; md5sum --quiet -c /data/sums; test $(find . -type f | wc -l) = $(wc -l </data/sums)"
"""Compares the tree with the checksums: every file with its content, and no file besides."""


@check(quick=True)
def mount_and_look(lab: Lab) -> None:
    with lab.mounted() as server:
        (server.directory / "hello").write_text("from the server\n")
        said = lab.client.run("set -e; ls -la /mnt; cat /mnt/hello; df /mnt; grep proto=rdma /proc/mounts").output
        if "from the server" not in said:
            raise CheckFailed(f"no content: {said}")


@check(quick=True)
def mount_over_tcp(lab: Lab) -> None:
    with lab.mounted(options="proto=tcp,port=20048,vers=3,nolock,mountproto=tcp,mountport=20048"):
        lab.client.run(
            "set -e; cp /data/source.tar /mnt; echo 3 >/proc/sys/vm/drop_caches; cmp /data/source.tar /mnt/source.tar"
        )


@check(quick=True, by_version_4=True)
def untar_copy_find_remove(lab: Lab) -> None:
    with lab.mounted() as server:
        run = lab.client.run
        run("set -e; mkdir /mnt/tree; cd /mnt/tree; tar -xf /data/source.tar", 240)
        run("set -e;" + COMPARE.format(directory="/mnt/tree"), 120)
        run("set -e; cd /mnt; cp -r tree copy", 240)
        lab.remount()
        run("set -e;" + COMPARE.format(directory="/mnt/copy"), 120)
        run("set -e; cd /mnt/tree; find . | sort >/tmp/there; cd /data/original; find . | sort | cmp - /tmp/there")
        run("set -e; rm -rf /mnt/copy; test ! -e /mnt/copy; mv /mnt/tree /mnt/moved; rm -rf /mnt/moved", 240)
        if left := list(server.directory.iterdir()):
            raise CheckFailed(f"after rm -rf there still is {left}")


@check(by_version_4=True)
def thousands_of_files_in_a_directory(lab: Lab) -> None:
    with lab.mounted() as server:
        run = lab.client.run
        # Long names make long replies: some hundred entries fill one of READDIRPLUS.
        run(
            "set -e; mkdir /mnt/many; cd /mnt/many\nseq 1 3000 | sed s/$/-$(printf %0180d 0)/ | xargs touch",
            240,
        )
        lab.remount()
        run("set -e; cd /mnt/many; test $(ls -f | wc -l) = 3002; test $(ls -l | wc -l) = 3001", 120)
        run("set -e; cd /mnt/many; seq 1 3000 >/tmp/names; ls | cut -d- -f1 | sort -n | cmp - /tmp/names")
        if (count := len(list((server.directory / "many").iterdir()))) != 3000:
            raise CheckFailed(f"{count} files")
        # Names are removed while the directory is being read.
        run("set -e; cd /mnt; find many -name '*7-*' -delete; test $(ls many | wc -l) = 2700; rm -rf many", 240)


@check()
def thousands_of_directories(lab: Lab) -> None:
    with lab.mounted():
        run = lab.client.run
        run("set -e; cd /mnt; seq 1 2000 | sed s,^,wide/, | xargs mkdir -p", 240)
        run(
            "set -e; cd /mnt; mkdir deep; cd deep; mkdir -p $(printf '%080d/' $(seq 1 20))$(seq 1 300 | tr '\\n' /)",
            240,
        )
        lab.remount()
        run("set -e; cd /mnt; test $(find wide -type d | wc -l) = 2001; test $(find deep -type d | wc -l) = 321", 120)
        run('set -e; cd /mnt; rm -rf wide deep; test -z "$(ls)"', 240)


@check(quick=True, by_version_4=True)
def links_and_names(lab: Lab) -> None:
    with lab.mounted() as server:
        run = lab.client.run
        run(
            """set -e; cd /mnt
            for length in 1 59 60 255 256 1000 1023; do
                target=$(printf %0${length}d 7); ln -s $target link$length; test "$(readlink link$length)" = $target
            done
            # Longer than NFSv3 calls must carry, but not than Linux allows.
            target=$(printf %04000d 7); ln -s $target long
            name=$(printf %0255d 1); echo x >$name; test "$(ls $name)" = $name
            if echo x >${name}2; then exit 9; fi
            echo y >"a name with spaces"; echo z >"$(printf 'line\\nfeed \\377\\303')"; ls >/dev/null
            echo 1 >one; ln one two; test $(stat -c %h two) = 2; rm one; test "$(cat two)" = 1
            mkfifo pipe; mknod null c 1 3; echo gone >null; test -p pipe
            """
        )
        lab.remount()
        run(
            """set -e; cd /mnt
            for length in 1 59 60 255 256 1000 1023; do test "$(readlink link$length)" = $(printf %0${length}d 7); done
            test "$(readlink long)" = $(printf %04000d 7)
            test "$(cat "$(printf 'line\\nfeed \\377\\303')")" = z
            """
        )
        if str((server.directory / "link1023").readlink()) != "7".rjust(1023, "0"):
            raise CheckFailed("the server's symbolic link has another target")


@check(quick=True, by_version_4=True)
def attributes_and_users(lab: Lab) -> None:
    with lab.mounted():
        lab.client.run(
            """set -e; cd /mnt; chmod 755 .; mkdir open closed; chmod 777 open; chmod 700 closed
            echo 1 >file; chmod 4751 file; test $(stat -c %a file) = 4751
            chown 1000:65534 file; test $(stat -c %u:%g file) = 1000:65534
            touch -d '2001-02-03 04:05:06.123456789' file
            test "$(stat -c %y file | cut -c1-29)" = "2001-02-03 04:05:06.123456789"
            busybox su user -c 'set -e; echo mine >open/mine; test $(stat -c %U open/mine) = user; chmod 600 open/mine'
            if busybox su user -c 'ls closed' 2>/tmp/said; then exit 9; fi; grep -q denied /tmp/said
            if busybox su user -c 'echo x >x' 2>/dev/null; then exit 9; fi
            if busybox su nobody -c 'cat open/mine' 2>/dev/null; then exit 9; fi
            if rmdir open 2>/tmp/said; then exit 9; fi; grep -q 'not empty' /tmp/said
            """
        )
    with lab.mounted(serve=("--read-only",)):
        lab.client.run("cd /mnt; ls; if touch x 2>/tmp/said; then exit 9; fi; grep -q Read-only /tmp/said")
