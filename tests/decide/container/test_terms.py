"""The terms of a demand: a container's own labels take precedence over the node's settings."""

from __future__ import annotations

from sidecar.decide.container.terms import Terms, own_or
from sidecar.decide.settings import Settings
from state.demand import Demand, NumaRule
from state.key import ContainerKey

A = ContainerKey("docker", "a" * 64)
NODE = Settings(options=("full-pcpus-only",), numa=NumaRule.RESTRICTED, grace_seconds=7.0)


def test_the_nodes_settings_apply_where_a_container_has_no_label() -> None:
    terms = Terms(NODE, Demand(container=A, name="a", cpus=1))
    assert (terms.options, terms.numa, terms.grace_seconds) == (("full-pcpus-only",), NumaRule.RESTRICTED, 7.0)


def test_a_containers_own_labels_go_before_the_nodes_settings() -> None:
    """Empty ones, too: no options, no rule, no notice."""
    own = Demand(container=A, name="a", cpus=1, options=(), numa=NumaRule.NONE, grace_seconds=0.0)
    terms = Terms(NODE, own)
    assert (terms.options, terms.numa, terms.grace_seconds) == ((), NumaRule.NONE, 0.0)
    assert (own_or(0, 5), own_or(None, 5)) == (0, 5)
