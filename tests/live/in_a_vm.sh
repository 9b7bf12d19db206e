#!/bin/sh
# Run live tests inside a virtual machine that has more CPUs than its host. It needs root, Docker, a static
# busybox, and Python 3.11 or newer in the machine, and no network:
#
#   1. Copy this project into a folder that the machine can see, and the packages beside it, for its Python:
#        python3.13 -m pip install -c constraints.txt --target FOLDER/lib '.[daemon]' --group dev
#   2. In the machine:  sh FOLDER/project/tests/live/in_a_vm.sh [ARGUMENT OF PYTEST ...]
#
# CPUSET_TESTS_PATIENCE says how many times longer to wait for things than on real hardware: emulated, 10 is right.
set -eu
cd "$(dirname "$0")/../.."
made="$(mktemp -d)/venv"
python3 -m venv --without-pip "$made"
echo "$PWD/../lib" >"$(echo "$made"/lib/python*/site-packages)/packages.pth"
export PYTHONDONTWRITEBYTECODE=1 CPUSET_TESTS_PATIENCE="${CPUSET_TESTS_PATIENCE:-10}"
[ $# -gt 0 ] || set -- tests/live/test_dynamic.py
exec "$made/bin/python" -m pytest -p no:cacheprovider -q -rP --timeout=1200 "$@"
