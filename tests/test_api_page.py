"""The pages of public names that the site gets: every name is there, with its docstring and how it is called."""

from __future__ import annotations

import re

import lakewright as lw
from support import api_page

PAGES = api_page.api_pages()


def test_every_public_name_is_described() -> None:
    assert {it.name for it in api_page.public_names()} == {n for n in lw.__all__ if n[0] != "_"} | set(api_page.LATE)
    headings = {name for page in PAGES.values() for name in re.findall(r"^## (\w+)$", page, re.MULTILINE)}
    missing = [it for it in api_page.public_names() if it.name not in headings]
    assert [(it.name, it.room) for it in missing] == [], "name the room in SECTIONS"


def test_the_first_page_links_to_headings_that_exist() -> None:
    for page, anchor in re.findall(r"\]\(([\w-]+\.md)#(\w+)\)", PAGES["index.md"]):
        assert re.search(rf"^## {anchor}$", PAGES[page], re.MULTILINE | re.IGNORECASE), (page, anchor)


def test_a_method_is_shown_as_it_is_called_and_inherited_ones_too() -> None:
    page = PAGES["tables.md"]
    assert "**`create_tag(tag_name, snapshot_id=None, ignore_if_exists=False, time_retained=None)`**" in page
    assert "**`verify(" in page
    assert "self" not in re.findall(r"\*\*`\w+\(([^)]*)\)`\*\*", page)


def test_examples_and_types_are_shown() -> None:
    assert ">>> catalog = lw.CatalogFactory.create" in PAGES["calls.md"]
    assert "    data: ArrowData | DataFrame | Dataset," in PAGES["calls.md"]
