"""Random settings of a scenario: those at its beginning, and what a reload changes."""

from __future__ import annotations

import random

from tests.blackbox.plain_values import Table, numbers

EVERY_RIGHT = "opt-out, pin, lift-quota, priority"
"""What the promises about containers that are pinned by hand or kept out suppose."""


def settings_of(rng: random.Random, machine: Table, count: int) -> Table:
    """Return the settings at the beginning."""
    policy = rng.choice(("static", "dynamic", "dynamic"))
    reserved = rng.choice(reservations(machine, count))
    settings: Table = {"policy": policy, "reserved": reserved, "linger": rng.choice(("0s", "1s", "1s", "5s"))}
    if rng.random() < 0.7:
        settings["tenants_may"] = EVERY_RIGHT
    if "isolated" in machine:
        settings["isolated"] = rng.choice(("ignore", "prefer", "prefer", "only"))
    if rng.random() < 0.3 and count > 5:
        settings["shared_min"] = rng.randint(1, 3)
    if rng.random() < 0.25:
        settings["shortage"] = "wait"
    if chosen := options_of(rng, machine, is_host=True):
        settings["options"] = chosen
    if rng.random() < 0.3:
        settings["numa"] = rng.choice(("none", "restricted", "single"))
    if policy == "dynamic":
        settings["grace"] = rng.choice(("0s", "1s", "2s", "8s"))
        settings["cooldown"] = rng.choice(("0s", "2s", "10s"))
        if rng.random() < 0.2:
            settings["min_change"] = rng.randint(2, 4)
    if rng.random() < 0.25:
        settings["rule"] = rules_of(rng)
    return settings


def reservations(machine: Table, count: int) -> tuple[str, ...]:
    """Return what may be reserved: CPU 0, its core or two, or a count."""
    whole_core = "0-1" if machine.get("adjacent") else f"0,{count // 2}"
    several = whole_core if machine["threads"] > 1 else "0-1" if count > 3 else "0"
    if numbers(several) & numbers(machine.get("isolated", "")):
        several = "0"
    return ("0", "0", several, "count:1", "count:2" if count > 4 else "count:1")


def options_of(rng: random.Random, machine: Table, *, is_host: bool) -> list[str]:
    """Return options that may be together."""
    found = []
    if machine["threads"] > 1 and rng.random() < 0.35:
        found.append("full-pcpus-only")
    if is_host and rng.random() < 0.15:
        found.append("strict-cpu-reservation")
    if rng.random() < 0.1:
        found.append("distribute-cpus-across-numa")
    elif rng.random() < 0.1 and "full-pcpus-only" not in found:
        found.append("distribute-cpus-across-cores")
    elif rng.random() < 0.1:
        found.append("prefer-align-cpus-by-uncorecache")
    return found


def rules_of(rng: random.Random) -> list[Table]:
    """Return rules that ask for CPUs for containers without labels: by name, project and image."""
    matches: tuple[Table, ...] = (
        {"name": "[a-c]"},
        {"project": "shop"},
        {"image": "db:*"},
        {"name": "*", "image": "db*"},
    )
    chosen = rng.sample(matches, rng.randint(1, 2))
    rules: list[Table] = [{"match": match, "exclusive": rng.randint(1, 3)} for match in chosen]
    for rule in rules:
        rule |= {"on-shortage": "wait"} if rng.random() < 0.3 else {}
        rule |= {"max": rule["exclusive"] + 2} if rng.random() < 0.3 else {}
    return rules


def changes_of(rng: random.Random, machine: Table, count: int) -> Table:
    """Return what a reload changes: one to three keys, each of which may also keep its value."""
    isolated = ("ignore", "prefer", "only") if "isolated" in machine else ("ignore",)
    possible: Table = {
        "policy": rng.choice(("static", "dynamic")),
        "reserved": rng.choice(reservations(machine, count)),
        "shared_min": rng.randint(0, 2 if count > 5 else 1),
        "min_change": rng.randint(1, 3),
        "grace": rng.choice(("0s", "1s", "8s")),
        "linger": rng.choice(("0s", "1s", "5s")),
        "cooldown": rng.choice(("0s", "2s", "10s")),
        "shortage": rng.choice(("share", "wait")),
        "options": options_of(rng, machine, is_host=True),
        "numa": rng.choice(("none", "best-effort", "restricted", "single")),
        "isolated": rng.choice(isolated),
        "rule": rng.choice(([], rules_of(rng))),
    }
    return {key: possible[key] for key in rng.sample(sorted(possible), rng.randint(1, 3))}
