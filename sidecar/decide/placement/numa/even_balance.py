"""The most even distribution over NUMA nodes: which nodes are members, and which members give more than the others.

The kubelet tries every set of k members, and for each every subset R to which the rest is dealt: round-robin, one group
each in the order of nodes, skipping nodes without a whole group left. It keeps the result whose remaining free CPUs,
over all nodes, have the smallest standard deviation. Ties go to the first set of members, and for this set to the
largest subset, then the first. That takes 2^nodes steps and more; this file finds the same result in a few steps:

1. All ways leave the same sum, so the smallest deviation is the smallest sum of squares: integers. Without constants, a
   node that has f CPUs free and gives a CPUs earns f*a - a*a/2; the earnings are to be maximal.
2. Without the round-robin rule it would be simple: the k nodes with the most free CPUs are members, and each group of
   the rest goes to the member with the most left. This ideal is also optimal for a price per member and a price per
   group (Lagrange): any other way falls short of it by the sum of the shortfalls of all nodes. The shortfall of one
   node is its *regret* >= 0.
3. The rest of r groups dealt to r or more: one group each to the r members with the most CPUs. Often that has no
   regret, and then no other way is better.
4. Otherwise rounds: after L full rounds, a node that was dealt to gave all its groups (it had at most L), or L + 1 if
   its turn came before the rest ran out, or L if after. So nodes that give L + 1 precede nodes that give L. For each L
   the best way is found in one pass over the nodes. The state of a way is its number of members, its number of groups,
   and whether a node has given L. Ways whose regret exceeds a limit are dropped. The limit is the regret of the best
   guess, which deals to the first few of the nodes with the most CPUs, and is nearly always the answer. See `rounds`.

The kubelet rounds deviations to three decimals, and so treats smaller differences as ties. That matters only if nodes
times deviation exceeds 1000 CPUs: equal nodes of more than 2000 CPUs together. Then this file keeps the more even one.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from sidecar.decide.placement.numa.rounds import Regrets, Rounds


class Deal(NamedTuple):
    """What a member gives: the place of its node, the CPUs that all members give, and its number of further groups."""

    place: int
    share: int
    extra: int


def balanced(free: Sequence[int], count: int, group_size: int, members: int) -> list[Deal]:
    """Return what each member gives, in the order of places: `count` CPUs, a multiple of the group, from exactly
    `members` members.

    There must be a way: so many places with the common share free, and enough whole groups in them.
    """
    share = count // members // group_size * group_size
    rest = (count - share * members) // group_size
    places = [place for place, cpus in enumerate(free) if cpus >= share]
    search = _Search([free[place] for place in places], share, group_size, members, rest)
    chosen, extra = search.best()
    return [Deal(places[place], share, extra.get(place, 0)) for place in chosen]


class _Search:
    """One request: the free CPUs of the nodes that could be members, by place, and what the members are to give."""

    def __init__(self, free: list[int], share: int, group_size: int, members: int, rest: int) -> None:
        self.free = free
        self.share = share
        self.group = group_size
        self.members = members
        self.rest = rest

    def best(self) -> tuple[list[int], dict[int, int]]:
        """Return the places of the members, ascending, and how many groups of the rest each of them is dealt."""
        by_most = sorted(range(len(self.free)), key=lambda place: -self.free[place])
        top = by_most[: self.members]
        if not self.rest:
            return sorted(top), {}
        # 2. The ideal.
        regrets = self._regrets(top)
        # 3. One group each.
        once = [place for place in top[: self.rest] if self.free[place] >= self.share + self.group]
        simple: tuple[int, list[int]] | None = None
        if len(once) == self.rest:
            regret = sum(regrets[self.free[place]].dealt[n < self.rest] for n, place in enumerate(top))
            simple = (regret, sorted(top))
            if not regret:
                return simple[1], dict.fromkeys(once, 1)
        # 4. Rounds.
        # A limit always exists: with fewer than r members that have whole groups, dealing to all of them is a guess.
        limit = min([*self._guesses(top, regrets), *([simple[0]] if simple else [])])
        found = Rounds(self.free, self.members, self.rest, regrets).best(limit)
        if simple and (found is None or found[:2] >= simple):
            return simple[1], dict.fromkeys(once, 1)
        assert found is not None, "the limit is that of a way"
        return found[1], self._dealt(found[2])

    def _guesses(self, top: list[int], regrets: dict[int, Regrets]) -> Iterator[int]:
        """Yield the regrets of dealing to the first 1, 2, ... of the members with the most CPUs."""
        there = 0
        for size, last in enumerate(top[: self.rest - 1], 1):
            rounds, more = divmod(self.rest, size)
            groups = (self.free[last] - self.share) // self.group
            there += groups
            places = sorted(top[:size])
            others = sum([regrets[self.free[place]].dealt[0] for place in top[size:]])
            if groups > rounds:
                dealt = [regrets[self.free[place]].dealt for place in places]
                first, then = [each[rounds + 1] for each in dealt[:more]], [each[rounds] for each in dealt[more:]]
                yield others + sum(first) + sum(then)
            elif groups and there >= self.rest:
                yield others + sum(regrets[self.free[place]].dealt[n] for place, n in self._dealt(places).items())

    def _regrets(self, top: list[int]) -> dict[int, Regrets]:
        """Return the regrets by number of free CPUs, against the ideal over these members."""
        group, share = self.group, self.share
        # The price of a group: what the member that gives the last group of the ideal has left before that.
        left = [share - self.free[place] for place in top]
        heapq.heapify(left)
        for _ in range(self.rest - 1):
            heapq.heapreplace(left, left[0] + group)
        price = -left[0]
        last = self.free[top[-1]]

        def worth(cpus: int) -> tuple[int, list[int]]:
            """Return what a member earns at these prices, and by groups given, how much of that it misses."""
            groups = range(min((cpus - share) // group, self.rest))
            earned = [0, *accumulate(group * (cpus - share - group * n - price) for n in groups)]
            most = max(earned)
            return share * cpus + most, [most - each for each in earned]

        threshold, _ = worth(last)
        found = {}
        for cpus in set(self.free):
            value, dealt = worth(cpus)
            found[cpus] = Regrets(
                out=max(0, value - threshold), dealt=[each + max(0, threshold - value) for each in dealt]
            )
        return found

    def _dealt(self, places: list[int]) -> dict[int, int]:
        """Return by place how many groups it gives if the rest is dealt round-robin to these places."""
        left = {place: (self.free[place] - self.share) // self.group for place in places}
        dealt = dict.fromkeys(places, 0)
        rest = self.rest
        while rest:
            for place in places:
                if rest and left[place]:
                    left[place] -= 1
                    dealt[place] += 1
                    rest -= 1
        return dealt
