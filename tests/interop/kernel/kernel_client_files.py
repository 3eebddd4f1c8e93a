"""The kernel's client reads and writes files of our server in every way that programs do."""

from __future__ import annotations

from lab import Lab, check
from python_layer import PYTHON

__all__: list[str] = []

DROP = "echo 3 >/proc/sys/vm/drop_caches"
"""Drops the client's cache, so that the next read asks the server."""


@check(quick=True, by_version_4=True)
def dd_direct_and_cached(lab: Lab) -> None:
    with lab.mounted():
        lab.client.run("dd if=/dev/urandom of=/data/data bs=1M count=20 && echo odd >>/data/data")
        for size, count in (("1M", 20), (65536, 64), (4096, 200), (1048573, 8), (100001, 30), (4097, 100), (511, 50)):
            for direct in ("", "direct"):
                out = f"oflag={direct}" if direct else ""
                into = f"iflag={direct}" if direct else ""
                lab.client.run(
                    f"set -e; cd /data; dd if=data of=/mnt/copy bs={size} count={count} {out} conv=fsync; {DROP}\n"
                    f"dd if=data bs={size} count={count} of=part; cmp part /mnt/copy; {DROP}\n"
                    f"dd if=/mnt/copy of=back bs={size} {into}; cmp part back; rm /mnt/copy",
                    120,
                )


@check(quick=True, by_version_4=True)
def appends_truncates_and_holes(lab: Lab) -> None:
    with lab.mounted():
        lab.client.run(
            f"""set -e; cd /mnt
            for i in $(seq 1 400); do echo "line $i" >>log; echo "line $i" >>/tmp/log; done; {DROP}; cmp log /tmp/log
            cp /data/source.tar file; cp /data/source.tar /tmp/file
            for size in 6000001 4097 4096 4095 1 0 123457 5000000; do
                truncate -s $size file; truncate -s $size /tmp/file; {DROP}; cmp file /tmp/file
            done
            dd if=/data/source.tar of=holes bs=4k count=5 seek=1000 conv=fsync
            dd if=/data/source.tar of=/tmp/holes bs=4k count=5 seek=1000
            dd if=/data/source.tar of=holes bs=777 count=5 seek=1000 conv=notrunc,fsync
            dd if=/data/source.tar of=/tmp/holes bs=777 count=5 seek=1000 conv=notrunc
            {DROP}; cmp holes /tmp/holes; rm -f /tmp/log /tmp/file /tmp/holes
            """,
            120,
        )


@check(quick=True, by_version_4=True)
def renames_and_removals_of_open_files(lab: Lab) -> None:
    with lab.mounted():
        lab.client.run(
            f"""set -e; cd /mnt
            cp /data/source.tar old; echo new >new; exec 4<old
            mv new old; test "$(cat old)" = new; {DROP}; cmp /data/source.tar - <&4; exec 4<&-
            cp /data/source.tar gone; exec 5<>gone; rm gone; test ! -e gone
            {DROP}; cmp /data/source.tar - <&5; echo tail >&5; exec 5>&-
            mkdir a b; echo 1 >a/x; exec 6<a/x; mv a/x b/y; {DROP}; test "$(cat <&6)" = 1; exec 6<&-
            mv -T a b && exit 9; rm b/y; mv -T a b; test "$(ls -A)" = "$(printf 'b\\nold')"
            """
        )


@check(quick=True, by_version_4=True)
def parallel_writers(lab: Lab) -> None:
    with lab.mounted():
        lab.client.run(
            f"""set -e; cd /mnt
            for i in 1 2 3 4 5 6; do (cat /data/source.tar; echo $i) >own$i & done
            for i in 0 1 2 3 4 5; do
                dd if=/data/source.tar of=shared bs=1000003 count=1 skip=$i seek=$i conv=notrunc oflag=direct &
            done
            wait; {DROP}
            for i in 1 2 3 4 5 6; do (cat /data/source.tar; echo $i) | cmp - own$i & done; wait
            for i in 1 2 3 4 5 6; do (cat /data/source.tar; echo $i) | cmp - own$i; done
            head -c 6000018 /data/source.tar | cmp - shared
            """,
            180,
        )


@check(quick=True, by_version_4=True)
def random_operations_on_files(lab: Lab) -> None:
    # The same kind of test as fsx, which no Debian package offers.
    with lab.mounted():
        exercise = "python3 /data/file_exerciser.py /mnt/file{seed} {seed} 700"
        jobs = [lab.client.start(PYTHON + exercise.format(seed=seed), 200) for seed in (1, 2, 3)]
        for job in jobs:
            job.wait()
        lab.remount()
        lab.client.run("set -e; for seed in 1 2 3; do cmp /mnt/file$seed /mnt/file$seed.expected; done")


@check(quick=True, by_version_4=True)
def fio_with_verification(lab: Lab) -> None:
    rest = "--directory=/mnt --size=6m --verify=crc32c --verify_fatal=1 --group_reporting --minimal --thread"
    with lab.mounted():
        for job in (
            "--rw=randrw --bsrange=512-200k --bs_unaligned --ioengine=psync --numjobs=3 --fsync=20",
            "--rw=randwrite --bs=4k --ioengine=libaio --iodepth=16 --direct=1 --numjobs=2",
            "--rw=write --bs=1m --ioengine=libaio --iodepth=4 --direct=1",
            "--rw=randwrite --bs=4k --ioengine=mmap --numjobs=2",
        ):
            lab.client.run(f"fio --name=job {job} {rest} && rm -f /mnt/job*", 180)


@check()
def fio_long(lab: Lab) -> None:
    with lab.mounted():
        lab.client.run(
            "fio --directory=/mnt --size=16m --verify=crc32c --verify_fatal=1 --time_based --runtime=40 --thread"
            " --name=direct --rw=randrw --bsrange=512-1m --bs_unaligned --direct=1 --ioengine=libaio --iodepth=8"
            " --name=cached --rw=randrw --bsrange=512-1m --bs_unaligned --ioengine=psync --numjobs=2"
            " --name=mapped --rw=randrw --bs=4k --ioengine=mmap",
            200,
        )
