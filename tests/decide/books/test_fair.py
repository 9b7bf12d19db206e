"""Max-min fairness: what it promises, compared with every other way to share out."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from sidecar.decide.books.fair import Capacity, Claim, fair
from state.key import ContainerKey


def named(id: str) -> ContainerKey:
    return ContainerKey("docker", id)


def alike(cpus: int) -> Capacity:
    """Return a capacity in which all CPUs are on whole cores."""
    return Capacity(cpus, cpus)


@st.composite
def claims(draw: st.DrawFn, most: int = 4, span: int = 5) -> list[Claim]:
    found = []
    for number in range(draw(st.integers(1, most))):
        floor = draw(st.integers(1, 3))
        lowest = floor + draw(st.sampled_from((0, 0, 1)))
        found.append(
            Claim(
                key=named(f"c{number}"),
                floor=floor,
                lowest=lowest,
                highest=lowest + draw(st.integers(0, span)),
                weight=draw(st.sampled_from((1, 1, 2, 5))),
                since=draw(st.integers(0, 3)),
                name=f"n{number}",
            )
        )
    return found


def shares(given_claims: list[Claim], sizes: tuple[int, ...]) -> list[Fraction]:
    """Return what each container has above its floor for its weight, from the poorest up."""
    return sorted(Fraction(n - c.floor, c.weight) for c, n in zip(given_claims, sizes, strict=True))


def every_way(room: int, given_claims: list[Claim]) -> Iterator[tuple[int, ...]]:
    for sizes in product(*(range(c.lowest, c.highest + 1) for c in given_claims)):
        if sum(sizes) <= room:
            yield sizes


@given(room=st.integers(0, 24), asked=claims())
def test_everybody_is_within_bounds_and_nothing_is_left_that_somebody_could_have(room: int, asked: list[Claim]) -> None:
    """Unless the lowest sizes alone exceed the supply: then every container has its lowest size."""
    found = fair(alike(room), asked)
    assert all(claim.lowest <= found[claim.key] <= claim.highest for claim in asked)
    least = sum(claim.lowest for claim in asked)
    assert sum(found.values()) <= max(room, least)
    if sum(found.values()) < room:
        assert all(found[claim.key] == claim.highest for claim in asked)


@given(room=st.integers(0, 24), asked=claims())
def test_no_container_could_gain_one_from_another_that_would_still_have_as_much(room: int, asked: list[Claim]) -> None:
    """The rule of max-min fairness within one CPU, pair by pair."""
    found = fair(alike(room), asked)
    for poor, rich in product(asked, asked):
        if poor is rich or found[poor.key] == poor.highest or found[rich.key] == rich.lowest:
            continue
        after = Fraction(found[rich.key] - 1 - rich.floor, rich.weight)
        assert after <= Fraction(found[poor.key] - poor.floor, poor.weight)


@given(room=st.integers(0, 14), asked=claims(most=3, span=4))
def test_the_poorest_have_as_much_as_in_any_other_way_to_share(room: int, asked: list[Claim]) -> None:
    """Compared with all other ways: none leaves the poorest richer."""
    if sum(claim.lowest for claim in asked) > room:
        return
    found = fair(alike(room), asked)
    ours = shares(asked, tuple(found[claim.key] for claim in asked))
    assert all(shares(asked, other)[0] <= ours[0] for other in every_way(room, asked))


@given(room=st.integers(0, 60), asked=claims(most=6, span=12), order=st.randoms())
def test_the_order_of_the_claims_changes_nothing(room: int, asked: list[Claim], order: object) -> None:
    shuffled = list(asked)
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    assert fair(alike(room), shuffled) == fair(alike(room), asked)


@given(room=st.integers(0, 30), asked=claims())
def test_one_cpu_more_to_share_takes_nothing_from_anybody(room: int, asked: list[Claim]) -> None:
    """So a CPU that comes free moves no container off its CPUs."""
    before, after = fair(alike(room), asked), fair(alike(room + 1), asked)
    assert all(after[claim.key] >= before[claim.key] for claim in asked)


def test_whole_units_are_given_where_they_fit_and_the_rest_to_others() -> None:
    cores = Claim(key=named("cores"), floor=2, lowest=2, highest=8, unit=2)
    single = Claim(key=named("single"), floor=1, lowest=1, highest=8, since=1)
    assert fair(alike(8), [cores, single]) == {named("cores"): 4, named("single"): 4}
    assert fair(alike(4), [cores, single]) == {named("cores"): 2, named("single"): 2}


def test_claims_for_whole_cores_share_what_whole_cores_there_are() -> None:
    """CPUs of half cores go to the others, beyond their share if need be."""
    cores = Claim(key=named("cores"), floor=2, lowest=2, highest=8, unit=2, by_cores=True)
    single = Claim(key=named("single"), floor=1, lowest=1, highest=8, since=1)
    assert fair(Capacity(8, 4), [cores, single]) == {named("cores"): 4, named("single"): 4}
    assert fair(Capacity(8, 3), [cores, single]) == {named("cores"): 2, named("single"): 6}


def test_a_size_that_is_not_in_whole_units_is_completed_first() -> None:
    """A CPU of a core was offline and is back."""
    cores = Claim(key=named("cores"), floor=2, lowest=3, highest=8, unit=2)
    assert fair(alike(5), [cores]) == {named("cores"): 4}
    assert fair(alike(6), [cores]) == {named("cores"): 6}


def test_ties_go_to_the_container_that_stayed_longest_and_then_by_name() -> None:
    old = Claim(key=named("old"), floor=1, lowest=1, highest=9, since=1, name="z")
    new = Claim(key=named("new"), floor=1, lowest=1, highest=9, since=2, name="a")
    twin = Claim(key=named("twin"), floor=1, lowest=1, highest=9, since=2, name="b")
    assert fair(alike(3), [new, old]) == {named("new"): 1, named("old"): 2}
    assert fair(alike(3), [twin, new]) == {named("new"): 2, named("twin"): 1}
