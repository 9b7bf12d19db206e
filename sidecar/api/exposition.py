"""The two formats of metrics, and which one a scraper gets: Prometheus' text, or OpenMetrics where it asks for that."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from sidecar.api.kubelet_metrics import BARE_COUNTERS

TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"

_VERSIONS: Final = ("", "1.0.0")
"""Of OpenMetrics, as a scraper names what it takes: any, or this one."""


def exposition(registry: CollectorRegistry, accept: str) -> tuple[bytes, str]:
    """Return the metrics in the format that a request accepts, and its content type."""
    if prefers_openmetrics(accept):
        told: bytes = generate_openmetrics(registry)  # type: ignore[no-untyped-call] # of the library
        return told, OPENMETRICS
    text = generate_latest(registry)
    for name in BARE_COUNTERS:
        # The library gives every counter the suffix `_total`.
        text = text.replace(f"# TYPE {name} untyped\n".encode(), f"# TYPE {name} counter\n".encode())
    return text, TEXT


def prefers_openmetrics(accept: str) -> bool:
    """Return whether a request with this header `Accept` gets OpenMetrics: it names it, and text no more gladly."""
    wanted = {"application/openmetrics-text": 0.0, "text/plain": 0.0}
    for kind, version, weight in _accepted(accept):
        if kind in wanted and (kind == "text/plain" or version in _VERSIONS):
            wanted[kind] = max(wanted[kind], weight)
    openmetrics, text = wanted.values()
    return openmetrics > 0 and openmetrics >= text


def _accepted(accept: str) -> Iterator[tuple[str, str, float]]:
    """Yield each kind that a header `Accept` names, with its version, "" for any, and how much it is wanted, 0 to 1."""
    for part in accept.split(","):
        kind, *parameters = (word.strip().lower() for word in part.split(";"))
        named = dict(word.partition("=")[::2] for word in parameters)
        yield kind, named.get("version", "").strip('" '), _weight(named.get("q", "1"))


def _weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        return 0.0
    return min(max(weight, 0.0), 1.0) if math.isfinite(weight) else 0.0
