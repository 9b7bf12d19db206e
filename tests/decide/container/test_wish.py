"""From labels and limits to a Wish: the label table, the kubelet's six examples, and malicious text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.decide.container.container import Standing, Wish
from sidecar.decide.container.originals import originals_of
from sidecar.decide.container.wish import label_keys, wish_of
from sidecar.decide.facts import ContainerView, Phase, ViewKind
from sidecar.decide.settings import OptIn, PolicyName, Settings
from sidecar.decide.world import replace
from sidecar.words import mistaken
from sidecar.words.refusals import sentence, warnings
from state.cpuset import CPUSet
from state.demand import NumaRule, QuotaRule, Shortage
from state.model import Originals
from state.refusal import RefusalCode
from tests.support.decide.rights import EVERY_RIGHT

GIGA = 10**9
MIB = 1024**2
ONLINE = CPUSet(range(8))
GUARANTEED = Settings(may=EVERY_RIGHT, opt_in=OptIn.GUARANTEED)


def view(labels: dict[str, str] | None = None, **fields: Any) -> ContainerView:
    return ContainerView(
        id="a" * 64,
        name=fields.pop("name", "web"),
        phase=fields.pop("phase", Phase.CREATED),
        labels=labels or {},
        **fields,
    )


def wish(labels: dict[str, str] | None = None, settings: Settings | None = None, **fields: Any) -> Wish:
    one = view(labels, **fields)
    return wish_of(one, settings or Settings(may=EVERY_RIGHT), originals_of(one), ONLINE)


def asked(found: Wish) -> int:
    """Return the CPUs of a demand."""
    assert found.demand is not None, found.refusal
    return found.demand.cpus


def code_of(found: Wish) -> RefusalCode | None:
    return found.refusal.code if found.refusal else None


def why(found: Wish) -> str:
    assert found.refusal is not None
    return sentence(found.refusal)


# How many.


@pytest.mark.parametrize(
    ("text", "limits", "cpus"),
    [
        ("1", {}, 1),
        ("4", {}, 4),
        (" 2 ", {}, 2),
        ("2", {"nano_cpus": 2 * GIGA}, 2),
        ("true", {"nano_cpus": 2 * GIGA}, 2),
        ("TRUE", {"nano_cpus": 3 * GIGA}, 3),
        ("yes", {"nano_cpus": GIGA}, 1),
        ("true", {"cpu_quota": 200_000}, 2),
        ("true", {"cpu_quota": 150_000, "cpu_period": 50_000}, 3),
    ],
)
def test_a_whole_number_is_a_demand(text: str, limits: Any, cpus: int) -> None:
    """`N`, or `true` with a limit of N CPUs, however the limit is written."""
    found = wish({"cpuset.exclusive": text}, **limits)
    assert asked(found) == cpus
    assert found.standing is Standing.MANAGED
    assert found.warnings == ()


@pytest.mark.parametrize("text", ["", "0", "false", "no", "off", " Off "])
def test_no_is_no_demand_and_no_trouble(text: str) -> None:
    found = wish({"cpuset.exclusive": text})
    assert (found.demand, found.refusal, found.warnings) == (None, None, ())


@pytest.mark.parametrize(
    ("text", "limits", "code", "words"),
    [
        ("true", {}, RefusalCode.CONTRADICTION, "no CPU limit says how many"),
        ("true", {"nano_cpus": 1_500_000_000}, RefusalCode.NOT_WHOLE, "1.5 CPUs is a fraction"),
        ("true", {"cpu_quota": 50_000}, RefusalCode.NOT_WHOLE, "0.5 CPUs is a fraction"),
        ("1.5", {}, RefusalCode.NOT_WHOLE, "whole number"),
        ("2", {"nano_cpus": 3 * GIGA}, RefusalCode.CONTRADICTION, "the limit is 3"),
        ("2", {"nano_cpus": 1_500_000_000}, RefusalCode.CONTRADICTION, "the limit is 1.5"),
        ("two", {}, RefusalCode.BAD_LABEL, "'two'"),
        ("-1", {}, RefusalCode.BAD_LABEL, "'-1'"),
        ("+1", {}, RefusalCode.BAD_LABEL, "'+1'"),
        ("1e2", {}, RefusalCode.BAD_LABEL, "'1e2'"),
        ("0x2", {}, RefusalCode.BAD_LABEL, "'0x2'"),
        ("00", {}, RefusalCode.BAD_LABEL, "'00'"),
        ("٢", {}, RefusalCode.BAD_LABEL, "whole number"),
        ("99999", {}, RefusalCode.BAD_LABEL, "'99999'"),
    ],
)
def test_what_cannot_be_understood_is_refused_with_the_reason(
    text: str, limits: Any, code: RefusalCode, words: str
) -> None:
    """It stays managed, in the shared pool, and the reason is a warning too."""
    found = wish({"cpuset.exclusive": text}, **limits)
    assert found.demand is None
    assert found.standing is Standing.MANAGED
    assert code_of(found) is code
    assert words in why(found)
    assert why(found) in warnings(found)


def test_the_limit_is_the_original_one_not_the_lifted_one() -> None:
    """After the sidecar lifted the quota, `true` still means the quota that the container was created with."""
    one = view({"cpuset.exclusive": "true"}, nano_cpus=8 * GIGA, cpuset="2-3")
    assert asked(wish_of(one, Settings(may=EVERY_RIGHT), Originals(nano_cpus=2 * GIGA), ONLINE)) == 2


# The other labels.


def test_the_labels_of_a_demand() -> None:
    found = wish(
        {
            "cpuset.exclusive": "2",
            "cpuset.on-shortage": "Wait",
            "cpuset.quota": "keep",
            "cpuset.options": " full-pcpus-only ,, ",
        }
    )
    assert found.demand is not None
    assert found.demand.shortage is Shortage.WAIT
    assert found.demand.quota is QuotaRule.KEEP
    assert found.demand.options == ("full-pcpus-only",)


def test_the_shortage_of_the_node_holds_where_no_label_says_otherwise() -> None:
    node = Settings(may=EVERY_RIGHT, shortage=Shortage.STOP)
    found = wish({"cpuset.exclusive": "1"}, node).demand
    assert found is not None
    assert found.shortage is Shortage.STOP
    own = wish({"cpuset.exclusive": "1", "cpuset.on-shortage": "share"}, node).demand
    assert own is not None
    assert own.shortage is Shortage.SHARE


@pytest.mark.parametrize(
    ("label", "value", "words"),
    [
        ("cpuset.on-shortage", "die", "one of share, wait, stop"),
        ("cpuset.quota", "drop", "one of lift, keep"),
        ("cpuset.options", "full-pcpu-only", "did you mean 'full-pcpus-only'?"),
        ("cpuset.options", "strict-cpu-reservation", "the words are full-pcpus-only"),
    ],
)
def test_a_bad_value_beside_a_good_number_is_refused(label: str, value: str, words: str) -> None:
    found = wish({"cpuset.exclusive": "2", label: value})
    assert (found.demand, code_of(found)) == (None, RefusalCode.BAD_LABEL)
    assert words in why(found)


def test_all_mistakes_are_one_refusal() -> None:
    """The count first, then the others in the order of the table, one sentence after the other."""
    labels = {"cpuset.weight": "0", "cpuset.exclusive": "2", "cpuset.min": "3", "cpuset.quota": "drop"}
    found = wish(labels, Settings(may=EVERY_RIGHT, policy=PolicyName.DYNAMIC), nano_cpus=3 * GIGA, in_shared_group=True)
    assert code_of(found) is RefusalCode.CONTRADICTION
    assert [said.partition(":")[0] for said in why(found).split("; ")] == [
        "cpuset.exclusive asks for 2 CPUs, but the limit is 3",
        "cpuset.quota is 'drop'",
        "cpuset.min is '3'",
        "cpuset.weight is '0'",
        "it lives in , which confines the shared pool, and can have no CPUs outside it",
    ]
    assert "'3': write a whole number from 1 to the 2 of" in why(wish({**labels, "cpuset.quota": "keep"}))


def test_one_that_is_in_the_group_and_asks_for_cpus_is_told_where_it_should_be() -> None:
    node = Settings(may=EVERY_RIGHT, shared_slice="sidecar-shared.slice")
    found = wish({"cpuset.exclusive": "2"}, node, in_shared_group=True)
    assert (found.standing, code_of(found)) == (Standing.MEMBER, RefusalCode.BORN_IN_GROUP)
    assert why(found).endswith("create it with cgroup_parent: sidecar-exclusive.slice")


@pytest.mark.parametrize(
    ("label", "words"),
    [
        ("cpuset.exclusiv", "did you mean 'cpuset.exclusive'?"),
        ("cpuset.on_shortage", "did you mean 'cpuset.on-shortage'?"),
        ("cpuset.qouta", "did you mean 'cpuset.quota'?"),
        ("cpuset.0123456789abcdefgh", "the labels are cpuset.exclusive"),
        ("cpuset.min", "has no effect under the policy none"),
        ("cpusets.exclusive", "unknown label 'cpusets.exclusive'; did you mean 'cpuset.exclusive'?"),
        ("cpuset-options", "did you mean 'cpuset.options'?"),
    ],
)
def test_an_unknown_label_is_a_warning_with_the_nearest_word(label: str, words: str) -> None:
    """It has no other effect on the container."""
    found = wish({"cpuset.exclusive": "2", label: "1"})
    assert asked(found) == 2
    [warning] = warnings(found)
    assert words in warning


# Strangers and unmanaged containers.


def test_pinned_by_hand_is_a_stranger() -> None:
    found = wish(cpuset="2-3")
    assert (found.standing, found.demand) == (Standing.STRANGER, None)


def test_all_cpus_by_hand_is_no_pin() -> None:
    """Engines cannot clear a cpuset: an unpinned container may list the whole machine."""
    assert wish(cpuset="0-7").standing is Standing.MANAGED
    assert wish(cpuset="0-15").standing is Standing.MANAGED


def test_a_pin_that_says_the_same_as_the_label_is_a_demand() -> None:
    assert asked(wish({"cpuset.exclusive": "2"}, cpuset="2-3")) == 2


def test_a_pin_that_contradicts_the_label_is_refused_and_respected() -> None:
    found = wish({"cpuset.exclusive": "2"}, cpuset="4")
    assert (found.standing, code_of(found)) == (Standing.STRANGER, RefusalCode.CONTRADICTION)
    assert "pinned by hand to 4" in why(found)


def test_a_bad_label_beside_a_pin_leaves_a_stranger() -> None:
    assert wish({"cpuset.exclusive": "two"}, cpuset="4").standing is Standing.STRANGER


def test_manage_off_is_left_alone() -> None:
    """Its other labels are not read. If it is pinned by hand, its CPUs are still respected."""
    labels = {"cpuset.manage": "off", "cpuset.exclusive": "2"}
    assert wish(labels) == Wish(standing=Standing.UNMANAGED, is_kept_out=True)
    assert wish(labels, cpuset="2").standing is Standing.STRANGER


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("Off", "did you mean 'off'?"),
        ("false", "the only word it knows is off"),
        ("no", "the only word it knows is off"),
    ],
)
def test_another_word_for_off_is_told(word: str, told: str) -> None:
    found = wish({"cpuset.manage": word})
    assert found.standing is Standing.MANAGED
    assert told in warnings(found)[0]


@pytest.mark.parametrize(
    ("pattern", "is_left_alone"),
    [
        ("web", True),
        ("w*", True),
        ("W*", False),
        ("db-*", False),
        ("com.docker.compose.project=shop", True),
        ("com.docker.compose.project=sh*", True),
        ("com.docker.compose.project=web", False),
        ("no.such.label=*", False),
    ],
)
def test_patterns_of_the_unmanaged(pattern: str, is_left_alone: bool) -> None:
    """By name, or by a label's value."""
    found = wish({"com.docker.compose.project": "shop"}, Settings(may=EVERY_RIGHT, unmanaged=("other", pattern)))
    assert (found.standing is Standing.UNMANAGED) is is_left_alone


# Guaranteed: the kubelet's six examples.


@pytest.mark.parametrize(
    ("number", "limits", "cpus"),
    [
        # 1. No requests or limits: best effort.
        (1, {}, None),
        # 2. Memory limit 200 MiB, request 100 MiB: burstable.
        (2, {"memory": 200 * MIB, "memory_reservation": 100 * MIB}, None),
        # 3. The same, with 2 CPUs limit and 1 requested: burstable. Docker has no request, so the memory says it.
        (3, {"memory": 200 * MIB, "memory_reservation": 100 * MIB, "nano_cpus": 2 * GIGA}, None),
        # 4. Memory and 2 CPUs, each limit equal to its request: guaranteed, exclusive.
        (4, {"memory": 200 * MIB, "memory_reservation": 200 * MIB, "nano_cpus": 2 * GIGA}, 2),
        # 5. The same with 1.5 CPUs: guaranteed, but a fraction, so shared.
        (5, {"memory": 200 * MIB, "memory_reservation": 200 * MIB, "nano_cpus": 1_500_000_000}, None),
        # 6. Limits only: requests are taken to be equal, so guaranteed, exclusive.
        (6, {"memory": 200 * MIB, "nano_cpus": 2 * GIGA}, 2),
    ],
)
def test_the_kubelets_examples_come_out_the_same(number: int, limits: dict[str, int], cpus: int | None) -> None:
    """With `opt_in = guaranteed`. A pod's CPU and memory limits are Docker's `--cpus` and `--memory`, the memory
    request is `--memory-reservation`; Docker has no CPU request, so the limit is the request wherever there is one.
    """
    found = wish(None, GUARANTEED, **limits)
    assert (found.demand.cpus if found.demand else None) == cpus, f"example {number}"
    assert found.refusal is None
    assert wish(None, Settings(may=EVERY_RIGHT), **limits).demand is None


@pytest.mark.parametrize(
    ("limits", "cpus"),
    [
        ({"nano_cpus": 2 * GIGA}, None),
        ({"memory": MIB, "nano_cpus": 500_000_000}, None),
        ({"memory": MIB, "cpu_quota": 300_000}, 3),
        ({"memory": MIB, "memory_reservation": 2 * MIB, "nano_cpus": GIGA}, None),
        ({"memory_reservation": MIB, "nano_cpus": GIGA}, None),
    ],
)
def test_guaranteed_needs_both_limits_and_a_whole_cpu(limits: dict[str, int], cpus: int | None) -> None:
    found = wish(None, GUARANTEED, **limits).demand
    assert (found.cpus if found else None) == cpus


def test_a_label_goes_before_the_limits() -> None:
    """`cpuset.exclusive: "false"` keeps a guaranteed container in the shared pool."""
    limits = {"memory": MIB, "nano_cpus": 2 * GIGA}
    assert wish({"cpuset.exclusive": "false"}, GUARANTEED, **limits).demand is None
    assert asked(wish({"cpuset.exclusive": "2"}, GUARANTEED, **limits)) == 2


# Malicious text.

hostile = st.text(max_size=300) | st.sampled_from(["9" * 5000, "\x1b[31m", "\u202e1", "1\n", "\ud800", "0" * 4])


@given(
    st.dictionaries(
        st.sampled_from(
            ["cpuset.exclusive", "cpuset.on-shortage", "cpuset.quota", "cpuset.options", "cpuset.projection", "cpuset."]
        )
        | hostile.map(lambda text: f"cpuset.{text}"),
        hostile,
        max_size=5,
    ),
    st.sampled_from(["", "0", "junk", "0-99999999", "7-2", "3-5"]),
)
def test_no_text_fails_a_container(labels: dict[str, str], cpuset: str) -> None:
    """Whatever a label says: the result is a wish, of a whole number of CPUs if it is a demand, with warnings of
    bounded length.
    """
    found = wish(labels, GUARANTEED, cpuset=cpuset)
    assert found.demand is None or found.demand.cpus >= 1
    # An escaped character is up to ten long; 60 of them and the sentence around.
    assert all(len(warning) < 1000 for warning in map(mistaken.sentence, found.warnings))
    assert found.refusal is None or len(sentence(found.refusal)) < 5000


def test_label_patterns_say_which_labels_are_to_be_read() -> None:
    assert label_keys(("db-*", "team=db", "team=web", "tier=*")) == {"team", "tier"}


def test_the_group_that_confines_the_shared_pool_is_not_pinned_by_hand() -> None:
    """What an earlier sidecar wrote there stays until it is written again, and no user asked for it."""
    name = "sidecar-shared.slice"
    group = replace(view(cpuset="0-3"), kind=ViewKind.GROUP, name=name)
    settings = Settings(may=EVERY_RIGHT, policy=PolicyName.STATIC, shared_slice=name, unmanaged=("sidecar-*",))
    assert originals_of(group).cpuset == ""
    assert wish_of(group, settings, Originals(cpuset="0-3"), ONLINE).standing is Standing.MANAGED


def test_options_that_fit_no_machine_are_told_beside_the_other_mistakes() -> None:
    """With the labels' own words or the node's; nothing is said of a label that cannot be read."""
    labels = {"cpuset.exclusive": "1", "cpuset.min": "2", "cpuset.numa": "single", "cpuset.options": "align-by-socket"}
    found = wish(labels, Settings(may=EVERY_RIGHT, policy=PolicyName.DYNAMIC))
    assert found.refusal
    told = sentence(found.refusal)
    assert "cpuset.min is '2'" in told
    assert "cpuset.options: align-by-socket and single cannot be used together" in told
    del labels["cpuset.numa"], labels["cpuset.min"]
    assert code_of(wish(labels, Settings(may=EVERY_RIGHT, numa=NumaRule.SINGLE))) is RefusalCode.CONTRADICTION
    assert code_of(wish(labels)) is None
    assert (
        code_of(wish({**labels, "cpuset.numa": "x"}, Settings(may=EVERY_RIGHT, numa=NumaRule.SINGLE)))
        is RefusalCode.BAD_LABEL
    )
