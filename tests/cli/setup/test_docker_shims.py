"""What Docker runs is found by its shims, whether dockerd runs or not."""

from __future__ import annotations

from pathlib import Path

from sidecar.cli.setup.docker_shims import shimmed

RUNTIME = "/usr/local/bin/cpuset-runc"


def process(proc: Path, pid: int, *words: str, runtime: str | None = None) -> None:
    at = proc / str(pid)
    bundle = at / "cwd"
    bundle.mkdir(parents=True)
    (at / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in words))
    if runtime is not None:
        (bundle / "runtime").write_text(runtime)


def test_a_shim_names_its_container_and_its_bundle_the_runtime(tmp_path: Path) -> None:
    shim = ("/usr/bin/containerd-shim-runc-v2", "-namespace", "moby")
    process(tmp_path, 10, *shim, "-id", "b" * 64, runtime=RUNTIME)
    process(tmp_path, 11, *shim, "-id", "a" * 64, runtime=f"{RUNTIME}\n")
    process(tmp_path, 12, *shim, "-id", "c" * 64, runtime="runc")
    process(tmp_path, 13, *shim, "-id", "d" * 64)
    process(tmp_path, 14, *shim, "-id")
    process(tmp_path, 15, "sleep", "-id", "e" * 64, runtime=RUNTIME)
    (tmp_path / "self").mkdir()
    assert shimmed(RUNTIME, str(tmp_path)) == ["a" * 12, "b" * 12]
