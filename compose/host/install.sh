#!/bin/sh
# Install this checkout into a virtual environment. Every byte that comes from elsewhere is named by its digest.
#
#   compose/host/install.sh VENV SET [-e]
#
# VENV is there already: `python3 -m venv VENV`. SET is a file of requirements/: `workload` for programs that read their
# CPUs, `daemon`, or `dev` for developers. With -e the sources stay where they are.
#
# 1. pip and setuptools. An environment without pip is that of an image: it gets all from compose/wheels, if there is a pip
#    whose digest is known, and uses no network. Others ignore these wheels, which are for another Python.
# 2. The packages of SET. pip refuses, by name, a file whose digest is none of those that the set lists, and a package that
#    the set does not list. Only pyinotify is built here (it has no wheel), and by the setuptools of the first step.
# 3. This checkout, with nothing fetched.
set -eu
[ $# -ge 2 ] || { sed -n 's/^#   //p' "$0" >&2; exit 2; }
case $1 in /*) venv=$1 ;; *) venv=$PWD/$1 ;; esac
cd "$(dirname "$0")/../.."
python=$venv/bin/python set=requirements/$2.txt
[ -x "$python" ] || { echo "error: $venv is no virtual environment: make it first: python3 -m venv $venv" >&2; exit 1; }
[ -e "$set" ] || { echo "error: there is no $set: the sets are workload, daemon and dev" >&2; exit 1; }
shift 2
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore

# compose/host/image.py fetches them.
carried=$(ls compose/wheels/pip-*.whl 2>/dev/null || true)

if "$python" -m pip --version >/dev/null 2>&1; then
    pip=pip
elif [ -n "$carried" ]; then
    digest=$(sha256sum "$carried" | cut -d ' ' -f 1)
    grep -q -- "--hash=sha256:$digest" requirements/build.txt ||
        { echo "error: $carried: requirements/build.txt lists no file with its digest" >&2; exit 1; }
    pip=$carried/pip
    export PIP_NO_INDEX=1 PIP_FIND_LINKS=compose/wheels
else
    "$python" -m ensurepip >/dev/null
    pip=pip
fi
run_pip() {
    if [ "$pip" = pip ]; then "$python" -m pip "$@"; else "$python" "$pip" "$@"; fi
}

run_pip install --require-hashes --only-binary=:all: -r requirements/build.txt
pip=pip
run_pip install --require-hashes --only-binary=:all: --no-binary=pyinotify --no-build-isolation -r "$set"
run_pip install --no-index --no-deps --no-build-isolation "$@" .
"$python" -m pip check
