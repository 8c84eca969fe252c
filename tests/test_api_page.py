"""The API pages of the site have every public name, with its signature and docstring."""

from __future__ import annotations

import re

import lakewright as lw
from support import api_page

PAGES = api_page.api_pages()


def test_every_public_name_is_described() -> None:
    others = {*api_page.LATE, *api_page.BY_TOPIC}
    assert {it.name for it in api_page.public_names()} == {n for n in lw.__all__ if n[0] != "_"} | others
    headings = {name for page in PAGES.values() for name in re.findall(r"^## (\w+)$", page, re.MULTILINE)}
    missing = [it for it in api_page.public_names() if it.name not in headings]
    assert [(it.name, it.package) for it in missing] == [], "add the package to SECTIONS"


def test_the_index_links_to_headings_that_exist() -> None:
    for page, anchor in re.findall(r"\]\(([\w-]+\.md)#(\w+)\)", PAGES["index.md"]):
        assert re.search(rf"^## {anchor}$", PAGES[page], re.MULTILINE | re.IGNORECASE), (page, anchor)


def test_methods_are_shown_with_their_signatures_and_inherited_ones_too() -> None:
    page = PAGES["tables.md"]
    assert "### create_tag { #FileStoreTable.create_tag }\n\n```py\ncreate_tag(\n    tag_name: str,\n" in page
    assert "    snapshot_id: int | None = None,\n" in page
    assert '```py\nSQLContext(catalog: Catalogs, database: str = "default")\n```' in PAGES["calls.md"]
    assert "### verify { #FileStoreTable.verify }" in page
    assert "### name { #FileStoreTable.name }\n\n```py\nname: str\n```" in page
    assert not re.search(r"^\s*(\w+\()?(self|cls)\b", page, re.MULTILINE)


def test_main_names_come_first_and_internal_methods_are_not_shown() -> None:
    assert re.findall(r"^## (\w+)$", PAGES["tables.md"], re.MULTILINE)[0] == "FileStoreTable"
    assert "#SQLContext.script" in PAGES["calls.md"]
    assert "#SQLContext.changeable" not in PAGES["calls.md"]
    known = {it.name for it in api_page.public_names()} | {"local_session", "to_torch"}
    assert set(api_page.FIRST) <= known


def test_errors_are_listed_as_a_tree() -> None:
    page = PAGES["errors.md"]
    assert "- [`LakewrightError`](#lakewrighterror)\n" in page
    assert "        - [`TagNotExistException`](#tagnotexistexception)\n" in page
    errors = [it.name for it in api_page.public_names() if it.package == "errors" and it.name != "LakewrightWarning"]
    assert [name for name in errors if f"- [`{name}`]" not in page] == []
    assert "A kind of [`NotFoundError`](errors.md#notfounderror).\n" in page


def test_examples_and_types_are_shown() -> None:
    assert ">>> catalog = lw.CatalogFactory.create" in PAGES["calls.md"]
    assert "    data: ArrowData | DataFrame | Dataset," in PAGES["calls.md"]
