"""The world at the start, and after a change of the machine or the settings."""

from __future__ import annotations

from collections.abc import Iterable

from sidecar.decide.books.lent import with_lent
from sidecar.decide.books.refit import refit
from sidecar.decide.books.takes import without_takes_of_what_was_not_its_own
from sidecar.decide.books.vacancies import after_refit
from sidecar.decide.container.machine import after
from sidecar.decide.container.news import CpusCame, WishRead
from sidecar.decide.container.place import with_cpus
from sidecar.decide.settings import Settings
from sidecar.decide.sightings import led_astray, stranded, wish_in, with_terms
from sidecar.decide.world import World, replace
from state.cpuset import CPUSet, union
from state.model import State
from state.topology import Topology, with_known_cores


def begin(state: State, topology: Topology, settings: Settings) -> World:
    """Return the world at the start of the daemon: the State of the checkpoint, fitted to this machine and settings."""
    world = _knowing(World(state=state, topology=topology, settings=settings), topology, state.cores or ())
    return with_lent(state, with_settings(world, settings))


def with_settings(world: World, settings: Settings) -> World:
    """Return the world under other settings: the State fitted (`refit`), and each container's wish read again, with
    the terms of its grant. What grants gain while the engine is not reached, or not all was looked at since, they may
    have to give up (`clashes`).
    """
    fitted, notes = refit(_as_it_is_now(replace(world, settings=settings, state=world.state.keeping({}))))
    kept = after_refit(replace(world, settings=settings), fitted)
    state = without_takes_of_what_was_not_its_own(world, kept)
    if not world.sees_all:
        held = world.state.assignments
        gained = union(now.cpus - held[key].cpus for key, now in state.assignments.items())
        state = replace(state, unlooked=state.unlooked | gained)
    return _recognized(replace(world, state=state, settings=settings, notes=notes))


def _recognized(world: World) -> World:
    """Return the world in which each container is what it is on this machine under these settings."""
    containers = {
        key: after(container, WishRead(wish_in(world, container))) for key, container in world.containers.items()
    }
    world = replace(world, containers=containers)
    for each in containers.values():
        world = with_terms(world, each.view, each.wish)
    return world


def _as_it_is_now(world: World) -> World:
    """Return the world to which a State is fitted: what is pinned by hand on the machine as it is now."""
    now = replace(world, state=replace(world.state, online=world.topology.online))
    return replace(world, containers=_recognized(now).containers)


def on_machine(world: World, topology: Topology) -> World:
    """Return the world whose containers are on a changed machine, and its State not yet: `with_settings` fits that.
    Updates that the engine refused before may be tried again. CPUs that came online are in use by all that may have
    them, or may be anywhere, until a look shows otherwise. What lost its last CPU, the kernel runs on others.
    """
    for each in world.containers.values():
        if (left := led_astray(stranded(each, topology.online), topology.online)) is not each:
            world = world.with_container(left)
    had = world.topology.online
    if came := topology.online - had:
        places = {
            key: with_cpus(each.view, each.place, came, topology.online) for key, each in world.containers.items()
        }
        containers = {key: after(each, CpusCame(places[key], came, had)) for key, each in world.containers.items()}
        world = replace(world, containers=containers)
    return _knowing(world, topology, world.topology.threaded)


def _knowing(world: World, topology: Topology, known: Iterable[CPUSet]) -> World:
    """Return the world on a machine whose cores keep their threads while these are offline, and a State that remembers
    them.
    """
    machine, state = with_known_cores(topology, known), world.state
    if machine.threaded != (state.cores or ()):
        state = replace(state, cores=machine.threaded)
    return replace(world, topology=machine, state=state)
