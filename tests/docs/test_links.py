"""Every page can be reached, and every link leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, anchors, headings, links, shown

DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_a_link_leads_somewhere(page: Path) -> None:
    """Relative links name a file of this project, and their anchors a heading of it. There are no other relative
    links.
    """
    for link in links(page):
        assert not re.match(r"\w+:|/", link), f"{link} leaves the project"
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_file(), link
        assert not anchor or anchor in anchors(target), link


def test_every_page_can_be_reached_from_the_readme() -> None:
    """Following links from README.md passes every page."""
    reached: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached or page.suffix != ".md":
            continue
        reached.add(page)
        waiting += [(page.parent / link.partition("#")[0]).resolve() for link in links(page) if link[0] != "#"]
    assert sorted(set(PAGES) - reached) == []


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_a_page_has_one_title_and_no_heading_twice(page: Path) -> None:
    """One heading of the first level, and anchors that mean one place each."""
    assert len(headings(page, 1)) == 1
    assert len(set(headings(page))) == len(headings(page))


@pytest.mark.parametrize("page", DECISIONS, ids=shown)
def test_a_decision_has_context_decision_and_consequences(page: Path) -> None:
    """And the number of its file in its title."""
    assert headings(page, 2) == ["Context", "Decision", "Consequences"]
    assert headings(page, 1)[0].startswith(page.name[:5].replace("-", " "))


def test_decisions_have_a_number_each() -> None:
    """Pages that are written beside each other may leave a gap for a time, but never share a number."""
    numbers = [page.name[:4] for page in DECISIONS]
    assert numbers == sorted(set(numbers))
    assert numbers[0] == "0001"


def test_the_glossary_has_one_meaning_for_each_word() -> None:
    """No term is explained twice."""
    text = (ROOT / "docs" / "glossary.md").read_text()
    terms = re.findall(r"^- \*\*(.+?)\*\*: \S", text, re.MULTILINE)
    assert len(terms) == text.count("\n- ")
    assert len({term.lower() for term in terms}) == len(terms) > 50


def test_the_readme_is_short() -> None:
    """A new user reads it to the end."""
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150
