"""The modelled host of the histories, without a daemon: its containers, and what users do to them."""

from __future__ import annotations

from sidecar.decide.engine_traits import EngineTraits
from sidecar.decide.facts import EngineInfo, Phase, ViewKind
from sidecar.decide.orders import StartTimer, Update
from sidecar.decide.settings import shared_id
from sidecar.decide.world import World
from sidecar.simulation.model_host import ModelHost
from sidecar.simulation.model_kernel import ENGINE_GROUP, ModelKernel
from sidecar.simulation.model_limits import Limits, changed
from state.cpuset import EMPTY, CPUSet
from state.key import ContainerKey
from state.topology import Topology
from tests.support.decide.durations import Promises
from tests.support.decide.real import ENGINE, Real


class Host(ModelHost[Real]):
    """A ModelHost on cgroup v2. `group` is the cgroup that confines the shared pool, if it has a name."""

    def __init__(self, machine: Topology, shared_slice: str, *, needs_service: bool = True) -> None:
        super().__init__(ModelKernel(machine))
        self.needs_service = needs_service
        """Whether containers start through the engine's service alone."""
        self.mems = CPUSet(machine.memory)
        self.moments = 0
        self.is_ruled = False
        """Whether rules of the configuration come and go, and people release the CPUs of containers."""
        self.has_tenants = False
        """Whether containers close their own groups to the hand, if there is one (`tenants`)."""
        self.given_up: dict[ContainerKey, int] = {}
        """The containers that people released, with how often each had been started."""
        self.ended_unread: set[ContainerKey] = set()
        """The containers that were known by the kernel alone while the engine was away, and ended: it may have them."""
        self.timers: list[StartTimer] = []
        self.promises = Promises()
        self.created = 0
        self.group: Real | None = None
        if shared_slice:
            key = ContainerKey(ENGINE, shared_id(shared_slice))
            self.group = self.add(Real(key=key, name=shared_slice, kernel=self.kernel, kind=ViewKind.GROUP, home=""))
            self.group.phase = Phase.RUNNING
            self.kernel.enter(key.id, EMPTY, self.group.home)

    @property
    def is_blind(self) -> bool:
        """Whether something happened to the hand that is not reported yet."""
        return False

    def is_unheard(self, key: ContainerKey) -> bool:
        """Return whether the hand could not write this container, and that is not reported yet."""
        return False

    def is_slow_to_start(self, real: Real) -> bool:
        """Return whether the engine is long about the next start of this container, after its program runs."""
        return False

    def knowing(self, world: World) -> World:
        """Return the World of a daemon that starts here, with what it is told of engines."""
        return world

    def engine_of(self, created: int) -> str:
        """Return the name of the engine that makes the container of this number."""
        return ENGINE

    def engine_info(self, name: str = ENGINE) -> EngineInfo:
        """Return what an engine says of itself."""
        traits = EngineTraits(needs_service=self.needs_service)
        return EngineInfo(name=name, version="1", api_version="1.41", ncpu=len(self.machine.online), traits=traits)

    def time(self, order: StartTimer, world: World) -> None:
        """Begin to wait for a timer of the daemon that has this World."""
        self.promises.heard(order, world, self.containers.get(order.container))
        self.timers.append(order)

    def real_with(self, id: str) -> Real:
        """Return the container of this id, of whatever engine."""
        return next(real for key, real in self.containers.items() if key.id == id)

    def create(
        self,
        labels: dict[str, str],
        *,
        cpuset: str = "",
        nano_cpus: int = 0,
        quota: int = 0,
        mems: str = "",
        is_member: bool = False,
    ) -> Real:
        """Add a container, not started, optionally in the group that confines the shared pool."""
        self.created += 1
        limits = Limits(cpuset=cpuset, nano_cpus=nano_cpus, cpu_quota=quota, mems=mems)
        return self.add(
            Real(
                key=ContainerKey(self.engine_of(self.created), f"{self.created:064x}"),
                name=f"c{self.created}",
                kernel=self.kernel,
                labels=labels,
                limits=limits,
                had=limits,
                created_at=f"{self.created:06}",
                home=self.group.id if self.group and is_member else ENGINE_GROUP,
            )
        )

    def stamp(self, now: float = 0.0, start: int = 0) -> str:
        """Return a time stamp, later than all that were asked for: in a history there is an order, and no clock."""
        self.moments += 1
        return super().stamp(float(self.moments))

    def start(self, real: Real, now: float = 0.0) -> bool:
        """Start it on its configured CPUs. If it runs elsewhere, that is news; and if it was expected to ask."""
        is_running = super().start(real, now)
        self.note(real, real.configured(self.online))
        if real.told and not (real.effective or EMPTY) <= real.told:
            real.is_unseen = True
        return is_running

    def stop(self, real: Real, *, restarts: bool = False) -> None:
        """End it, by itself or by order."""
        if real.phase.is_live:
            self.die(real, restarts=restarts)

    def write(self, real: Real, cpus: CPUSet) -> None:
        """Write a live container's cpuset in the kernel, regardless of its configuration."""
        if real.phase.is_live:
            self.kernel.write(real.id, cpus)
            self.note(real, cpus)

    def relent(self, real: Real) -> None:
        """Give the cgroup above a container all CPUs again: news, where it runs on others then."""
        before = real.effective
        super().relent(real)
        real.is_unseen = real.is_unseen or real.effective != before

    def note(self, real: Real, cpus: CPUSet) -> None:
        """Record the CPUs that it was ordered onto. If the cgroup above makes it run elsewhere, that is news."""
        if not real.is_member and real.effective is not None and not real.effective <= cpus:
            real.is_unseen = True

    def tamper(self, real: Real, cpus: CPUSet) -> None:
        """Update the cpuset as another user would, with `docker update --cpuset-cpus`."""
        if cpus and not self.objection(real, Update(cpus=cpus)):
            real.is_unseen = real.is_tampered = real.was_tampered = True
            self.update(real, changed(Update(cpus=cpus)))

    def toggle_cpu(self, cpu: int) -> None:
        """Take a CPU offline or bring it back; the last one stays."""
        if online := CPUSet.from_mask(self.online.mask ^ (1 << cpu)):
            self.switch(online)
