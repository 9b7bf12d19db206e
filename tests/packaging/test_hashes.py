"""Every byte that is installed is named by its digest, and a file with another digest is refused by name.

The installs here are pip's own, offline, of packages that the test makes.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from compose.host.hashed import FOLDER, ROOT, Hashed, NotHashed, for_python, read

SETS = sorted(path.stem for path in FOLDER.glob("*.txt"))
PYTHONS = ("3.11", "3.12", "3.13")


def packages(name: str) -> dict[str, Hashed]:
    """Return the packages of one file of requirements/, by name."""
    return {each.name: each for each in read((FOLDER / f"{name}.txt").read_text())}


def pins() -> dict[str, str]:
    """Return the versions of constraints.txt, by name."""
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    return {canonicalize_name(name): version for name, _, version in (line.partition("==") for line in lines)}


@pytest.mark.parametrize("name", SETS)
def test_each_package_has_one_version_and_digests(name: str) -> None:
    """Of all its files, so that each platform finds its own."""
    assert packages(name)
    for each in packages(name).values():
        assert len(set(each.digests)) == len(each.digests) > 0
        assert each.version == pins().get(each.name, each.version)


def test_what_is_tested_together_is_what_is_installed() -> None:
    """All but the tools of two targets have their version from constraints.txt."""
    for name in ("build", "workload", "daemon", "dev", "figures"):
        assert packages(name).keys() <= pins().keys()


def test_the_daemon_and_its_tests_have_the_same_files() -> None:
    """A digest that is tested is the one that is shipped, of pyinotify and pyasyncore too."""
    workload, daemon, dev = (
        {each.name: each.digests for each in packages(name).values()} for name in ("workload", "daemon", "dev")
    )
    assert workload.items() <= daemon.items() <= dev.items()
    assert {"pyinotify", "pyasyncore"} <= workload.keys()


@pytest.mark.parametrize("python", PYTHONS)
def test_each_set_has_all_that_pyproject_asks_for(python: str) -> None:
    """On every Python that is supported, of a version that the requirement allows."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    asked = {
        "build": project["build-system"]["requires"],
        "workload": project["project"]["dependencies"],
        "daemon": project["project"]["optional-dependencies"]["daemon"],
        **project["dependency-groups"],
        "uv": project["dependency-groups"]["hashes"],
    }
    del asked["hashes"]
    assert sorted(asked) == SETS
    for name, texts in asked.items():
        found = {each.name: each.version for each in for_python(python, name)}
        for requirement in map(Requirement, texts):
            if requirement.marker is None or requirement.marker.evaluate({"python_version": python}):
                assert requirement.specifier.contains(found[canonicalize_name(requirement.name)])


@pytest.mark.parametrize("line", ["one", "one==1.0", "one>=1 --hash=sha256:" + "0" * 64, "one==1 --hash=md5:0", "-e ."])
def test_a_line_without_version_or_digest_is_no_package(line: str) -> None:
    """Nothing floats in by a line that is passed over."""
    with pytest.raises(NotHashed):
        read(f"# a comment\n{line}\n")


def test_nothing_is_installed_but_by_digest() -> None:
    """Every `pip install` of the project asks for digests, or fetches nothing."""
    files = [ROOT / "Makefile", ROOT / "compose/Dockerfile", ROOT / ".ci/run", *(ROOT / "compose/host").iterdir()]
    lines = [line for path in files if path.is_file() for line in path.read_text().splitlines()]
    asks = re.compile(r"(-m\W+|run_)pip\b.*\b(install|download|wheel)\b")
    found = [line for line in lines if asks.search(line)]
    assert len(found) >= 6
    assert [line for line in found if "--require-hashes" not in line and "--no-index" not in line] == []


def test_a_base_image_has_no_default() -> None:
    """A tag names another image tomorrow: a base is chosen, by its digest, or made of signed packages."""
    assert "\nARG BASE\n" in (ROOT / "compose/Dockerfile").read_text()
    for path in (ROOT / "compose").glob("*.yaml"):
        assert set(re.findall(r"BASE: (\S+)", path.read_text())) <= {'"${BASE:-}"'}, path


@pytest.mark.slow
def test_the_bill_of_materials_is_what_is_installed(tmp_path: Path) -> None:
    """Each package of the daemon, with its version and the digests of its files."""
    program = Path(sys.executable).with_name("cyclonedx-py")
    if not program.exists():
        pytest.skip("needs the program cyclonedx-py, which `make sbom` installs")
    words = ["requirements", "--output-reproducible", "--of", "JSON", "-o", str(tmp_path / "sbom.json")]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore::UserWarning"}
    command = [str(program), *words, str(FOLDER / "daemon.txt")]
    subprocess.run(command, check=True, capture_output=True, env=environment)
    bill = json.loads((tmp_path / "sbom.json").read_text())
    found = {
        (each["name"], each["version"]): {
            digest["content"] for place in each["externalReferences"] for digest in place["hashes"]
        }
        for each in bill["components"]
    }
    assert bill["bomFormat"] == "CycloneDX"
    assert found == {(each.name, each.version): set(each.digests) for each in packages("daemon").values()}


class Checkout:
    """A project with one dependency in a folder of its own, to be installed by `install.sh` without any network."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.wheels = folder / "compose/wheels"
        for each in ("compose/host", "compose/wheels", "requirements", "venv/bin", "target"):
            (folder / each).mkdir(parents=True)
        shutil.copy(ROOT / "compose/host/install.sh", folder / "compose/host/install.sh")
        (folder / "pyproject.toml").write_text(
            '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
            '[project]\nname = "whole"\nversion = "1.0"\n[tool.setuptools]\npy-modules = ["whole"]\n'
        )
        (folder / "whole.py").touch()
        self.has_pip = True
        self.index = self.wheels

    def wheel(self, name: str) -> Path:
        """Make a package, version 1.0, that holds one empty module."""
        path = self.wheels / f"{name}-1.0-py3-none-any.whl"
        about = f"{name}-1.0.dist-info"
        with zipfile.ZipFile(path, "w") as made:
            made.writestr(f"{name}.py", "")
            made.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
            made.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            made.writestr(f"{about}/RECORD", f"{name}.py,,\n{about}/METADATA,,\n{about}/WHEEL,,\n{about}/RECORD,,\n")
        return path

    def lists(self, name: str, *wheels: Path) -> None:
        """Write a file of requirements/ with the digests that these wheels have now."""
        lines = [
            f"{path.name.partition('-')[0]}==1.0 --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}\n"
            for path in wheels
        ]
        (self.folder / f"requirements/{name}.txt").write_text("".join(lines))

    def install(self) -> subprocess.CompletedProcess[str]:
        """Install it into `target`, with the pip and the setuptools of the running environment."""
        python = self.folder / "venv/bin/python"
        lacks = "" if self.has_pip else 'case "$*" in "-m pip "*) exit 1;; esac\n'
        python.write_text(f'#!/bin/sh\n{lacks}exec {sys.executable} "$@"\n')
        python.chmod(0o755)
        own = {"PIP_TARGET": str(self.folder / "target"), "PIP_CONFIG_FILE": os.devnull, "PIP_NO_COMPILE": "1"}
        own |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.index)}
        command = [str(self.folder / "compose/host/install.sh"), str(self.folder / "venv"), "daemon"]
        return subprocess.run(command, env={**os.environ, **own}, capture_output=True, text=True, check=False)

    def installed(self) -> set[str]:
        """Return the names of the modules that are installed."""
        return {path.stem for path in (self.folder / "target").glob("*.py")}


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """Provide a checkout whose digests are those of its packages."""
    made = Checkout(tmp_path)
    made.lists("build", made.wheel("tool"))
    made.lists("daemon", made.wheel("needed"), made.wheel("other"))
    return made


def damage(path: Path) -> None:
    """Change one byte of a file: one of a name in the archive, so that it is still an archive."""
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("no-venv", "workload"), "is no virtual environment: make it first: python3 -m venv "),
        ((sys.prefix, "works"), "the sets are workload, daemon and dev"),
    ],
    ids=["no environment", "no set"],
)
def test_an_installation_without_a_place_or_a_set_says_so(words: tuple[str, str], said: str, tmp_path: Path) -> None:
    """Before anything is fetched. A relative path is one from where the command is typed."""
    command = [str(ROOT / "compose/host/install.sh"), *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: ")
    assert said in done.stderr
    assert (str(tmp_path) in done.stderr) is (words[0] == "no-venv")


@pytest.mark.slow
def test_a_checkout_is_installed_with_what_is_listed(checkout: Checkout) -> None:
    """The tools of the build, the packages, and the project itself."""
    done = checkout.install()
    assert done.returncode == 0, done.stdout + done.stderr
    assert checkout.installed() == {"tool", "needed", "other", "whole"}


@pytest.mark.slow
def test_wheels_for_an_image_are_no_others(checkout: Checkout) -> None:
    """After `make demo` there are some. An environment with a pip of its own is not cut off from the index by them."""
    checkout.index = checkout.wheels.rename(checkout.folder / "index")
    checkout.wheels.mkdir()
    checkout.wheel("pip")
    done = checkout.install()
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("name", "before"), [("needed", {"tool"}), ("tool", set())])
def test_one_byte_changed_is_refused_by_name(checkout: Checkout, name: str, before: set[str]) -> None:
    """Of a package, or of a tool of the build: nothing of that step is installed, and no step follows."""
    damage(checkout.wheels / f"{name}-1.0-py3-none-any.whl")
    done = checkout.install()
    said = done.stdout + done.stderr
    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in said
    assert f"{name}==1.0" in said
    assert checkout.installed() == before


@pytest.mark.slow
def test_a_package_that_is_not_listed_is_refused_by_name(checkout: Checkout) -> None:
    """A package that a listed one needs does not come in unseen."""
    path = checkout.wheel("greedy")
    with zipfile.ZipFile(path) as was:
        parts = {name: was.read(name) for name in was.namelist()}
    with zipfile.ZipFile(path, "w") as made:
        for name, content in parts.items():
            made.writestr(name, content + (b"Requires-Dist: other\n" if name.endswith("METADATA") else b""))
    checkout.lists("daemon", path)
    done = checkout.install()
    assert done.returncode != 0
    assert "other" in done.stderr
    assert checkout.installed() == {"tool"}


def test_a_pip_that_was_carried_in_is_checked_before_it_runs(checkout: Checkout) -> None:
    """It is what checks all others."""
    checkout.has_pip = False
    carried = checkout.wheel("pip")
    checkout.lists("build", carried)
    damage(carried)
    done = checkout.install()
    assert done.returncode == 1
    assert (
        done.stderr == f"error: compose/wheels/{carried.name}: requirements/build.txt lists no file with its digest\n"
    )
    assert checkout.installed() == set()
