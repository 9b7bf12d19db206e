"""A user's own Podman, and what a sidecar of that user needs: CPUSET_TESTS_ENGINE=rootless.

It needs root, systemd and cgroup v2. It makes a user, and lets users' managers have the cpuset controller: that changes
the machine, so it wants the permission of CPUSET_TESTS_USERS=1.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.live.privateengine import NoPrivateEngine, PrivateEngine
from tests.live.privatepodman import PrivatePodman, asked_engine
from tests.live.waiting import eventually

_MAY_MAKE_USERS: Final = os.environ.get("CPUSET_TESTS_USERS") == "1"
_NAME: Final = "cpuset-test"
_DELEGATED: Final = Path("/etc/systemd/system/user@.service.d/cpuset-test.conf")
_JOIN: Final = 'mkdir -p {group} && echo $$ >{group}/cgroup.procs && exec "$@"'
"""Puts a process of root's among those of the user's manager, as if that had started it."""


class RootlessPodman(PrivatePodman):
    """Podman as a user without rights runs it, below that user's manager. Every method blocks."""

    def __init__(self) -> None:
        if not _MAY_MAKE_USERS:
            raise NoPrivateEngine("a user's own Podman changes the machine: CPUSET_TESTS_USERS=1 permits it")
        if not Path("/run/systemd/system").is_dir() or Path("/sys/fs/cgroup/cpuset").is_dir():
            raise NoPrivateEngine("a user's own Podman needs systemd and cgroup v2: see `make vm-test`")
        self._user = _user()
        super().__init__()
        os.chown(self.folder, self._user.pw_uid, self._user.pw_gid)
        os.chown(self.configuration, self._user.pw_uid, self._user.pw_gid)

    @property
    def environment(self) -> dict[str, str]:
        """Return the user's environment."""
        return {**super().environment, **_variables(self._user)}

    @property
    def command(self) -> tuple[str, ...]:
        """Return the command as the user gives it."""
        return (*self._as_user, *super().command)

    @property
    def sidecar_wrapper(self) -> tuple[str, ...]:
        """Return what makes a command one of the user's, below the user's manager."""
        uid = self._user.pw_uid
        group = f"/sys/fs/cgroup/user.slice/user-{uid}.slice/user@{uid}.service/cpuset-test"
        variables = [f"{key}={value}" for key, value in _variables(self._user).items()]
        return ("sh", "-c", _JOIN.format(group=group), "sh", *self._as_user, "env", *variables)

    def sidecar_folder(self, offered: Path) -> Path:
        """Return a folder of the user's: what pytest offers cannot be entered by others."""
        del offered
        made = Path(tempfile.mkdtemp(prefix="sidecar-", dir=self.folder))
        os.chown(made, self._user.pw_uid, self._user.pw_gid)
        return made

    def systemctl(self, *words: str) -> str:
        """Ask the user's manager."""
        command = (*self._as_user, "systemctl", "--user", *words)
        return subprocess.run(
            command, env=self.environment, capture_output=True, text=True, check=True, timeout=300
        ).stdout.strip()

    def pids(self) -> list[int]:
        """Return also what Podman started in the user's namespace: that answers, and the process that was started only
        waits for it. Killed alone, it leaves a service behind that still ends its requests, for up to half a minute.
        """
        first = super().pids()
        children = [Path(f"/proc/{pid}/task/{pid}/children") for pid in first]
        return [int(child) for file in children if file.exists() for child in file.read_text().split()] + first

    @property
    def _as_user(self) -> tuple[str, ...]:
        # Not that of busybox, which knows no users.
        program = next((each for each in ("/usr/bin/setpriv", "/bin/setpriv") if os.access(each, os.X_OK)), "setpriv")
        return (program, "--reuid", _NAME, "--regid", _NAME, "--init-groups")


def private_kind() -> type[PrivateEngine]:
    """Return the kind of a private engine, by CPUSET_TESTS_ENGINE."""
    kinds: dict[str, type[PrivateEngine]] = {"podman": PrivatePodman, "rootless": RootlessPodman}
    return kinds.get(asked_engine(), PrivateEngine)


def _user() -> pwd.struct_passwd:
    """Return the tests' user, made if missing, with a manager that runs and may give out CPUs."""
    if shutil.which("newuidmap") is None:
        raise NoPrivateEngine("a user's own Podman needs newuidmap, which is not here")
    _DELEGATED.parent.mkdir(parents=True, exist_ok=True)
    _DELEGATED.write_text("[Service]\nDelegate=cpu cpuset io memory pids\n")
    try:
        found = pwd.getpwnam(_NAME)
    except KeyError:
        subprocess.run(("useradd", "-m", "-s", "/bin/sh", _NAME), check=True)
        found = pwd.getpwnam(_NAME)
    for words in (("systemctl", "daemon-reload"), ("systemctl", "start", "systemd-logind")):
        subprocess.run(words, check=True)
    subprocess.run(("loginctl", "enable-linger", _NAME), check=True)
    unit = ("systemctl", "is-active", "-q", f"user@{found.pw_uid}.service")
    eventually(lambda: subprocess.run(unit, check=False).returncode == 0, "the user's manager runs")
    return found


def _variables(user: pwd.struct_passwd) -> Mapping[str, str]:
    runtime = f"/run/user/{user.pw_uid}"
    return {
        "HOME": user.pw_dir,
        "USER": user.pw_name,
        "XDG_RUNTIME_DIR": runtime,
        "DBUS_SESSION_BUS_ADDRESS": f"unix:path={runtime}/bus",
    }
