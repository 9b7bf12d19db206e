"""Pods: which of its containers a pod's labels are for, and that the one that holds it together asks for nothing."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.decide.container.mounts import projection_name
from sidecar.decide.container.originals import originals_of
from sidecar.decide.container.pods import named_in_vain
from sidecar.decide.container.wish import wish_of
from sidecar.decide.facts import ContainerView, Phase
from sidecar.decide.settings import OptIn, PolicyName, Settings
from state.cpuset import CPUSet
from state.mistakes import InPod, NotInPod, NotItsName, OfPod, PodThrottles
from state.refusal import Mistakes

STATIC = Settings(policy=PolicyName.STATIC)
ASKS = {"cpuset.exclusive": "2", "cpuset.for": "voice", "cpuset.projection": "phone"}


def member(name: str, labels: dict[str, str], **fields: Any) -> ContainerView:
    return ContainerView(
        engine="podman",
        id="a" * 64,
        name=name,
        phase=Phase.RUNNING,
        labels=labels,
        effective=CPUSet(range(4)),
        **fields,
    )


def asked(view: ContainerView, settings: Settings = STATIC) -> int:
    demand = wish_of(view, settings, originals_of(view), CPUSet(range(4))).demand
    return demand.cpus if demand else 0


@pytest.mark.parametrize(
    ("labels", "wrong"),
    [
        ({"cpuset.exclusive": "2", "cpuset.for": "voise"}, [("cpuset.for", "voise")]),
        ({"cpuset.exclusive": "2", "cpuset.for": "voice"}, []),
        ({"cpuset.exclusive/voise": "2"}, [("cpuset.exclusive/voise", "voise")]),
        ({"cpuset.exclusive/voice": "2", "cpuset.exclusive/web": "1"}, []),
        ({"cpuset.exclusive": "2"}, []),
        ({"cpuset.for": "voise"}, []),
        ({"other/label": "1"}, []),
    ],
)
def test_labels_for_a_container_that_the_pod_has_not(labels: dict[str, str], wrong: list[tuple[str, str]]) -> None:
    """Each is said, once any of its containers is there."""
    view, others = member("phone-web", labels, pod="b" * 64), ("phone-voice", "phone-web")
    found = named_in_vain(view, others)
    assert [(each.label, each.given) for each in found] == wrong
    assert all(each.flaw == NotInPod(others, 2) for each in found)
    assert named_in_vain(view, ()) == ()


def test_labels_for_another_container_outside_a_pod() -> None:
    """They are for none: it is told so, by its own name."""
    view = member("web", {"cpuset.exclusive/voice": "1"})
    assert [each.flaw for each in named_in_vain(view, ("web",))] == [NotItsName("web")]
    assert not named_in_vain(member("web", {"cpuset.exclusive/web": "1"}), ("web",))


@pytest.mark.parametrize(("name", "cpus"), [("phone-voice", 2), ("voice", 2), ("phone-log", 0), ("invoice", 0)])
def test_a_pods_labels_are_for_the_container_that_they_name(name: str, cpus: int) -> None:
    """`kube play` gives them to each container of the pod."""
    one = member(name, ASKS)
    assert asked(one) == cpus
    assert projection_name(one, STATIC) == ("phone" if cpus else None)


@pytest.mark.parametrize(("name", "cpus"), [("phone-voice", 2), ("phone-phone-voice", 2), ("phone-log", 0)])
def test_what_podman_adds_to_a_label_in_a_generated_yaml_is_one_name_more(name: str, cpus: int) -> None:
    """All of them have to fit: each container of the pod has the label, with its own name behind it."""
    own = name.removeprefix("phone-") if name.startswith("phone-phone") else name
    assert asked(member(name, {f"cpuset.exclusive/voice/{own}": "2"})) == cpus


def test_a_name_that_is_none_is_for_no_container() -> None:
    one = member("phone-voice", {**ASKS, "cpuset.for": ""})
    assert asked(one) == 0
    warnings = wish_of(one, STATIC, originals_of(one), CPUSet(range(4))).warnings
    assert [each.label for each in warnings] == ["cpuset.for"]


def test_what_holds_a_pod_together_asks_for_nothing() -> None:
    """Neither by a label of its pod, which says so, nor by the pod's limits."""
    labelled = member("1-infra", {"cpuset.exclusive": "1"}, is_infra=True)
    wish = wish_of(labelled, STATIC, originals_of(labelled), CPUSet(range(4)))
    assert (wish.demand, wish.refusal) == (None, None)
    assert [each.flaw for each in wish.warnings] == [OfPod()]
    limited = member("1-infra", {}, is_infra=True, nano_cpus=10**9, memory=1 << 20)
    assert asked(limited, Settings(policy=PolicyName.STATIC, opt_in=OptIn.GUARANTEED)) == 0


def test_a_pods_label_that_names_its_container_is_no_mistake_of_the_pod() -> None:
    infra = member("1-infra", {"cpuset.exclusive": "2", "cpuset.for": "voice"}, is_infra=True)
    assert wish_of(infra, STATIC, originals_of(infra), CPUSet(range(4))).warnings == ()


@pytest.mark.parametrize(("name", "cpus"), [("phone-voice", 2), ("phone-log", 1), ("phone-web", 0)])
def test_a_label_with_a_name_is_for_that_container_alone(name: str, cpus: int) -> None:
    """The annotations of a pod in a kube YAML, of which each container gets all."""
    one = member(name, {"cpuset.exclusive/voice": "2", "cpuset.exclusive/log": "1"})
    wish = wish_of(one, STATIC, originals_of(one), CPUSet(range(4)))
    assert asked(one) == cpus
    assert wish.warnings == ()


def test_a_label_with_a_name_counts_before_one_without() -> None:
    labels = {"cpuset.exclusive": "1", "cpuset.exclusive/voice": "2"}
    assert [asked(member(name, labels)) for name in ("phone-voice", "phone-log")] == [2, 1]
    meant = {**labels, "cpuset.for": "log", "cpuset.exclusive/web": "0"}
    assert [asked(member(name, meant)) for name in ("phone-voice", "phone-log", "phone-web")] == [2, 1, 0]


def test_the_cpuset_of_a_pod_is_a_pin_for_all_in_it() -> None:
    """Its containers run there and nowhere else; one that asks for CPUs of its own is told why it has none."""
    plain = member("phone-log", {}, pod_cpuset="0-1")
    assert wish_of(plain, STATIC, originals_of(plain), CPUSet(range(4))).pin == CPUSet.parse("0-1")
    both = member("phone-log", {}, pod_cpuset="0-1", cpuset="1-3")
    assert wish_of(both, STATIC, originals_of(both), CPUSet(range(4))).pin == CPUSet.parse("1")
    whole = member("phone-log", {}, pod_cpuset="0-3")
    assert wish_of(whole, STATIC, originals_of(whole), CPUSet(range(4))).pin == CPUSet()
    owner = member("phone-voice", {"cpuset.exclusive": "2"}, pod_cpuset="0-1")
    refusal = wish_of(owner, STATIC, originals_of(owner), CPUSet(range(4))).refusal
    assert refusal is not None
    assert isinstance(refusal.detail, Mistakes)
    assert [each.flaw for each in refusal.detail.mistakes] == [InPod("0-1")]


def test_the_limit_of_a_pod_would_throttle_an_owner() -> None:
    """It stays in force while the container's own is lifted; one that keeps its limit accepts that."""
    owner = member("phone-voice", {"cpuset.exclusive": "2"}, pod_limit=1.0)
    refusal = wish_of(owner, STATIC, originals_of(owner), CPUSet(range(4))).refusal
    assert refusal is not None
    assert isinstance(refusal.detail, Mistakes)
    assert [each.flaw for each in refusal.detail.mistakes] == [PodThrottles(1.0)]
    assert asked(member("phone-voice", {"cpuset.exclusive": "2", "cpuset.quota": "keep"}, pod_limit=1.0)) == 2
