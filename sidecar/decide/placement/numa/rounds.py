"""The most even way to deal out a rest in rounds, among all members and all dealings: the hard part of `even_balance`.

1. A node is no member, or a member that is dealt nothing, or a member that is dealt to. After L full rounds, the last
   has given all its groups if it has at most L; else L + 1 if its turn came before the rest ran out, or L if after. So
   in the order of nodes, no node gives L + 1 after one gave only L.
2. For each L there is one pass over the nodes. The state of a way so far is the number of members, the number of groups
   dealt, and whether a node gave only L. Of the ways to the same state, the cheapest is kept.
3. Every node has a lowest possible regret. What a way has above the sum of these must fit into the slack that the limit
   leaves. Ways that do not fit, or can no longer reach the right numbers, are dropped.
4. The pass omits nodes that cannot be dealt anything within the slack: in the end, as many of the cheapest of them
   become members as are still missing.
5. A cost is one integer, and the smaller one is better: the regret, then the members as bits, first node highest, then
   the number of nodes dealt to, then these as bits. Costs add up over the nodes, and the nodes are read back from them.

Rules for changing this file: tests compare the answer with an exhaustive search; keep them.
"""

from __future__ import annotations

from collections import Counter
from itertools import accumulate
from typing import NamedTuple


class Regrets(NamedTuple):
    """How far a node with a number of free CPUs falls short of the ideal: as no member, and as a member dealt n groups.

    `dealt` is indexed by n, and ends when the node has no more groups.
    """

    out: int
    dealt: list[int]


class Rounds:
    """The ways to deal out a rest to `members` of the nodes, in order, in at least one full round."""

    def __init__(self, free: list[int], members: int, rest: int, regrets: dict[int, Regrets]) -> None:
        self.free = free
        self.members = members
        self.rest = rest
        self.places = len(free)
        self.kinds = Counter(free)
        self.regrets = regrets
        # 5. A cost, from low bits to high: the nodes dealt to, their number, the members, the regret.
        self.member_shift = self.places + self.places.bit_length()
        self.regret_shift = self.member_shift + self.places
        self.bits = [1 << (self.places - 1 - place) for place in range(self.places)]

    def best(self, limit: int) -> tuple[int, list[int], list[int]] | None:
        """Return the regret, the members and those dealt to; None if every such way has more regret than the limit."""
        most = min(self.rest, max(len(each.dealt) for each in self.regrets.values()) - 1)
        best: int | None = None
        for least, rounds in sorted((self._least(rounds), rounds) for rounds in range(1, most + 1)):
            found = self._through(rounds, limit - least, least)
            if found is not None and (best is None or found < best):
                # A result lowers the limit for the others. Its cost is the regret less the order as bits: round up.
                best, limit = found, -(-found >> self.regret_shift)
        if best is None:
            return None
        order = -best & ((1 << self.regret_shift) - 1)
        regret = (best + order) >> self.regret_shift
        return regret, self._places(order >> self.member_shift), self._places(order)

    def _places(self, bits: int) -> list[int]:
        return [place for place, bit in enumerate(self.bits) if bits & bit]

    def _options(self, cpus: int, rounds: int) -> dict[int, int]:
        """Return the regrets of a node with so many free CPUs, by the groups that it may give as a member."""
        # 1. Nothing, all, L, or L + 1.
        dealt = self.regrets[cpus].dealt
        most = len(dealt) - 1
        return {groups: dealt[groups] for groups in (0, min(most, rounds), min(most, rounds + 1))}

    def _least(self, rounds: int) -> int:
        """Return the lowest conceivable regret with so many rounds: each node does what it regrets least."""
        return sum(n * self._lowest(cpus, rounds) for cpus, n in self.kinds.items())

    def _lowest(self, cpus: int, rounds: int) -> int:
        return min(self.regrets[cpus].out, *self._options(cpus, rounds).values())

    def _through(self, rounds: int, slack: int, least: int) -> int | None:
        """Return the best cost with so many full rounds, within this slack above the least regret; None if none fits.

        The cost is the regret, shifted, less the order as bits.
        """
        if slack < 0:
            return None
        ways = {cpus: self._ways(cpus, rounds, slack) for cpus in self.kinds}
        # 4. The pass omits nodes that cannot be dealt anything.
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
        # 3. Regret above the lowest must fit into the slack.
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
        """Return, by the number of these nodes that are members, the best cost of dealing them the rest."""
        within = slack << self.regret_shift
        highest, lowest = sum(way.highest for _, way in contested), sum(way.fewest for _, way in contested)
        # 2. A state is the groups dealt and the members so far, as one number. In `ended` states a node gave only L, so
        # no later node gives L + 1.
        stride = len(contested) + 1
        open_states, ended_states = {0: 0}, dict[int, int]()
        for bit, way in contested:
            highest -= way.highest
            lowest -= way.fewest
            # 3. States from which the rest can still be dealt.
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
    """Return the states that these steps reach from these states, each at its lowest cost."""
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
    """What a node may do within the slack: its cost as no member, None if not possible; as a member, by groups dealt;
    whether it can give only up to L groups; and the most and the fewest groups.
    """

    out: int | None
    member: list[tuple[int, int]]
    is_drained: bool
    highest: int
    fewest: int
