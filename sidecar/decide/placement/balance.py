"""The most even distribution over NUMA nodes: which nodes are members, and who of them gives more than the others.

The kubelet tries every set of k members, and for each every subset R that the rest is dealt to, round-robin, one group
each in the order of nodes, skipping who has no whole group left. It keeps the find whose free CPUs left, over all
nodes, have the smallest standard deviation; of equals, the first set of members; for this set, the largest subset, then
the first. That takes 2^nodes steps and more; this file finds the same in a few, so:

1. All ways leave the same sum, so the smallest deviation is the smallest sum of squares: integers. Dropping constants,
   a node that has f free and gives a CPUs earns f*a - a*a/2; the earnings are to be maximal.
2. Without the round-robin rule it would be simple: the k nodes with most CPUs free are members, and each group of the
   rest goes to the member that has most left. This ideal is also optimal for a price per member and a price per group
   (Lagrange): any other way falls short of it by the sum of what each node's part falls short, its *regret* >= 0.
3. The rest of r groups dealt to r or more: one group each to the r members with most CPUs. Often that is without
   regret, and then nothing can be better.
4. Else rounds: after L full rounds, who was dealt to gave all its groups (it had no more than L), or L + 1 if its turn
   came before the rest ran out, or L if after. So whoever gives L + 1 comes before whoever gives L. For each L the best
   way follows from going through the nodes once, with all that matters of the way so far: how many members, how many
   groups, whether somebody has given L. Ways whose regret exceeds a limit are dropped; the limit starts at the least
   regret that any L can have, and doubles until something is found, which is then the best.
5. Regret and the order among equals are one integer: regret first, then the members as bits, first node highest, then
   how many are dealt to, then those as bits. It adds up over the nodes, and who they are is read back from it.

The kubelet rounds deviations to three decimals, and so takes as equal what differs by less; that needs nodes times
deviation beyond 1000 CPUs: equal nodes of more than 2000 CPUs together. There, this keeps to the more even one.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple


class Deal(NamedTuple):
    """What a member gives: the place of its node, the CPUs that all members give, and how many groups more."""

    place: int
    share: int
    extra: int


def balanced(free: Sequence[int], count: int, group_size: int, members: int) -> list[Deal]:
    """Who gives what, in the order of places: `count` CPUs, a multiple of the group, from exactly so many members.

    There must be a way: so many places that have the common share free, and whole groups enough among them.
    """
    share = count // members // group_size * group_size
    rest = (count - share * members) // group_size
    places = [place for place, cpus in enumerate(free) if cpus >= share]
    search = _Search([free[place] for place in places], share, group_size, members, rest)
    chosen, extra = search.best()
    return [Deal(places[place], share, extra.get(place, 0)) for place in chosen]


class _Search:
    """One request: the nodes that could be members, by place, and what is to be had from them."""

    def __init__(self, free: list[int], share: int, group_size: int, members: int, rest: int) -> None:
        self.free = free
        self.share = share
        self.group = group_size
        self.members = members
        self.rest = rest

    def best(self) -> tuple[list[int], dict[int, int]]:
        """The places of the members, ascending, and how many groups of the rest each of them is dealt."""
        by_most = sorted(range(len(self.free)), key=lambda place: -self.free[place])
        top = by_most[: self.members]
        if not self.rest:
            return sorted(top), {}
        # 2. The ideal.
        regrets = self._regrets(top)
        # 3. One group each.
        once = [place for place in top[: self.rest] if self.free[place] >= self.share + self.group]
        limit = None
        if len(once) == self.rest:
            limit = sum(regrets[self.free[place]].dealt[1 if n < self.rest else 0] for n, place in enumerate(top))
            if not limit:
                return sorted(top), dict.fromkeys(once, 1)
        # 4. Rounds.
        found = _Rounds(self.free, self.members, self.rest, regrets, sorted(top), limit).best()
        if found is None:
            return sorted(top), dict.fromkeys(once, 1)
        chosen, dealt = found
        return chosen, self._dealt(dealt)

    def _regrets(self, top: list[int]) -> dict[int, _Regrets]:
        """By free CPUs, against the ideal over these members."""
        group, share = self.group, self.share
        # The price of a group: what the member that gives the last one of the ideal has left before it.
        left = [share - self.free[place] for place in top]
        heapq.heapify(left)
        for _ in range(self.rest - 1):
            heapq.heapreplace(left, left[0] + group)
        price = -left[0]
        last = self.free[top[-1]]

        def worth(cpus: int) -> tuple[int, list[int]]:
            """What being a member earns at these prices, and by groups given, what of it is missed."""
            groups = range(min((cpus - share) // group, self.rest))
            earned = [0, *accumulate(group * (cpus - share - group * n - price) for n in groups)]
            most = max(earned)
            return share * cpus + most, [most - each for each in earned]

        threshold, _ = worth(last)
        found = {}
        for cpus in set(self.free):
            value, dealt = worth(cpus)
            found[cpus] = _Regrets(
                out=max(0, value - threshold), dealt=[each + max(0, threshold - value) for each in dealt]
            )
        return found

    def _dealt(self, places: list[int]) -> dict[int, int]:
        """The rest, dealt round-robin to these places."""
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


class _Regrets(NamedTuple):
    """By how much a node with so many CPUs falls short of the ideal: as no member, and as one that is dealt n groups.

    `dealt` ends where the node has no more groups.
    """

    out: int
    dealt: list[int]


class _Rounds:
    """Step 4: the best way with at least one full round."""

    def __init__(
        self,
        free: list[int],
        members: int,
        rest: int,
        regrets: dict[int, _Regrets],
        top: list[int],
        limit: int | None,
    ) -> None:
        self.members = members
        self.rest = rest
        self.nodes = [regrets[cpus] for cpus in free]
        self.places = len(free)
        # 5. From low to high: who is dealt to, how many, who is a member, regret.
        self.member_shift = self.places + self.places.bit_length()
        self.regret_shift = self.member_shift + self.places
        self.bits = [1 << (self.places - 1 - place) for place in range(self.places)]
        self.limit = limit
        self.top = sum(self.bits[place] for place in top)
        self.kinds = [(kind, sum(1 for each in self.nodes if each is kind)) for kind in regrets.values()]

    def best(self) -> tuple[list[int], list[int]] | None:
        """Members and those dealt to; None if one group each, of that limit, is as good."""
        most = max(len(kind.dealt) for kind, _ in self.kinds) - 1
        least = {rounds: self._least(rounds) for rounds in range(1, min(most, self.rest) + 1)}
        if not least:
            return None
        budget = min(least.values())
        while self.limit is None or budget <= self.limit:
            found = [self._through(rounds, budget) for rounds, regret in least.items() if regret <= budget]
            costs = [cost for cost in found if cost is not None]
            if costs:
                return self._read(min(costs))
            if self.limit is not None and budget == self.limit:
                return None
            budget = max(2 * budget, 1)
            if self.limit is not None:
                budget = min(budget, self.limit)
        return None

    def _read(self, cost: int) -> tuple[list[int], list[int]] | None:
        order = -cost & ((1 << self.regret_shift) - 1)
        regret = (cost + order) >> self.regret_shift
        chosen = order >> self.member_shift
        if self.limit is not None and (regret, -chosen) >= (self.limit, -self.top):
            return None
        return self._places(chosen), self._places(order & ((1 << self.places) - 1))

    def _places(self, bits: int) -> list[int]:
        return [place for place, bit in enumerate(self.bits) if bits & bit]

    def _least(self, rounds: int) -> int:
        """A regret that no way with so many rounds can be below."""
        return sum(count * min(kind.out, *_options(kind, rounds).values()) for kind, count in self.kinds)

    def _through(self, rounds: int, budget: int) -> int | None:
        """The cost of the best way with so many full rounds and no more regret than the budget; None: there is none."""
        # Nodes that may give something of the rest are gone through in order; of the others only their number counts.
        contested: list[tuple[bool, int | None, list[tuple[int, int]]]] = []
        others: list[int] = []
        base = 0
        for bit, node in zip(self.bits, self.nodes, strict=True):
            member = bit << self.member_shift
            out = node.out << self.regret_shift
            ways = [
                (groups, (regret << self.regret_shift) - member - (((1 << self.places) | bit) if groups else 0))
                for groups, regret in _options(node, rounds).items()
                if regret <= budget
            ]
            if any(groups for groups, _ in ways):
                exact = len(node.dealt) - 1 <= rounds
                contested.append((exact, out if node.out <= budget else None, ways))
            else:
                base += out
                others += [cost - out for _, cost in ways]
        others.sort()
        filled = [base, *accumulate(others, initial=base)][1:]
        most = budget << self.regret_shift
        states: dict[tuple[int, int, bool], int] = {(0, 0, False): 0}
        for exact, out, ways in contested:
            after: dict[tuple[int, int, bool], int] = {}
            for (members, given, has_ended), so_far in states.items():
                if out is not None:
                    _keep(after, (members, given, has_ended), so_far + out, most)
                for groups, cost in ways:
                    if members == self.members or given + groups > self.rest:
                        continue
                    ends = groups == rounds and not exact
                    if has_ended and groups > rounds:
                        continue
                    _keep(after, (members + 1, given + groups, has_ended or ends), so_far + cost, most)
            states = after
        found = [
            cost + filled[self.members - members]
            for (members, given, _), cost in states.items()
            if given == self.rest and self.members - members < len(filled)
        ]
        best = min(found, default=most + 1)
        return best if best <= most else None


def _options(node: _Regrets, rounds: int) -> dict[int, int]:
    """Groups of the rest that a member may have given when it ends after so many full rounds, and the regrets."""
    most = len(node.dealt) - 1
    return {groups: node.dealt[groups] for groups in (0, min(most, rounds), min(most, rounds + 1))}


def _keep(states: dict[tuple[int, int, bool], int], state: tuple[int, int, bool], cost: int, most: int) -> None:
    if cost <= most and cost < states.get(state, most + 1):
        states[state] = cost
