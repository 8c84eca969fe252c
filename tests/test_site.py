"""The pages of the documentation: each is in the site, and each link leads to a page and a heading that exist.

The sources are looked at as a forge shows them. `make docs` builds the site and looks at it (tests/site).
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from support.api_page import api_pages

ROOT = Path(__file__).parent.parent
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *(ROOT / "design").glob("*.md"), *ROOT.glob("*.md")])
CONFIGURATION = (ROOT / "mkdocs.yml").read_text()
TABS = "Start Tasks SQL Spark Catalogs Upkeep Operations Concepts Reference Moving Contributing".split()
_CODE = re.compile(r"^```.*?^```|`[^`\n]+`", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def _of_a_forge(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _of_the_site(heading: str) -> str:
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


@cache
def anchors(page: Path) -> set[str]:
    """Return the anchors of a page that are the same on a forge and in the site, so that a link works in both."""
    headings = [
        re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", it) for it in _HEADING.findall(_FENCED.sub("", page.read_text()))
    ]
    plain = [it.replace("`", "").strip() for it in headings]
    return {_of_a_forge(it) for it in plain} & {_of_the_site(it) for it in plain}


def wrong_links(page: Path) -> list[str]:
    """Return the links of a page that lead nowhere."""
    links = _LINK.findall(_CODE.sub("", page.read_text()))
    return [
        link for link in links if not link.startswith(("http://", "https://", "mailto:")) and not _leads(page, link)
    ]


def _leads(page: Path, link: str) -> bool:
    place, _, anchor = link.partition("#")
    target = (page.parent / place).resolve() if place else page
    return target.exists() and (not anchor or anchor in anchors(target))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_a_page_lead_to_pages_and_headings(page: Path) -> None:
    assert wrong_links(page) == []


def test_links_that_lead_nowhere_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    links = "[here](#a-page) [no](#b) [no](other.md) [two rules](#left--right) `[code](x.md)`"
    page.write_text(f"# A page\n\n## Left & right\n{links}\n")
    assert wrong_links(page) == ["#b", "other.md", "#left--right"]


def test_every_page_is_in_the_navigation_once() -> None:
    named = re.findall(r"^ +- (?:[^:\n]+: )?([\w/-]+\.md)$", CONFIGURATION, re.MULTILINE)
    pages = [str(page.relative_to(ROOT / "docs")) for page in PAGES if page.is_relative_to(ROOT / "docs")]
    notes = [str(page.relative_to(ROOT)) for page in PAGES if page.parent.name == "design"]
    names = [f"api/{name}" for name in api_pages()]
    assert sorted(named) == sorted([*pages, *notes, *names, "contributing.md", "changelog.md"])


def test_a_warning_stops_the_build_of_the_site() -> None:
    build = re.findall(r"mkdocs build.*", (ROOT / "Makefile").read_text())
    assert build == ["mkdocs build --strict"]  # with --quiet MkDocs counts no warnings


def test_the_navigation_has_its_order() -> None:
    tabs = re.findall(r"^  - (\w+):$", CONFIGURATION, re.MULTILINE)
    assert tabs == [tab for tab in TABS if tab in tabs]
