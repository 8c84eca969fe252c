"""The pages of the documentation: each is in the navigation, and each link leads to a page and a heading that exist.

The sources are checked as a forge shows them. `make docs` builds the site and checks the result (tests/site).
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from support.api_page import api_pages

ROOT = Path(__file__).parent.parent
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *(ROOT / "design").glob("*.md"), *ROOT.glob("*.md")])
_CODE = re.compile(r"^```.*?^```|`[^`\n]+`", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def _forge_anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _site_anchor(heading: str) -> str:
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


@cache
def anchors(page: Path) -> set[str]:
    """Return the anchors of a page that are the same on a forge and in the site, so that a link works in both."""
    headings = [
        re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", it) for it in _HEADING.findall(_FENCED.sub("", page.read_text()))
    ]
    plain = [it.replace("`", "").strip() for it in headings]
    return {_forge_anchor(it) for it in plain} & {_site_anchor(it) for it in plain}


def broken_links(page: Path) -> list[str]:
    """Return the links of a page whose page or heading does not exist."""
    links = _LINK.findall(_CODE.sub("", page.read_text()))
    local = [link for link in links if not link.startswith(("http://", "https://", "mailto:"))]
    return [link for link in local if not _exists(page, link)]


def _exists(page: Path, link: str) -> bool:
    place, _, anchor = link.partition("#")
    target = (page.parent / place).resolve() if place else page
    return target.exists() and (not anchor or anchor in anchors(target))


def test_links_lead_to_pages_and_headings_that_exist() -> None:
    broken = [f"{page.relative_to(ROOT)}: {link}" for page in PAGES for link in broken_links(page)]
    assert not broken, "\n".join(broken)


def test_broken_links_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    links = "[here](#a-page) [no](#b) [no](other.md) [two rules](#left--right) `[code](x.md)`"
    page.write_text(f"# A page\n\n## Left & right\n{links}\n")
    assert broken_links(page) == ["#b", "other.md", "#left--right"]


def test_every_page_is_in_the_navigation_once() -> None:
    configuration = (ROOT / "mkdocs.yml").read_text()
    named = re.findall(r"^ +- (?:[^:\n]+: )?([\w/-]+\.md)$", configuration, re.MULTILINE)
    pages = [str(page.relative_to(ROOT / "docs")) for page in PAGES if page.is_relative_to(ROOT / "docs")]
    notes = [str(page.relative_to(ROOT)) for page in PAGES if page.parent.name == "design"]
    names = [f"api/{name}" for name in api_pages()]
    assert sorted(named) == sorted([*pages, *notes, *names, "contributing.md", "changelog.md"])


def test_a_warning_stops_the_build_of_the_site() -> None:
    build = re.findall(r"mkdocs build.*", (ROOT / "Makefile").read_text())
    assert build == ["mkdocs build --strict"]  # with --quiet MkDocs counts no warnings
