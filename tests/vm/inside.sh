#!/bin/sh
# In the machine: run tests, and leave their results in /out.
#   inside.sh SECONDS ARGUMENT OF PYTEST ...
# The tests are interrupted after so many seconds, so that what they found until then is not lost.
set -eu
seconds=$1
shift
# The tests' own user reads it, too.
chmod 755 /share
cd /share/project
python3 -m venv --without-pip /venv
echo /share/lib >"$(echo /venv/lib/python*/site-packages)/packages.pth"
# Tests call the command, too.
printf '#!/venv/bin/python\nimport sys\nfrom sidecar.__main__ import main\nsys.exit(main())\n' >/venv/bin/cpuset-sidecar
chmod +x /venv/bin/cpuset-sidecar
export PATH="/venv/bin:$PATH" CPUSET_TESTS_PATIENCE="${CPUSET_TESTS_PATIENCE:-10}"
mkdir -p /out
exec timeout -s INT -k 60 "$seconds" /venv/bin/python -m pytest -p no:cacheprovider -q -raP --timeout=1200 \
    --durations=15 --junitxml=/out/junit.xml -o junit_family=xunit1 "$@"
