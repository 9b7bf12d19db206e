"""The alert rules, by Prometheus' own tool: they are valid, each fires and ends, and each has a section of a page."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.docs.pages import ROOT, anchors, headings
from tests.docs.pages import section as section_of

FOLDER: Final = ROOT / "compose" / "prometheus"
PAGE: Final = ROOT / "docs" / "how-to" / "alerts.md"


@pytest.fixture(scope="module")
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("needs promtool (Debian: apt-get install prometheus)")
    return found


def ran(promtool: str, *words: str, folder: Path = FOLDER) -> subprocess.CompletedProcess[str]:
    return subprocess.run([promtool, *words], cwd=folder, capture_output=True, text=True, timeout=120)


def alerts(text: str) -> dict[str, str]:
    """Return each rule by the name of its alert."""
    rules = text.split("- alert: ")[1:]
    return {rule.partition("\n")[0]: rule for rule in rules}


RULES: Final = alerts((FOLDER / "alerts.yml").read_text())


def test_the_rules_and_the_configuration_are_valid(promtool: str) -> None:
    checked = ran(promtool, "check", "rules", "alerts.yml")
    assert checked.returncode == 0, checked.stderr
    assert f"{len(RULES)} rules found" in checked.stdout
    checked = ran(promtool, "check", "config", "prometheus.yml")
    assert checked.returncode == 0, checked.stderr


def test_each_alert_fires_and_ends(promtool: str) -> None:
    """As the played series say, with its words; every alert has such a play."""
    played = ran(promtool, "test", "rules", "alerts.test.yml")
    assert played.returncode == 0, played.stdout + played.stderr
    told = (FOLDER / "alerts.test.yml").read_text()
    for name in RULES:
        assert re.search(rf"alertname: {name}\n        exp_alerts:\n          - exp_labels", told), name
        assert re.search(rf"alertname: {name}, exp_alerts: \[\]", told), name


@pytest.mark.parametrize("name", RULES)
def test_a_rule_that_is_broken_is_caught_by_its_play(promtool: str, name: str, tmp_path: Path) -> None:
    """A rule that never fires, and one that always does."""
    for expression in ("vector(0) > 1", "vector(1) > 0"):
        broken = re.sub(r"expr: .*", f"expr: {expression}", RULES[name], count=1)
        text = (FOLDER / "alerts.yml").read_text().replace(RULES[name], broken)
        (tmp_path / "alerts.yml").write_text(text)
        shutil.copy(FOLDER / "alerts.test.yml", tmp_path)
        assert ran(promtool, "test", "rules", "alerts.test.yml", folder=tmp_path).returncode != 0


def test_an_expression_of_the_dashboard_is_valid(promtool: str, tmp_path: Path) -> None:
    """All of them, as rules, with a value for the variable."""
    shown = json.loads((FOLDER / "dashboard.json").read_text())
    found = [target["expr"].replace("$instance", ".*") for panel in shown["panels"] for target in panel["targets"]]
    rules = [{"record": f"panel:{number}", "expr": expression} for number, expression in enumerate(found)]
    (tmp_path / "rules.yml").write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    checked = ran(promtool, "check", "rules", "rules.yml", folder=tmp_path)
    assert checked.returncode == 0, checked.stderr


def test_each_alert_leads_to_its_section_and_each_section_is_an_alert_s() -> None:
    """What it means, what to look at, what to do."""
    for name, rule in RULES.items():
        [link] = re.findall(r"runbook_url: (\S+)", rule)
        page, _, anchor = link.partition("#")
        assert ROOT / page == PAGE
        assert anchor in anchors(PAGE)
        told = section_of(PAGE, name)
        assert "**Look at**" in told, name
        assert "**Do" in told, name
    assert headings(PAGE, 2) == list(RULES)
