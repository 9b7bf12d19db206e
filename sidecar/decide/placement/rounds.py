"""The most even way to deal out a rest in rounds, among all members and all dealings: the hard part of `balance`.

1. A node is no member, or a member that is dealt nothing, or one that is dealt to. After L full rounds, such a one has
   given all its groups, if it has no more than L; else L + 1, if its turn came before the rest ran out, or L, if after.
   So in the order of nodes, nobody gives L + 1 after somebody gave only L.
2. For each L, the nodes are gone through once. All that matters of the way so far is how many are members, how many
   groups are dealt, and whether somebody gave only L. Of the ways to the same state, the cheapest is kept.
3. Every node's regret is at least the lowest of its own; what a way has above the sum of these must fit into the slack
   that the limit leaves. Ways that do not, or that cannot come to the right numbers any more, are dropped.
4. Nodes that cannot be dealt anything within the slack are not gone through: in the end, as many of the cheapest of
   them are members as are still missing.
5. Cost is one integer that says who is better: the regret, then the members as bits, first node highest, then how many
   are dealt to, then those as bits. It adds up over the nodes, and who they are is read back from it.

Rules for changing this file: the answer is compared with a search through everything in the tests; keep it so.
"""

from __future__ import annotations

from collections import Counter
from itertools import accumulate
from typing import NamedTuple


class Regrets(NamedTuple):
    """By how much a node with so many CPUs falls short of the ideal: as no member, and as one that is dealt n groups.

    `dealt` ends where the node has no more groups.
    """

    out: int
    dealt: list[int]


class Rounds:
    """The ways with at least one full round to deal out a rest to so many members, of nodes by free CPUs, in order."""

    def __init__(self, free: list[int], members: int, rest: int, regrets: dict[int, Regrets]) -> None:
        self.free = free
        self.members = members
        self.rest = rest
        self.places = len(free)
        self.kinds = Counter(free)
        self.regrets = regrets
        # 5. A cost, from low to high: who is dealt to, how many, who is a member, regret.
        self.member_shift = self.places + self.places.bit_length()
        self.regret_shift = self.member_shift + self.places
        self.bits = [1 << (self.places - 1 - place) for place in range(self.places)]

    def best(self, limit: int) -> tuple[int, list[int], list[int]] | None:
        """The regret, the members, those dealt to; None if every such way has more regret than the limit."""
        most = min(self.rest, max(len(each.dealt) for each in self.regrets.values()) - 1)
        best: int | None = None
        for least, rounds in sorted((self._least(rounds), rounds) for rounds in range(1, most + 1)):
            found = self._through(rounds, limit - least, least)
            if found is not None and (best is None or found < best):
                # What is found lowers the limit for the others. Less the order as bits, it is the regret rounded up.
                best, limit = found, -(-found >> self.regret_shift)
        if best is None:
            return None
        order = -best & ((1 << self.regret_shift) - 1)
        regret = (best + order) >> self.regret_shift
        return regret, self._places(order >> self.member_shift), self._places(order)

    def _places(self, bits: int) -> list[int]:
        return [place for place, bit in enumerate(self.bits) if bits & bit]

    def _options(self, cpus: int, rounds: int) -> dict[int, int]:
        """Groups of the rest that such a node may have given as a member, and the regrets."""
        # 1. Nothing, all, L, or L + 1.
        dealt = self.regrets[cpus].dealt
        most = len(dealt) - 1
        return {groups: dealt[groups] for groups in (0, min(most, rounds), min(most, rounds + 1))}

    def _least(self, rounds: int) -> int:
        """A regret that no way with so many rounds can be below: each node does what it regrets least."""
        return sum(n * self._lowest(cpus, rounds) for cpus, n in self.kinds.items())

    def _lowest(self, cpus: int, rounds: int) -> int:
        return min(self.regrets[cpus].out, *self._options(cpus, rounds).values())

    def _through(self, rounds: int, slack: int, least: int) -> int | None:
        """The best cost with so many full rounds, of ways within this slack above the least regret; None if none is.

        The cost is the regret, shifted, less the order as bits.
        """
        if slack < 0:
            return None
        ways = {cpus: self._ways(cpus, rounds, slack) for cpus in self.kinds}
        # 4. Who cannot be dealt anything is not gone through.
        contested: list[tuple[int, _Ways]] = []
        optional: list[int] = []
        base, forced = least << self.regret_shift, 0
        for bit, cpus in zip(self.bits, self.free, strict=True):
            way = ways[cpus]
            if way.highest:
                contested.append((bit, way))
                continue
            member = way.member[0][1] - (bit << self.member_shift) if way.member else None
            if way.out is None and member is not None:
                base += member
                forced += 1
            elif way.out is not None:
                base += way.out
                if member is not None:
                    optional.append(member - way.out)
        filled = [*accumulate(sorted(optional), initial=base)]
        states = self._states(contested, rounds, slack, self.members - forced - len(optional))
        found = [
            cost + filled[self.members - forced - members]
            for (members, given, _), cost in states.items()
            if given == self.rest and 0 <= self.members - forced - members < len(filled)
        ]
        best = min(found, default=None)
        return best if best is not None and best <= (least + slack) << self.regret_shift else None

    def _ways(self, cpus: int, rounds: int, slack: int) -> _Ways:
        # 3. What is above the lowest must fit into the slack.
        lowest = self._lowest(cpus, rounds)
        dealt = [
            (groups, (regret - lowest) << self.regret_shift)
            for groups, regret in self._options(cpus, rounds).items()
            if regret - lowest <= slack
        ]
        out = self.regrets[cpus].out - lowest
        return _Ways(
            out=out << self.regret_shift if out <= slack else None,
            member=dealt,
            is_drained=len(self.regrets[cpus].dealt) - 1 <= rounds,
            highest=max((groups for groups, _ in dealt), default=0),
            fewest=0 if out <= slack else min(groups for groups, _ in dealt),
        )

    def _states(self, contested: list[tuple[int, _Ways]], rounds: int, slack: int, fewest: int) -> dict[_State, int]:
        """What can be reached with these nodes, and at what cost; with `fewest` members or more."""
        within = slack << self.regret_shift
        highest, lowest, after = sum(way.highest for _, way in contested), sum(way.fewest for _, way in contested), 0
        # 2. One node after the other.
        states: dict[_State, int] = {(0, 0, False): 0}
        for n, (bit, way) in enumerate(contested, 1):
            highest -= way.highest
            lowest -= way.fewest
            after = len(contested) - n
            reached: dict[_State, int] = {}
            member, dealt = bit << self.member_shift, (1 << self.places) | bit
            options = [(groups, cost - member - (dealt if groups else 0)) for groups, cost in way.member]
            for (members, given, has_ended), so_far in states.items():
                if (
                    way.out is not None
                    and so_far + way.out <= within
                    and given + lowest <= self.rest <= given + highest
                    and members + after >= fewest
                ):
                    state = (members, given, has_ended)
                    cost = so_far + way.out
                    if cost < reached.get(state, within + 1):
                        reached[state] = cost
                if members == self.members:
                    continue
                for groups, cost in options:
                    total = given + groups
                    if not total + lowest <= self.rest <= total + highest or (has_ended and groups > rounds):
                        continue
                    cost += so_far
                    state = (members + 1, total, has_ended or (groups == rounds and not way.is_drained))
                    if cost <= within and cost < reached.get(state, within + 1):
                        reached[state] = cost
            states = reached
        return states


_State = tuple[int, int, bool]
"""Members so far, groups dealt to them, and whether one that has more was dealt only the full rounds."""


class _Ways(NamedTuple):
    """What a node may do within the slack: costs as no member, and as a member by groups dealt; and their extremes."""

    out: int | None
    member: list[tuple[int, int]]
    is_drained: bool
    highest: int
    fewest: int
