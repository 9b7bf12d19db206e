"""The whole daemon on the simulated engine, in virtual time: from label to exclusive CPUs, and back."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from trio.testing import MockClock

from sidecar import daemon
from sidecar.config.config import Config, load
from sidecar.decide.facts import ContainerView, Phase
from sidecar.decide.settings import PolicyName
from sidecar.decide.world import replace
from sidecar.failures import AlreadyRunning
from sidecar.projection.teller import BRIEF_SECONDS
from sidecar.simulation.model_limits import Limits
from sidecar.status.status_file import read_status
from state.cpuset import CPUSet
from state.projection import Sharing, read
from tests.support.decide.rights import EVERY_RIGHT
from tests.support.engine.simulated import Fault
from tests.support.keys import docker

GIGA = 10**9
TWO = {"cpuset.exclusive": "2"}

pytestmark = pytest.mark.trio


async def test_from_label_to_exclusive_cpus(autojump_clock: MockClock, make_host: Any) -> None:
    """Exclusive CPUs, a pool that has left them, files that say so, and the State on disk."""
    host = make_host()
    plain = await host.docker.run("plain")
    async with host.running():
        rt = await host.docker.run("rt", labels=TWO)
        await host.settled(rt)
        assert (host.where(rt), host.where(plain)) == ("1-2", "0,3-7")
        told = host.told(rt)
        assert (told.sharing, told.cpus, told.settled) == (Sharing.EXCLUSIVE, CPUSet.of(1, 2), True)
        assert (host.path / "cpus" / "by-id" / rt[:12] / "cpuset").read_text() == "1-2\n"
        await trio.sleep(BRIEF_SECONDS + 0.1)
        assert (host.path / "cpus" / "by-id" / plain[:12] / "cpuset").read_text() == "0,3-7\n"
        assert host.books().assignments[docker(rt)].cpus == CPUSet.of(1, 2)
    assert host.broken == []
    assert (host.where(rt), host.where(plain)) == ("1-2", "0,3-7")


async def test_a_container_is_pinned_before_its_first_instruction(autojump_clock: MockClock, make_host: Any) -> None:
    """If there is a moment between create and start."""
    host = make_host()
    async with host.running():
        rt = await host.docker.create("rt", labels=TWO)
        await trio.sleep(0.01)
        assert host.configured(rt) == "1-2"
        await host.docker.start(rt)
        assert host.where(rt) == "1-2"
        await host.settled(rt)
    assert [str(update.cpus) for id, update in host.engine.updates if id == rt] == ["1-2"]


async def test_a_start_that_wins_the_race_is_settled_soon_after(autojump_clock: MockClock, make_host: Any) -> None:
    """Created and started at once: the update waits for the start, and is seen to have landed without an inventory."""
    host = make_host(reconcile_seconds=1000.0)
    async with host.running():
        await trio.sleep(0.1)
        rt = await host.docker.run("rt", labels=TWO)
        began = trio.current_time()
        await host.settled(rt)
        assert trio.current_time() - began < 0.1
        assert host.where(rt) == "1-2"


async def test_a_name_of_its_own(autojump_clock: MockClock, make_host: Any) -> None:
    host = make_host()
    async with host.running():
        rt = await host.docker.run("rt", labels={**TWO, "cpuset.projection": "game"})
        await host.settled(rt)
        assert read(host.path / "cpus" / "by-name" / "game").cpus == CPUSet.of(1, 2)


async def test_the_life_of_an_exclusive_container(autojump_clock: MockClock, make_host: Any) -> None:
    """A restart keeps the CPUs, a stop keeps them for its linger, a removal returns them at once."""
    host = make_host(linger_seconds=5.0)
    plain = await host.docker.run("plain")
    async with host.running():
        rt = await host.docker.run("rt", Limits(nano_cpus=2 * GIGA), labels=TWO)
        await host.settled(rt)
        assert host.docker.container(rt).limits.nano_cpus == 8 * GIGA
        await host.docker.restart(rt)
        await host.settled(rt)
        assert host.where(rt) == "1-2"
        await host.docker.stop(rt)
        await trio.sleep(4)
        assert host.where(plain) == "0,3-7"
        await trio.sleep(2)
        assert (host.where(plain), host.configured(rt)) == ("0-7", "0-7")
        assert host.docker.container(rt).limits.nano_cpus == 2 * GIGA
        await host.docker.start(rt)
        await host.settled(rt)
        await host.docker.remove(rt)
        await host.until(lambda: host.where(plain) == "0-7", seconds=0.1)
        assert host.told(rt) is None
        assert host.books().assignments == {}
    assert host.broken == []


async def test_a_container_with_rm_leaves_nothing(autojump_clock: MockClock, make_host: Any) -> None:
    host = make_host()
    async with host.running():
        rt = await host.docker.create("rt", labels=TWO, removes_itself=True)
        await host.docker.start(rt)
        await host.settled(rt)
        await host.docker.kill(rt)
        await host.until(lambda: host.told(rt) is None, seconds=0.1)
        assert host.books().assignments == {}
        assert host.books().originals == {}


async def test_shortage_stop_stops(autojump_clock: MockClock, make_host: Any) -> None:
    host = make_host()
    async with host.running():
        rt = await host.docker.run("rt", labels={"cpuset.exclusive": "9", "cpuset.on-shortage": "stop"})
        await host.until(lambda: host.where(rt) == "", seconds=1)
    assert "stopping a container: its CPUs are not available" in host.lines.getvalue()


async def test_drift_is_repaired(autojump_clock: MockClock, make_host: Any) -> None:
    """A user's `docker update`, at once by its event; and a cgroup written behind the engine, by the inventory."""
    host = make_host()
    plain = await host.docker.run("plain")
    async with host.running():
        rt = await host.docker.run("rt", labels=TWO)
        await host.settled(rt)
        await host.docker.change(plain, Limits(cpuset="1"))
        await host.until(lambda: host.where(plain) == "0,3-7", seconds=0.2)
        host.surprised.add(plain)
        host.docker.kernel.write(plain, CPUSet.of(1, 2))
        await host.until(lambda: host.where(plain) == "0,3-7", seconds=11)


async def test_policy_none_touches_nothing(autojump_clock: MockClock, make_host: Any) -> None:
    """Not one update, and not one file."""
    host = make_host(policy=PolicyName.NONE, reserved=None)
    async with host.running():
        rt = await host.docker.run("rt", labels=TWO)
        await trio.sleep(30)
        assert host.where(rt) == "0-7"
    assert host.engine.updates == []
    assert not (host.path / "cpus" / "by-id" / rt[:12]).exists()


async def test_release_restores_the_originals(autojump_clock: MockClock, make_host: Any) -> None:
    host = make_host()
    plain = await host.docker.run("plain")
    back = await host.docker.run("back")
    async with host.running():
        rt = await host.docker.run("rt", Limits(nano_cpus=2 * GIGA), labels=TWO)
        old = await host.docker.run("old", Limits(cpuset="6,7"), labels=TWO)
        await host.settled(rt, old)
    await host.docker.change(back, Limits(cpuset="0-7"))
    began = trio.current_time()
    assert await host.serve(is_release=True) == 0
    assert trio.current_time() - began < 1
    assert (host.where(plain), host.where(rt), host.where(old)) == ("0-7", "0-7", "6-7")
    assert host.docker.container(rt).limits.nano_cpus == 2 * GIGA
    assert host.books().originals == {}
    assert list((host.path / "cpus" / "by-id").iterdir()) == []


async def test_a_release_withdraws_what_is_told_before_others_are_let_in(
    autojump_clock: MockClock, make_host: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file says that a container is alone when the first order of the release is sent."""
    host = make_host()
    await host.docker.run("plain")
    async with host.running():
        rt = await host.docker.run("rt", labels=TWO)
        await host.settled(rt)
        assert host.told(rt).alone
    told = []
    update = host.engine.update

    async def watched(container: str, wanted: Any) -> None:
        told.append(sorted(path.name for path in (host.path / "cpus" / "by-id").iterdir()))
        await update(container, wanted)

    monkeypatch.setattr(host.engine, "update", watched)
    assert await host.serve(is_release=True) == 0
    assert told
    assert not any(told)


async def test_a_release_names_the_containers_that_it_restored(
    autojump_clock: MockClock, make_host: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """An engine cannot clear a cpuset, so it names the containers that have one written out now."""
    host = make_host(tenants_may=EVERY_RIGHT)
    await host.docker.run("plain")
    await host.docker.run("theirs", Limits(cpuset="5"))
    async with host.running():
        rt = await host.docker.run("rt", labels=TWO)
        await host.settled(rt)
    assert await host.serve(is_release=True) == 0
    assert capsys.readouterr().out.splitlines() == [
        "restored: plain, rt",
        "2 had no cpuset before, and have 0-7 written out until they are recreated: plain, rt",
        "not the sidecar's, and unchanged: the cpuset of theirs (5)",
    ]


async def test_a_release_from_the_wrong_directory_fails(autojump_clock: MockClock, make_host: Any) -> None:
    """The recorded state knows of no container, while containers are confined."""
    host = make_host()
    rt = await host.docker.run("rt", Limits(cpuset="1-2"))
    assert await host.serve(is_release=True) == 1
    assert "knows of no container, but 1 container has a cpuset: rt (1-2)" in host.lines.getvalue()
    assert host.where(rt) == "1-2"


async def shows_once_released(host: Any, **changed: Any) -> None:
    """Run `rt` on its own CPUs and end the daemon; once it is released, the engine shows it changed like this."""
    async with host.running():
        rt = await host.docker.run("rt", labels=TWO)
        await host.settled(rt)
    inspect = host.engine.inspect

    async def afterwards(container: str) -> ContainerView:
        view: ContainerView = await inspect(container)
        return replace(view, **changed) if host.books().originals == {} else view

    host.engine.inspect = afterwards


async def test_a_release_passes_over_what_is_half_removed(autojump_clock: MockClock, make_host: Any) -> None:
    """It keeps its cpuset, and never runs again: as after an engine that was killed during a removal."""
    host = make_host()
    await shows_once_released(host, cpuset="3", phase=Phase.DEAD)
    assert await host.serve(is_release=True) == 0
    assert "not released" not in host.lines.getvalue()


async def test_a_release_that_finds_what_another_set_meanwhile_fails(autojump_clock: MockClock, make_host: Any) -> None:
    """It looks at each container once more at the end."""
    host = make_host()
    await shows_once_released(host, cpuset="3")
    assert await host.serve(is_release=True) == 1
    assert 'not released container=rt reason="the engine shows the cpuset 3"' in host.lines.getvalue()


async def test_a_release_that_cannot_be_done_names_the_container(autojump_clock: MockClock, make_host: Any) -> None:
    host = make_host()
    async with host.running():
        rt = await host.docker.run("rt", labels=TWO)
        await host.settled(rt)
    host.engine.fail_updates(*[Fault.FAILED] * 1000)
    assert await host.serve(is_release=True) == 1
    assert "not released container=rt" in host.lines.getvalue()
    assert host.where(rt) == "1-2"


async def test_stopping_loses_nothing_and_moves_no_container(autojump_clock: MockClock, make_host: Any) -> None:
    """SIGTERM in the middle of an order: its outcome is still learnt and committed."""
    host = make_host()
    plain = await host.docker.run("plain")
    rt = await host.docker.create("rt", labels=TWO)
    async with host.running():
        await host.until(lambda: len(host.engine.updates) >= 2)
        os.kill(os.getpid(), signal.SIGTERM)
        await trio.sleep(1)
        updates = len(host.engine.updates)
        await trio.sleep(20)
    assert len(host.engine.updates) == updates
    assert "stopping: containers stay as they are" in host.lines.getvalue()
    books = host.books()
    assert books.assignments[docker(rt)].cpus == CPUSet.of(1, 2)
    assert books.originals.keys() == {docker(plain), docker(rt)}
    async with host.running():
        await host.docker.start(rt)
        await host.settled(rt)
        assert (host.where(rt), host.where(plain)) == ("1-2", "0,3-7")


async def test_a_hanging_order_does_not_hold_up_the_end_for_long(autojump_clock: MockClock, make_host: Any) -> None:
    host = make_host()
    await host.docker.run("plain")
    host.engine.fail_updates(Fault.LOST_BEFORE, Fault.LOST_BEFORE, Fault.LOST_BEFORE)
    async with host.running():
        await host.docker.create("rt", labels=TWO)
        await host.until(lambda: len(host.engine.updates) >= 1)
        began = trio.current_time()
    assert trio.current_time() - began < 6


async def test_sighup_reads_the_configuration_again(autojump_clock: MockClock, make_host: Any) -> None:
    """The policy changes at once; a bad file changes nothing, and each mistake is reported; so are keys that need a
    restart, and what is perhaps not meant.
    """
    host = make_host()
    file = host.path / "sidecar.toml"
    fixed = f'state_dir = "{host.config.state_dir}"\nprojections = "{host.config.projections}"\n'
    file.write_text(fixed + 'policy = "none"\n')
    host.config = load(str(file), {}, {})
    async with host.running():
        plain = await host.docker.run("plain")
        rt = await host.docker.run("rt", labels=TWO)
        await trio.sleep(1)
        assert host.engine.updates == []
        file.write_text(fixed + 'policy = "statig"\nlingr = 1\nreserved = "0"\n')
        os.kill(os.getpid(), signal.SIGHUP)
        await host.until(lambda: host.lines.getvalue().count("the running configuration stays in force") == 2)
        for told in ("line 3: policy is 'statig'; did you mean 'static'?", "line 4: unknown key 'lingr'; did you mean"):
            assert told in host.lines.getvalue()
        assert host.engine.updates == []
        file.write_text(fixed + 'policy = "static"\nreserved = "0"\nreconcile_period = "3s"\n')
        os.kill(os.getpid(), signal.SIGHUP)
        await host.settled(rt)
        assert (host.where(rt), host.where(plain)) == ("1-2", "0,3-7")
        assert " alone: " not in host.lines.getvalue()
        file.write_text(fixed + 'policy = "static"\nreserved = "3"\nreconcile_period = "3s"\n')
        os.kill(os.getpid(), signal.SIGHUP)
        await host.until(lambda: "reserved is CPU 3 alone: for 3 CPUs write count:3" in host.lines.getvalue())
        assert "reconcile_seconds takes effect only after a restart" in host.lines.getvalue()


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('reserved = "0-7"', "reserved takes 8 of this machine's 8 CPUs: leave some to be given exclusively"),
        ('reserved = "0"\nshared_min = 8', "shared_min is 8, and this machine has 8 CPUs: make it smaller"),
        ('reserved = "0,64"', "reserved is 0,64, but 64 is not on this machine: it has 0-7"),
    ],
)
async def test_what_no_start_would_accept_is_no_reload(
    autojump_clock: MockClock, make_host: Any, line: str, told: str
) -> None:
    """The file has no other mistake. Its owner keeps its CPUs."""
    host = make_host()
    file = host.path / "sidecar.toml"
    fixed = f'state_dir = "{host.config.state_dir}"\nprojections = "{host.config.projections}"\npolicy = "static"\n'
    file.write_text(fixed + 'reserved = "0"\n')
    host.config = load(str(file), {}, {})
    async with host.running():
        rt = await host.docker.run("rt", labels=TWO)
        await host.settled(rt)
        file.write_text(f"{fixed}{line}\n")
        os.kill(os.getpid(), signal.SIGHUP)
        await host.until(lambda: "the running configuration stays in force" in host.lines.getvalue())
        assert told in host.lines.getvalue()
        await trio.sleep(1)
        assert (host.where(rt), "configuration reloaded" in host.lines.getvalue()) == ("1-2", False)


async def test_sighup_reads_the_machine_again(autojump_clock: MockClock, make_host: Any) -> None:
    """A device that was added since the start is known then."""
    host = make_host()
    file = host.path / "sidecar.toml"
    told = (f'{key} = "{getattr(host.config, key)}"\n' for key in ("state_dir", "projections"))
    file.write_text("".join(told) + 'policy = "static"\nreserved = "0"\n')
    host.config = load(str(file), {}, {})
    async with host.running():
        came = {"eth9": CPUSet.of(5, 6)}
        host.docker.kernel.machine = msgspec.structs.replace(host.docker.kernel.machine, devices=came)
        os.kill(os.getpid(), signal.SIGHUP)
        await host.until(lambda: "configuration reloaded" in host.lines.getvalue())
        rt = await host.docker.run("rt", labels={**TWO, "cpuset.near": "eth9"})
        await host.settled(rt)
        assert host.where(rt) == "5-6"


async def test_a_second_sidecar_is_refused(autojump_clock: MockClock, make_host: Any) -> None:
    host = make_host()
    async with host.running():
        await trio.sleep(0.1)
        with pytest.raises(AlreadyRunning, match=rf"another sidecar \(process {os.getpid()}\) runs on "):
            await host.serve()


async def test_the_status_document_is_kept(autojump_clock: MockClock, make_host: Any) -> None:
    host = make_host()
    async with host.running():
        rt = await host.docker.run("rt", labels=TWO)
        await host.settled(rt)
        await trio.sleep(0.3)
        assert "rt" in {one.name for one in read_status(host.config.state_dir).containers}


@pytest.mark.parametrize("is_release", [False, True])
async def test_an_engine_that_is_not_there_ends_the_start(tmp_path: Path, is_release: bool) -> None:
    """Exit code 1, and a sentence that says what to do."""
    config = Config(
        engine=f"unix://{tmp_path}/none.sock", state_dir=str(tmp_path / "s"), projections=str(tmp_path / "p")
    )
    code = await trio.to_thread.run_sync(daemon.release if is_release else daemon.run, config)
    assert code == 1
