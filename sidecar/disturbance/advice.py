"""What would silence a disturber: a table from what it is, and how the switches stand, to switches. Pure.

docs/how-to/see-what-disturbs.md has the same table for people, and a test compares both. The facts are those of the
kernel's documentation: admin-guide/kernel-parameters.txt, core-api/irq/irq-affinity.rst, networking/scaling.rst,
core-api/workqueue.rst, admin-guide/sysctl/kernel.rst, admin-guide/kernel-per-CPU-kthreads.rst.

Parameters of the command line that isolate CPUs have one list: the kernel refuses an `isolcpus=` that does not match
`nohz_full=` (kernel/sched/isolation.c).
"""

from __future__ import annotations

import re
import shlex
from typing import Final

import msgspec

from sidecar.disturbance.account import GONE
from sidecar.disturbance.bitmaps import bitmap
from sidecar.disturbance.disturbance_report import Disturber
from sidecar.disturbance.switch_positions import HUGE_PAGES, WORKQUEUES, Positions
from sidecar.disturbance.trace_lines import RunnerKind
from state.cpuset import EMPTY, CPUSet

_CONTAINER: Final = "container "

_UNITS: Final = (".service", ".scope")
"""Of systemd, those that can be confined. A slice is left out: it may hold containers, which would be cut with it."""

_UNBOUND: Final = ("kworker/u", "kworker/R-")
"""Workers of no CPU, and the rescuers of their queues. Both refuse `taskset`, and follow the mask."""

_ERE: Final = re.compile(r"[][\\.^$*+?(){}|]")


class Switch(msgspec.Struct, frozen=True, kw_only=True):
    """Something that would silence a disturber, and what to know of it.

    `command` is for a shell, or for the kernel's command line if `needs_reboot`; "" if there is nothing to type: then
    `says` tells why.
    """

    says: str
    command: str = ""
    needs_reboot: bool = False


def switches(one: Disturber, cpus: CPUSet, now: Positions) -> tuple[Switch, ...]:
    """Return what would silence a disturber on these CPUs, at least one line. What is set already is not advised."""
    match one.kind:
        case RunnerKind.PROCESS:
            return (_process(one, now),)
        case RunnerKind.KERNEL_THREAD:
            return _thread(one, cpus, now)
        case RunnerKind.INTERRUPT:
            number, _, device = one.name.partition(" ")
            return (_tick(cpus, now),) if device == "arch_timer" else _interrupt(number, cpus, now)
        case RunnerKind.SOFTIRQ:
            return _softirq(one.name, cpus, now)
        case RunnerKind.VECTOR:
            return (_vector(one.name, cpus, now),)


STOLEN: Final = Switch(
    says="the machine that this one runs on shares its CPUs: there it can be given CPUs of its own; no switch is here"
)
"""For time that a hypervisor took."""


def _process(one: Disturber, now: Positions) -> Switch:
    if one.of == GONE:
        return Switch(says="it ended before it could be asked where it belongs: look for what starts it")
    if not now.others:
        return _no_room()
    if one.of.startswith(_CONTAINER):
        name = shlex.quote(one.of.removeprefix(_CONTAINER))
        return Switch(
            command=f"docker update --cpuset-cpus {now.others} {name}",
            says="if this sidecar does not place it: another engine's (`podman update`), or unmanaged",
        )
    if one.of.endswith(_UNITS) and now.confines_units:
        return Switch(
            command=f"systemctl set-property --runtime {shlex.quote(one.of)} AllowedCPUs={now.others}",
            says="until the next reboot; not for a unit that holds containers",
        )
    return _taskset(one.name, now, threads=True)


def _thread(one: Disturber, cpus: CPUSet, now: Positions) -> tuple[Switch, ...]:
    name = one.name
    if name.startswith("irq/"):
        return _interrupt(name.removeprefix("irq/").partition("-")[0], cpus, now)
    if name.startswith(_UNBOUND):
        return (_workqueues(cpus, now),)
    if name.startswith("rcuc/"):
        return (_rcu(cpus, now),)
    if name.startswith("ksoftirqd/"):
        return (Switch(says="it does the work of softirqs that come too fast: what silences these silences it"),)
    if name == "khugepaged":
        return (_taskset(name, now), *_huge_pages(now))
    if one.is_bound:
        return (Switch(says="it serves this CPU itself: without the work that it is given there, it sleeps"),)
    return (_taskset(name, now),)


def _interrupt(number: str, cpus: CPUSet, now: Positions) -> tuple[Switch, ...]:
    allowed = now.interrupts.get(int(number)) if number.isdigit() else None
    if allowed is not None and allowed.isdisjoint(cpus):
        return (Switch(says="it may come to other CPUs only already: a device follows at its next interrupt"),)
    if not now.others:
        return (_no_room(),)
    moved = Switch(
        command=f"echo {_kept(allowed, now)} > /proc/irq/{number}/smp_affinity_list",
        says="irqbalance moves it again, unless it is told to leave these CPUs alone",
    )
    if "managed_irq" in now.boot.get("isolcpus", "").split(",") and cpus <= now.asked("isolcpus"):
        return (moved,)
    managed = Switch(
        command=f"isolcpus=managed_irq,{_at_boot(cpus, now)}",
        says="for interrupts whose file refuses a write: the kernel places these itself",
        needs_reboot=True,
    )
    return moved, managed


def _softirq(name: str, cpus: CPUSet, now: Positions) -> tuple[Switch, ...]:
    match name:
        case "TIMER" | "HRTIMER":
            return (*_timers(cpus, now), _tick(cpus, now))
        case "SCHED":
            return (_tick(cpus, now),)
        case "RCU":
            return (_rcu(cpus, now),)
        case "NET_RX":
            return (*_steered("rps_cpus", cpus, now), _follows("the network's interrupts"))
        case "NET_TX":
            return (*_steered("xps_cpus", cpus, now), _follows("the network's interrupts"))
        case "BLOCK" | "IRQ_POLL":
            return (_follows("the disks' interrupts"),)
        case _:
            return (_follows("interrupts of devices"),)


def _vector(name: str, cpus: CPUSet, now: Positions) -> Switch:
    if name.lower().replace("_", " ").startswith("local timer"):
        return _tick(cpus, now)
    return Switch(says="other CPUs send it, mostly on behalf of the owner's own tasks: there is no switch")


def _tick(cpus: CPUSet, now: Positions) -> Switch:
    if now.nohz_full is None:
        return Switch(says="nohz_full= needs a kernel that was built with CONFIG_NO_HZ_FULL", needs_reboot=True)
    if cpus <= now.nohz_full:
        return Switch(
            says="nohz_full= has these CPUs already: what is left are timers of tasks, and more than one task"
        )
    if cpus <= now.asked("nohz_full"):
        return Switch(
            says=f"the kernel was given nohz_full={now.boot['nohz_full']}, and took {now.nohz_full or 'none'}"
        )
    return Switch(
        command=f"nohz_full={_at_boot(cpus, now)}",
        says="the tick stops while one task runs there; its own timers remain",
        needs_reboot=True,
    )


def _rcu(cpus: CPUSet, now: Positions) -> Switch:
    if cpus <= (now.nohz_full or EMPTY) or now.boot.get("rcu_nocbs") == "all" or cpus <= now.asked("rcu_nocbs"):
        return Switch(says="rcu_nocbs= has these CPUs already: what is left is the tick's part")
    return Switch(
        command=f"rcu_nocbs={cpus | now.asked('rcu_nocbs')}",
        says="threads that can be moved do it then; nohz_full= includes it",
        needs_reboot=True,
    )


def _timers(cpus: CPUSet, now: Positions) -> tuple[Switch, ...]:
    """Timers go from idle CPUs to busy ones; from those of `nohz_full=` always to others, if they may go at all."""
    if now.timer_migration is None:
        return ()
    if cpus <= (now.nohz_full or EMPTY):
        if now.timer_migration:
            return ()
        return (Switch(command="sysctl kernel.timer_migration=1", says="timers leave the CPUs of nohz_full= then"),)
    if not now.timer_migration:
        return ()
    return (Switch(command="sysctl kernel.timer_migration=0", says="timers of idle CPUs no longer come here"),)


def _steered(file: str, cpus: CPUSet, now: Positions) -> tuple[Switch, ...]:
    if not now.others:
        return ()
    return tuple(
        Switch(
            command=f"echo {bitmap(_kept(allowed, now))} > {shlex.quote(queue)}",
            says="until the next reboot",
        )
        for queue, allowed in sorted(now.steering.items())
        if queue.endswith(file) and not allowed.isdisjoint(cpus)
    )


def _workqueues(cpus: CPUSet, now: Positions) -> Switch:
    if now.workqueues is not None and now.workqueues.isdisjoint(cpus):
        return Switch(says="the workqueues' mask excludes these CPUs already: a workqueue with its own mask is left")
    if not now.others:
        return _no_room()
    return Switch(command=f"echo {bitmap(_kept(now.workqueues, now))} > {WORKQUEUES}", says="until the next reboot")


def _huge_pages(now: Positions) -> tuple[Switch, ...]:
    if now.huge_pages in ("", "never"):
        return ()
    return (Switch(command=f"echo never > {HUGE_PAGES}", says="then no process gets transparent huge pages"),)


def _taskset(name: str, now: Positions, *, threads: bool = False) -> Switch:
    if not now.others:
        return _no_room()
    pattern = shlex.quote(_ERE.sub(r"\\\g<0>", name))
    return Switch(
        command=f"pgrep {'-wx' if threads else '-x'} -- {pattern} | xargs -rn1 taskset -pc {now.others}",
        says="until it starts again",
    )


def _follows(what: str) -> Switch:
    return Switch(says=f"it follows {what}, and what the owner itself sends, reads and writes")


def _no_room() -> Switch:
    return Switch(says="there is no other CPU: all are exclusive")


def _kept(allowed: CPUSet | None, now: Positions) -> CPUSet:
    """Return what is set without owners' CPUs; all others if that leaves none."""
    return (allowed or EMPTY) & now.others or now.others


def _at_boot(cpus: CPUSet, now: Positions) -> CPUSet:
    return cpus | now.asked("nohz_full") | now.asked("isolcpus")
