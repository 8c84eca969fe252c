"""Tables that Java wrote, compacted by us: the rows stay, level by level and all at once."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakewright.compact.compaction_job import compact_after_commit, compact_table
from lakewright.metadata.table_store import TableStore
from lakewright.read.read_builder import ReadBuilder
from lakewright.spec.system_columns import DELETE, INSERT
from lakewright.spec.table_schema import BucketMode
from support.golden import WAREHOUSE, expected, in_order, spelled
from support.keyed_tables import Change, changelog_of, commit_rows, keyed_store, live
from support.read_tables import golden_store

HIDDEN = {"dv.pk_level0", "engine.first_row_level0"}  # compacting shows rows that were written but not shown
NAMES = sorted(name for name, spec in expected().items() if spec["primaryKeys"] and name not in HIDDEN)


def _copy(name: str, root: Path) -> TableStore:
    golden = golden_store(name)
    database, table = name.split(".")
    shutil.copytree(WAREHOUSE / f"{database}.db" / table, root)
    return replace(golden, layout=replace(golden.layout, root=str(root)))


def _rows(store: TableStore) -> pa.Table:
    builder = ReadBuilder(store)
    return builder.new_read().to_arrow(builder.new_scan().plan().splits())


@pytest.mark.filterwarnings("ignore:table changelog.decoupled. a commit does nothing about 'changelog")
@pytest.mark.parametrize("name", NAMES)
def test_rows_stay(name: str, tmp_path: Path) -> None:
    store = _copy(name, tmp_path / "t")
    if store.schema.bucket_mode is BucketMode.POSTPONE:
        pytest.skip("its rows are hidden until they have buckets")
    loose = [number for number, field in enumerate(store.schema.fields) if str(field.type).startswith("ARRAY")]
    before = in_order(spelled(_rows(store), store.schema.fields), loose)
    for options in ({"compaction.force-up-level-0": "true"}, {}):
        some = store.with_schema(store.schema.with_options(options))
        compact_table(some, full=not options)
        assert in_order(spelled(_rows(store), store.schema.fields), loose) == before
    assert {entry.file.level for entry in live(store)} <= {store.options.level_count - 1}


@pytest.mark.parametrize(("name", "shown"), [("dv.pk_level0", 20), ("engine.first_row_level0", 3)])
def test_hidden_rows_are_shown(name: str, shown: int, tmp_path: Path) -> None:
    store = _copy(name, tmp_path / "t")
    before = in_order(spelled(_rows(store), store.schema.fields))
    compact_table(store)
    after = in_order(spelled(_rows(store), store.schema.fields))
    assert len(after) == shown
    assert before != after


def test_the_changelog_goes_on_where_java_stopped(tmp_path: Path) -> None:
    """Level 0 holds +10 for key 1 (and more); the nearest row of key 1 is the 3 that Java folded into level 4."""
    store = _copy("changelog.lookup_aggregation", tmp_path / "t")
    result = compact_table(store)
    assert result.snapshot_id is not None
    log = changelog_of(store, result.snapshot_id, result.snapshot_id)
    kinds = [row[1] for row in log]
    assert kinds[:2] == [1, 2]
    assert log[0][3] == 3
    assert log[1][3] > 3


@pytest.mark.parametrize("name", ["changelog.lookup", "changelog.full_compaction", "changelog.lookup_dv"])
def test_the_changelog_is_that_of_java(name: str, tmp_path: Path) -> None:
    """The same changes give the same files: rows, kinds and numbers of the changelog, level and source."""
    golden = golden_store(name)
    store = keyed_store(tmp_path / "t", golden.schema.options, golden.schema.arrow_schema)
    changes: list[list[Change]] = [
        [(INSERT, 1, "a"), (INSERT, 2, "b"), (INSERT, 3, "c"), (INSERT, 1, "a2")],
        [(INSERT, 1, "x"), (INSERT, 1, "a3"), (DELETE, 2, "b"), (INSERT, 4, "d")],
    ]
    for number, rows in enumerate(changes):
        snapshot = commit_rows(store, rows)
        compact_after_commit(store, snapshot, {(bytes(12), 0)})
        at = 2 * number + 2
        assert [row[1:] for row in changelog_of(store, at, at)] == [row[1:] for row in changelog_of(golden, at, at)]
        assert [row[0] for row in changelog_of(store, at, at)] == [row[0] for row in changelog_of(golden, at, at)]
        ours, theirs = (s.manifests.changelog(s.snapshots.get(at))[0].file for s in (store, golden))
        for fact in ("row_count", "level", "file_source", "delete_row_count", "min_key", "max_key", "key_stats"):
            assert getattr(ours, fact) == getattr(theirs, fact), fact
    here, there = ({e.file.level: e.file.row_count for e in live(s)} for s in (store, golden))
    assert here == there
