#!/bin/sh
# Write requirements/*.txt anew: the versions of constraints.txt, and the digest of every file of each of them.
#
# The digests are what the package index says now, of the files for all platforms: review the difference before you commit
# it. A version that did not change must keep its digests; an index may add files to it, and must never replace one.
set -eu
cd "$(dirname "$0")/../.."
python=.venv/bin/python
[ -x .venv/bin/uv ] || "$python" -m pip -q install --require-hashes --only-binary=:all: -r requirements/uv.txt

header='# Made by `make hashes` from constraints.txt and pyproject.toml; do not edit. The digest of every file of each version.'
# uv asks the package index that its own settings name, and writes the name of none.
resolve() {
    name=$1
    shift
    .venv/bin/uv pip compile -q --universal --python "$python" --python-version 3.11 --no-build-isolation --generate-hashes \
        --no-header --no-annotate --upgrade -c constraints.txt "$@" >"requirements/$name.new"
    { echo "$header"; cat "requirements/$name.new"; } >"requirements/$name.txt"
    rm "requirements/$name.new"
}

echo 'pip
setuptools' | resolve build -
resolve workload pyproject.toml
resolve daemon pyproject.toml --extra daemon
resolve dev pyproject.toml --extra daemon --group dev
resolve figures --group figures
resolve page --group page
resolve sbom --group sbom
resolve uv --group hashes
