"""The report of a table: figures as the system tables have them, well-formed, accessible, escaped and bounded."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.cli.main import main
from lakewright.display import format_bytes
from lakewright.metadata.table_summary import Shortened
from lakewright.report.gather_facts import advice_of, gather
from lakewright.report.report_facts import Commit, Expiry, Orphans, PartitionFacts, TableFacts, Totals
from lakewright.report.report_page import DARK, LIGHT, SHAPES, page
from lakewright.statements.parser import parse_statement
from support.command_tables import parse_words
from support.report_tables import PANELS, odd_table, orders

_VOID = {"meta"}
_PAGE_BYTES_MAX = 400_000


class Page(HTMLParser):
    """A page as a tree: every element with its attributes, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def shown(self) -> str:
        return " ".join(self.text)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> lw.FileStoreTable:
    return orders(tmp_path_factory.mktemp("orders"))


@pytest.fixture
def copied(table: lw.FileStoreTable, tmp_path: Path) -> lw.FileStoreTable:
    """Return a copy of the table, to change or damage."""
    shutil.copytree(Path(table.table_path).parent, tmp_path / "shop.db")
    return lw.CatalogFactory.create({"warehouse": str(tmp_path)}).get_table("shop.orders")


@pytest.fixture(scope="module")
def facts(table: lw.FileStoreTable) -> TableFacts:
    return gather(table.store, orphans=True)


def _system(table: lw.FileStoreTable, name: str) -> pa.Table:
    return lw.read_table(
        lw.CatalogFactory.create({"warehouse": str(Path(table.table_path).parent.parent)}).get_table(
            f"{table.name}${name}"
        )
    )


def test_the_figures_are_those_of_the_system_tables(table: lw.FileStoreTable, facts: TableFacts) -> None:
    files = _system(table, "files").to_pylist()
    snapshots = _system(table, "snapshots").to_pylist()
    partitions = _system(table, "partitions").to_pylist()
    sizes = [file["file_size_in_bytes"] for file in files]
    assert (facts.totals.files, facts.totals.rows) == (len(files), sum(file["record_count"] for file in files))
    assert facts.totals.bytes == sum(sizes) == sum(one.bytes for one in facts.sizes.bins)
    assert sum(one.files for one in facts.sizes.bins) == len(files)
    assert [one.id for one in facts.history.shown] == [one["snapshot_id"] for one in reversed(snapshots)]
    assert [one.total_rows for one in facts.history.shown] == [one["total_record_count"] for one in reversed(snapshots)]
    by_size = {one.name: (one.rows, one.bytes, one.files) for one in facts.partitions.largest.shown}
    assert by_size == {
        one["partition"]: (one["record_count"], one["file_size_in_bytes"], one["file_count"]) for one in partitions
    }
    level_0 = [file for file in files if file["level"] == 0]
    assert facts.buckets.level_0_files == len(level_0) > 0
    shown = Page(page(facts)).shown
    for figure in (f"{sum(sizes):,} bytes", format_bytes(max(one["file_size_in_bytes"] for one in partitions))):
        assert figure in shown


def test_bytes_of_the_past_are_those_of_the_snapshots(table: lw.FileStoreTable, facts: TableFacts) -> None:
    for one in facts.history.shown[:: max(1, len(facts.history.shown) // 5)]:
        live = table.store.manifests.live(table.store.snapshots.get(one.id))
        assert one.total_bytes == sum(entry.file.file_size for entry in live), one.id


def test_upkeep_does_what_the_report_says(copied: lw.FileStoreTable) -> None:
    table = copied
    before = gather(table.store)
    assert before.compaction is not None
    assert before.expiry is not None
    expired = table.expire_snapshots()
    assert (len(expired.snapshot_ids), expired.files) == (before.expiry.snapshots, before.expiry.files)
    assert before.expiry.snapshots > 0
    done = table.compact(full=True)
    assert done.files_before == before.compaction.full.files > 0
    assert done.files_after == before.compaction.full.files_after
    after = gather(table.store)
    assert after.compaction is not None
    assert after.compaction.full.files == 0
    assert after.buckets.runs_max == 1
    assert not any("Compact" in advice.title for advice in after.advice)


def test_the_calls_of_the_advice_can_be_made(table: lw.FileStoreTable, facts: TableFacts) -> None:
    """Make every piece of advice, and look that its commands, procedures and methods exist with these arguments."""
    head = replace(facts.head, buckets="64")
    buckets = replace(facts.buckets, hidden_files=1, hidden_rows=2, postponed_files=3, postponed_rows=4, deleted_rows=9)
    crowded = replace(facts, head=head, buckets=buckets, totals=Totals(9, 10, 1000, 2, 64, 500, 5000))
    crowded = replace(crowded, orphans=Orphans(1, 1), expiry=Expiry(1, 1, left=1))
    assert crowded.references.consumers.shown
    advice = advice_of(crowded)
    titles = [one.title.split()[0] for one in advice]
    assert set(titles) == {"Compact:", "Drop", "Expire", "Look", "Merge", "Use", "Remove"}
    for one in (*advice, *advice_of(replace(facts, snapshot=None))):
        if one.command:
            parse_words(shlex.split(one.command)[1:])
        if one.sql.startswith("CALL"):
            parse_statement(one.sql)
        method = re.fullmatch(r"table\.(\w+)\(.*\)", one.python)
        assert method is None or callable(getattr(table, method[1]))


def test_every_panel_is_there_and_the_page_is_accessible(facts: TableFacts) -> None:
    text = page(facts)
    found = Page(text)
    ids = [attributes["id"] for _, attributes in found.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert set(PANELS) <= set(ids)
    assert found.all("html")[0]["lang"] == "en"
    assert any(meta.get("name") == "viewport" for meta in found.all("meta"))
    assert len(found.all("h1")) == 1
    headings = [int(tag[1]) for tag, _ in found.elements if re.fullmatch(r"h[1-6]", tag)]
    assert all(after - before <= 1 for before, after in pairwise(headings))
    pictures = [svg for svg in found.all("svg") if svg.get("aria-hidden") != "true"]
    assert len(pictures) > 8
    for svg in pictures:
        assert svg["role"] == "img"
        assert set(str(svg["aria-labelledby"]).split()) <= set(ids)
    for panel in re.findall(r"<section.*?</section>", text, re.DOTALL):
        assert "<figure" not in panel or "<details" in panel
    assert all(th.get("scope") == "col" for th in found.all("th"))


def test_the_page_loads_nothing_and_runs_nothing(facts: TableFacts) -> None:
    text = page(facts)
    assert not {"script", "link", "img", "iframe", "object"} & {tag for tag, _ in Page(text).elements}
    assert not re.search(r"url\(|@import|https?://|\son\w+=", text)


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: str, other: str) -> float:
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_texts_and_shapes_can_be_told_from_what_they_lie_on(colours: dict[str, str]) -> None:
    pairs = [(ink, back) for ink in ("ink", "soft", "accent") for back in ("page", "panel", "code")]
    for ink, back in (*pairs, ("warn", "warn-back"), ("ink", "warn-back")):
        assert _contrast(colours[ink], colours[back]) >= 4.5, (ink, back)
    for shape in SHAPES:
        assert _contrast(colours[shape], colours["panel"]) >= 3, shape


def test_names_with_markup_are_shown_as_they_are(tmp_path: Path) -> None:
    table = odd_table(tmp_path)
    for text in (table.report(), table._repr_html_()):
        found = Page(text)
        assert not {"script", "img", "b"} & {tag for tag, _ in found.elements}
        assert "<script>alert(1)</script>" in found.shown
        assert "<img src=x onerror=alert(2)>" in found.shown
    shown = Page(table.report()).shown
    assert "<b>x</b>" in shown
    assert "مرحبا" in shown
    assert "<i>" in shown
    assert "HUSH" not in table.report()
    assert "***" in shown


def test_a_table_without_snapshots_and_one_of_a_single_row(tmp_path: Path) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(pa.schema({"n": pa.int64()})))
    table = catalog.get_table("d.t")
    empty = Page(table.report())
    assert "nothing was written yet" in empty.shown
    assert "Write the first rows" in empty.shown
    lw.write_table(pa.table({"n": [1]}), table)
    single = Page(table.report())
    assert "good shape" in single.shown
    ids = {attributes.get("id") for _, attributes in single.elements}
    assert set(PANELS) <= ids


def test_a_page_is_bounded(facts: TableFacts) -> None:
    many = tuple(PartitionFacts(f"day={at}", 1, 10, 1000 - at % 7) for at in range(20))
    commits = tuple(
        Commit(
            at,
            1_700_000_000_000 + at * 60_000,
            ("APPEND", "COMPACT", "OVERWRITE", "ANALYZE")[at % 4],
            "u",
            at,
            1,
            2,
            1,
            at,
        )
        for at in range(1000, 0, -1)
    )
    large = replace(
        facts,
        partitions=replace(facts.partitions, largest=Shortened(many, 10_000), profile=tuple(range(48, 0, -1))),
        history=Shortened(commits, 25_000),
        totals=replace(facts.totals, files=100_000, partitions=10_000),
    )
    text = page(large)
    assert len(text.encode()) < _PAGE_BYTES_MAX
    shown = Page(text).shown
    assert "and 9,980 more partitions" in shown
    assert "The 24,000 oldest are not drawn" in shown


def test_many_partitions_are_gathered_in_bounds(tmp_path: Path) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    schema = lw.Schema.from_pyarrow_schema(pa.schema({"n": pa.int64(), "p": pa.int64()}), partition_keys=["p"])
    catalog.create_table("d.t", schema)
    table = catalog.get_table("d.t")
    lw.write_table(pa.table({"n": list(range(120)), "p": list(range(120))}), table)
    facts = gather(table.store)
    assert (facts.partitions.largest.total, len(facts.partitions.largest.shown), len(facts.partitions.profile)) == (
        120,
        20,
        48,
    )
    assert "and 110 more partitions" in Page(page(facts)).shown


def test_what_cannot_be_read_is_said_and_the_rest_is_shown(copied: lw.FileStoreTable) -> None:
    table = copied
    for manifest in (Path(table.table_path) / "manifest").glob("manifest-*"):
        if not manifest.name.startswith("manifest-list"):
            manifest.write_bytes(b"")
    found = Page(table.report())
    assert "What could not be found out" in found.shown
    assert "Schema history" in found.shown
    assert "snapshot" in Page(table._repr_html_()).shown


def test_a_card_never_raises(copied: lw.FileStoreTable) -> None:
    table = copied
    for file in (Path(table.table_path) / "snapshot").iterdir():
        file.write_bytes(b"{}")
    assert "its snapshot could not be read" in table._repr_html_()
    assert "id" in Page(table._repr_html_()).shown


def test_the_command_writes_a_page(
    copied: lw.FileStoreTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    call = ["report", "shop.orders", "-w", str(tmp_path)]
    assert main(call) == 0
    assert "orders-report.html: the report of shop.orders" in capsys.readouterr().out
    assert Path("orders-report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert main(call) == 0  # an earlier report is replaced
    capsys.readouterr()
    Path("mine.txt").write_text("mine")
    assert main([*call, "-o", "mine.txt"]) == 1
    assert "--force" in capsys.readouterr().err
    assert Path("mine.txt").read_text() == "mine"
    assert main([*call, "-o", "mine.txt", "--force"]) == 0
    capsys.readouterr()
    assert main([*call, "-o", "-"]) == 0
    assert capsys.readouterr().out.startswith("<!DOCTYPE html>")
    assert main([*call, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["totals"]["files"] == gather(copied.store).totals.files


def test_a_report_needs_a_place_that_exists(table: lw.FileStoreTable, tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing" / "r.html", "s3://container/r.html"):
        with pytest.raises(lw.InvalidInputError, match="written"):
            table.report(path)
    assert not [file for file in tmp_path.iterdir() if file.name.startswith(".")]
