#!/usr/bin/env bash
# tools/bare-debian.sh SUITE: as root, what README and `make test` say, in a bare Debian of that suite: `bookworm` has the
# oldest Python (3.11), `sid` the newest. Without a C compiler first, so in Python alone; then the native module is built
# there and the tests below the drivers run with it. build/debian-SUITE has the system, and is made anew each time.
set -euo pipefail
cd "$(dirname "$0")/.."
suite=${1:?which suite of Debian?}
root=$PWD/build/debian-$suite
if [ -z "${BARE_DEBIAN:-}" ]; then
    # Mounts and processes of their own, which end with this script.
    BARE_DEBIAN=1 exec unshare --mount --pid --fork --kill-child "$0" "$suite"
fi
command -v debootstrap >/dev/null ||
    { apt-get update -qq; DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends debootstrap; } >/dev/null
rm -rf --one-file-system "$root"
mkdir -p "$root"
debootstrap --variant=minbase --include=ca-certificates,git,make,python3-pip,python3-venv "$suite" "$root" >"$root.log" 2>&1 ||
    { tail -n 20 "$root.log"; exit 1; }
# Certificates and settings of pip that reach a package index from here.
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
cp /etc/resolv.conf /etc/hosts "$root/etc/"
settings=$(env | grep -E '^(PIP_|https?_proxy=|HTTPS?_PROXY=|no_proxy=)' || :)
# Not below the home of root: the server's tests act as other users, who have to read the package.
git clone --quiet . "$root/srv/rpcrdma"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"

# within COMMAND: a shell's command in the checkout there, with an environment of its own.
within() {
    # shellcheck disable=SC2086 # a setting a line, none of which has white space
    env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive $settings \
        chroot "$root" bash -euo pipefail -c "cd /srv/rpcrdma; $1"
}

# The newest Python is not the default one of an unstable suite at once.
within 'newest=$(apt-cache pkgnames python3. | grep -E "^python3\.[0-9]+-venv$" | sort --version-sort | tail -n 1)
    apt-get install -qq -y --no-install-recommends "$newest" >/dev/null; echo "Debian '"$suite"', ${newest%-venv}"'
within 'make demo && make test && .venv/bin/python -m pytest tests/house/test_readme.py -k first_commands_of_readme'
within 'python=$(basename "$(.venv/bin/python -c "import os, sys; print(os.path.realpath(sys.executable))")")
    apt-get install -qq -y --no-install-recommends gcc libc6-dev "$python-dev" >/dev/null
    make install && .venv/bin/rpcrdma doctor | grep "data path  *native," &&
    .venv/bin/python -m pytest -n 3 -m "not thorough and not interop" tests/wire tests/iwarp tests/verbs tests/conformance'
