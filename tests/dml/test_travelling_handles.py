"""A handle that shows rows of the past, or some of the rows, changes nothing: it would change rows it does not show."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

import lakewright as lw
from support.effort import each_once
from support.row_changes import new_table

ROWS = pa.table({"id": [1, 2], "p": [0, 0], "n": [10, 20]})
KINDS = ["plain", "vectors", "evolution, vectors", "keyed", "keyed, dynamic"]
TRAVEL = [
    {"scan.tag-name": "old"},
    {"scan.snapshot-id": "1"},
    {"scan.version": "1"},
    {"scan.version": "old"},
    {"scan.timestamp-millis": "99999999999999"},
    {"scan.timestamp": "2099-01-01 00:00:00"},
    {"scan.watermark": "1"},
    {"scan.mode": "compacted-full"},
    {"scan.mode": "from-snapshot", "scan.snapshot-id": "1"},
    {"incremental-between": "1,2"},
    {"incremental-between-timestamp": "1,99999999999999"},
    {"scan.file-creation-time-millis": "1"},
]


def _update(table: lw.FileStoreTable) -> object:
    return table.new_batch_write_builder().new_update()


VERBS: dict[str, Callable[[lw.FileStoreTable], object]] = {
    "delete": lambda t: t.delete("id = 1"),
    "update": lambda t: t.update({"n": 1}),
    "upsert": lambda t: t.upsert(ROWS.select(["id", "p", "n"]), t.primary_keys or ["id"]),
    "merge": lambda t: t.merge(ROWS, "id").when_matched_delete().execute(),
    "delete by id": lambda t: t.delete_by_row_id([0]),
    "update by id": lambda t: t.update_by_row_id(pa.table({"_ROW_ID": [0], "n": [1]})),
    "new_update": _update,
    "stream new_update": lambda t: t.new_stream_write_builder().new_update(),
    "append": lambda t: lw.write_table(ROWS, t),
    "overwrite": lambda t: lw.write_table(ROWS, t, mode="overwrite"),
    "batch builder": lambda t: t.new_batch_write_builder(),
    "stream builder": lambda t: t.new_stream_write_builder(),
    "compact": lambda t: t.compact(full=True),
    "rescale": lambda t: t.rescale(3),
}


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_changed_through_a_handle_that_travels(kind: str) -> None:
    table = new_table(kind)
    lw.write_table(ROWS, table)
    table.create_tag("old")
    lw.write_table(ROWS, table)
    before = table.store.snapshots.latest_id()
    for options, (name, verb) in each_once(TRAVEL, list(VERBS.items())):
        if ("id" in name and "evolution" not in kind) or (name == "rescale" and kind != "keyed"):
            continue
        with pytest.raises(lw.InvalidInputError, match="through a handle without that option") as caught:
            verb(table.copy(options))
        assert caught.value.facts["option"] in options, name
    assert table.store.snapshots.latest_id() == before
    assert table.delete("id = 1").deleted


def test_options_that_are_stored_for_readers_let_writers_write() -> None:
    storage_table = new_table("plain", **{"scan.mode": "from-timestamp", "scan.timestamp-millis": "99999999999999"})
    assert lw.write_table(ROWS, storage_table).snapshot_id == 1
    assert storage_table.compact(full=True).is_empty
    with pytest.raises(lw.InvalidInputError, match="shows rows of the past"):
        storage_table.delete("id = 1")
