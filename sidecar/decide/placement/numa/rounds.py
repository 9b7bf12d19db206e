"""The most even way to deal out a rest in rounds, among all members and all dealings: the hard part of `even_balance`.

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
        missing = self.members - forced
        found = [
            cost + filled[missing - members]
            for members, cost in self._contested(contested, rounds, slack).items()
            if 0 <= missing - members < len(filled)
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

    def _contested(self, contested: list[tuple[int, _Ways]], rounds: int, slack: int) -> dict[int, int]:
        """By how many of these nodes are members: the best cost of dealing them the rest."""
        within = slack << self.regret_shift
        highest, lowest = sum(way.highest for _, way in contested), sum(way.fewest for _, way in contested)
        # 2. A state is the groups dealt and the members so far, as one number; `ended` are those where somebody gave
        # only L, and so nobody gives L + 1 any more.
        stride = len(contested) + 1
        open_states, ended_states = {0: 0}, dict[int, int]()
        for bit, way in contested:
            highest -= way.highest
            lowest -= way.fewest
            # 3. From here, the rest can still be dealt.
            reachable = range((self.rest - highest) * stride, (self.rest - lowest + 1) * stride)
            member, dealt = bit << self.member_shift, (1 << self.places) | bit
            steps = [] if way.out is None else [(0, way.out)]
            late, ending = [], []
            for groups, regret in way.member:
                step = (groups * stride + 1, regret - member - (dealt if groups else 0))
                if groups > rounds:
                    late.append(step)
                elif groups == rounds and not way.is_drained:
                    ending.append(step)
                else:
                    steps.append(step)
            ended_states = _after([(ended_states, steps + ending), (open_states, ending)], reachable, within)
            open_states = _after([(open_states, steps + late)], reachable, within)
        best: dict[int, int] = {}
        for states in (open_states, ended_states):
            for state, cost in states.items():
                _, members = divmod(state, stride)
                best[members] = min(cost, best.get(members, cost))
        return best


def _after(moves: list[tuple[dict[int, int], list[tuple[int, int]]]], reachable: range, within: int) -> dict[int, int]:
    """The states that these steps lead to from these states, each at its lowest cost."""
    first, end = reachable.start, reachable.stop
    reached: dict[int, int] = {}
    for states, steps in moves:
        for add, more in steps:
            for state, cost in states.items():
                if first <= state + add < end and cost + more <= within:
                    known = reached.get(state + add)
                    if known is None or cost + more < known:
                        reached[state + add] = cost + more
    return reached


class _Ways(NamedTuple):
    """What a node may do within the slack: costs as no member, and as a member by groups dealt; and their extremes."""

    out: int | None
    member: list[tuple[int, int]]
    is_drained: bool
    highest: int
    fewest: int
