"""What a front alone adds to a call of the runtime: `python -m tests.bench.fronts [--rounds 200]`.

Both fronts and nothing, in turn, before a real runtime that does nothing; no engine, and no root. The sidecar is one
that answers at once. The lowest of all rounds tells most where the machine is busy.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from sidecar.host.install.fronts import Front, front_files
from sidecar.host.install.runtime_files import Installation, carry_out
from sidecar.runtime import standing
from tests.runtime.bench import ID, Workbench, granted
from tests.support.host.front_program import compiled_front

NOTHING = "int main(void) { return 0; }\n"


class Bench:
    """A bundle of a container whose labels are known, a standing order, and fronts of both kinds."""

    def __init__(self, folder: Path, program: bytes | None) -> None:
        self.bench = Workbench(folder, program=program)
        self.real = folder / "runc"
        source = folder / "nothing.c"
        source.write_text(NOTHING)
        subprocess.run(["gcc", "-O2", "-static", "-s", "-o", str(self.real), str(source)], check=True)
        self.bench.install(real=str(self.real), python="/usr/bin/python3")
        made = Installation(
            real=str(self.real),
            python="/usr/bin/python3",
            socket=str(self.bench.sidecar.path),
            projections=str(self.bench.projections),
            patience=1.0,
            program=program,
        )
        carry_out(
            "/", list(front_files(self.bench.places, made, Front(engine="docker", name="x", real=str(self.real))))
        )
        compiling = ["/usr/bin/python3", "-I", "-S", "-m", "compileall", "-q", self.bench.places.library]
        subprocess.run(compiling, check=True)
        order = folder / standing.FOLDER
        (order / standing.BEGUN).mkdir(parents=True, mode=0o700)
        order.chmod(0o700)
        words = standing.Order(1, "0", standing.ASK_LABELLED, standing.boot_of(), standing.machine_of())
        (order / standing.ORDER).write_bytes(standing.encoded(words))
        (folder / ID).mkdir()
        (folder / ID / "config.v2.json").write_text(json.dumps({"Name": "/web", "Config": {"Labels": {"a": "b"}}}))
        subprocess.run(["runc", "spec"], cwd=self.bench.bundle, check=True)
        spec = self.bench.spec()
        spec["mounts"].append({"destination": "/etc/hosts", "source": f"{folder}/{ID}/hosts", "type": "bind"})
        self.spec = json.dumps(spec).encode()
        (self.bench.projections / "by-id" / ID[:12]).mkdir(parents=True)
        self.bench.answer(granted("0"))

    def once(self, way: str) -> float:
        """Return the milliseconds of a call."""
        self.bench.put(None, raw=self.spec)
        usual = self.bench.places.front("docker", "x")
        program = {"nothing": str(self.real), "by the order": usual}.get(way, self.bench.places.runtime)
        words = ["state", ID] if way == "state" else ["create", "--bundle", str(self.bench.bundle), ID]
        began = time.perf_counter()
        pid = os.posix_spawn(program, [program, *words], os.environ)
        status = os.waitpid(pid, 0)[1]
        took = (time.perf_counter() - began) * 1e3
        assert status == 0, way
        return took


WAYS = {
    "nothing": "nothing stands before it",
    "state": "a call that begins nothing",
    "by the order": "`create` by the standing order",
    "asking": "`create` with an answer that is there at once",
}


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory(prefix="fronts-") as one, tempfile.TemporaryDirectory(prefix="fronts-") as other:
        fronts = {"compiled": compiled_front(Path(one)), "python": None}
        benches = {
            name: Bench(Path(folder), program)
            for (name, program), folder in zip(fronts.items(), (one, other), strict=True)
            if program or name == "python"
        }
        took: dict[tuple[str, str], list[float]] = {(name, way): [] for way in WAYS for name in benches}
        try:
            for _ in range(rounds):
                for name, way in took:
                    took[name, way].append(benches[name].once(way))
        finally:
            for each in benches.values():
                each.bench.sidecar.close()
    print("| milliseconds | lowest | median | n |\n| --- | --- | --- | --- |")
    for (name, way), values in took.items():
        print(f"| {WAYS[way]}, {name} | {min(values):.2f} | {statistics.median(values):.2f} | {len(values)} |")


if __name__ == "__main__":
    main()
