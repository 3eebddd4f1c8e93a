#!/usr/bin/env bash
# tools/debian-packages.sh SUITE...: installs the Debian packages that suites of tests need, as root and where a program or
# file of a suite is missing; it prints the command for others. Suites: native, interop, kerberos, kernel.
set -euo pipefail

# Prints each of the given programs and paths that is missing.
missing() {
    local name
    for name in "$@"; do
        command -v "$name" >/dev/null || [ -e "$name" ] || echo "$name"
    done
}

lacking=() packages=()
for suite in "$@"; do
    case $suite in
    native) # compilers with their sanitizers, and what clang links fuzz targets with
        fuzzer=libclang_rt.fuzzer_no_main-$(uname -m).a
        needed="gcc clang $(clang "-print-file-name=$fuzzer" 2>/dev/null || echo "$fuzzer")"
        of_suite="gcc clang libclang-rt-dev" ;;
    interop) # programs of others, and the definitions of rpcgen
        needed="tshark nfs-cp rpcinfo showmount systemd-analyze cpp /usr/include/rpcsvc/mount.x"
        of_suite="tshark libnfs-utils rpcbind nfs-common systemd rpcsvc-proto cpp" ;;
    kerberos) # a KDC, clocks that differ, and the headers that the extra `kerberos` is built with
        needed="/usr/sbin/krb5kdc /usr/sbin/kadmin.local kinit faketime krb5-config"
        of_suite="krb5-kdc krb5-admin-server krb5-user faketime libkrb5-dev gcc" ;;
    kernel) # QEMU, what builds modules of Linux kernels, and what makes a disk with Debian
        needed="qemu-system-x86_64 gcc make readelf xz ip debootstrap mke2fs"
        of_suite="qemu-system-x86 gcc make xz-utils iproute2 debootstrap e2fsprogs" ;;
    *)
        echo "error: there is no suite $suite: native, interop, kerberos, kernel" >&2
        exit 2 ;;
    esac
    # Names without blanks: each word is one.
    found=$(missing $needed)
    if [ -n "$found" ]; then lacking+=($found) packages+=($of_suite); fi
done

if [ ${#lacking[@]} = 0 ]; then
    exit
elif [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing the Debian packages ${packages[*]}"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "${packages[@]}" >/dev/null
else
    printf 'error: missing: %s\n  hint: sudo apt-get install --no-install-recommends %s\n' "${lacking[*]}" "${packages[*]}" >&2
    exit 1
fi
