#!/bin/sh
# Make .venv: a Python of 3.11 or newer with the daemon's and the developers' dependencies, each named by its digest in
# requirements/.
# On Debian and Ubuntu, as root, what Python lacks is installed from the distribution. Prints nothing if nothing is to be done.
set -eu
cd "$(dirname "$0")/../.."

say() { echo "==> $*" >&2; }
die() { echo "error: $*" >&2; exit 1; }

# Is this a Python that can make a virtual environment with pip in it?
fits() { "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

find_python() {
    for python in ${PYTHON:-} python3 python3.13 python3.12 python3.11 python3.14 /usr/bin/python3; do
        if fits "$python"; then
            echo "$python"
            return
        fi
    done
}

stamp=.venv/.made-of
want=$(cat pyproject.toml requirements/build.txt requirements/dev.txt setup.py sidecar/hand/reflex.c sidecar/projection/replacer.c sidecar/runtime/program/*.[ch] | cksum)
[ -x .venv/bin/python ] && [ "$(cat "$stamp" 2>/dev/null)" = "$want" ] && exit 0
if [ -L .venv ]; then
    # Another tree's: to make it anew would empty it under the feet of all that use it.
    [ -x .venv/bin/python ] || die ".venv is a link to a place without a Python: run make venv there, or remove the link"
    say "note: .venv is a link, and was made of other requirements: it is used as it is"
    exit 0
fi

python=$(find_python)
if [ -z "$python" ]; then
    [ -z "${PYTHON:-}" ] || die "PYTHON=$PYTHON is not a Python of 3.11 or newer with the modules venv and ensurepip"
    command -v apt-get >/dev/null 2>&1 || die "no Python of 3.11 or newer with the modules venv and ensurepip: install one, or set PYTHON=/path/to/python3"
    [ "$(id -u)" = 0 ] || die "no Python of 3.11 or newer with venv:  sudo apt-get install python3-venv"
    say "no Python with venv here: installing python3-venv from the distribution"
    log=$(mktemp)
    before=$(dpkg-query -W -f '${Package}\n' | sort)
    { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install python3-venv ca-certificates; } >"$log" 2>&1 ||
        { tail -n 15 "$log" >&2; die "apt-get cannot install python3-venv"; }
    rm -f "$log"
    # Noted where `make demo-clean` looks for what it may remove again.
    notes=${XDG_CACHE_HOME:-$HOME/.cache}/cpuset-sidecar
    mkdir -p "$notes"
    dpkg-query -W -f '${Package}\n' | sort | while read -r name; do
        echo "$before" | grep -qxF "$name" || echo "$name" >>"$notes/installed-packages"
    done
    python=$(find_python)
    [ -n "$python" ] || die "this distribution's Python is older than 3.11: install a newer one, and set PYTHON=/path/to/python3"
fi

say "making .venv with $("$python" -V 2>&1)"
"$python" -m venv --clear .venv
log=$(mktemp)
trap 'rm -f "$log"' EXIT
compose/host/install.sh .venv dev -e >"$log" 2>&1 || { tail -n 15 "$log" >&2; die "pip cannot install requirements/dev.txt"; }
echo "$want" >"$stamp"
