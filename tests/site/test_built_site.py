"""The site that `make docs` built in target/site: it asks no other host for anything, and its links lead somewhere."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parent.parent.parent
SITE = (ROOT / "target" / "site").resolve()
PAGES = sorted(SITE.rglob("*.html"))
# Attributes whose address a browser loads by itself; the address of an `a` is one that a reader chooses.
LOADED = {("script", "src"), ("link", "href"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("use", "href")}


class _Page(HTMLParser):
    """What a page loads, links to and can be linked at."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value is None:
                continue
            if (tag, name) in LOADED:
                self.loaded.append(value)
            elif (tag, name) == ("a", "href"):
                self.links.append(value)
            elif name == "id":
                self.anchors.add(value)


@pytest.fixture(scope="module")
def pages() -> dict[Path, _Page]:
    return {page: _Page(page) for page in PAGES}


def test_every_page_of_the_docs_is_built() -> None:
    sources = (page.relative_to(ROOT / "docs").with_suffix(".html") for page in (ROOT / "docs").rglob("*.md"))
    assert [str(page) for page in sources if not (SITE / page).is_file()] == []


def test_nothing_is_loaded_from_another_host(pages: dict[Path, _Page]) -> None:
    for page, parsed in pages.items():
        assert [it for it in parsed.loaded if urlsplit(it).netloc] == [], page
        for address in parsed.loaded:
            place = unquote(urlsplit(address).path)
            root = SITE if place.startswith("/") else page.parent
            assert address.startswith("data:") or (root / place.lstrip("/")).is_file(), (page, address)
    for sheet in SITE.rglob("*.css"):
        assert re.findall(r"url\(\s*['\"]?(?:https?:)?//[^)]*", sheet.read_text()) == [], sheet
        assert "@import" not in sheet.read_text(), sheet


def test_links_lead_to_pages_and_anchors(pages: dict[Path, _Page]) -> None:
    wrong = []
    for page, parsed in pages.items():
        if page.name == "404.html":  # it is shown in any folder: its links begin at the root of the site
            continue
        for link in parsed.links:
            parts = urlsplit(link)
            if parts.netloc or parts.scheme:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            target = target / "index.html" if target.is_dir() else target
            held = pages.get(target)
            if held is None or (parts.fragment and unquote(parts.fragment) not in held.anchors):
                wrong.append(f"{page.relative_to(SITE)}: {link}")
    assert wrong == []


def test_pictures_stand_in_the_page_as_they_were_drawn() -> None:
    source = (ROOT / "docs" / "concepts.md").read_text()
    shown = (SITE / "concepts.html").read_text()
    named = re.findall(r"\((pictures/[\w-]+\.svg)\)", source)
    assert len(named) == 4
    for picture in named:
        drawn = (ROOT / "docs" / picture).read_text()
        assert drawn[drawn.index("<style>") :].strip() in shown, picture
