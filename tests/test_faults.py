"""Every storage call of every operation x six faults: clean, and no acknowledged commit lost to a power cut."""

from __future__ import annotations

from contextlib import suppress
from datetime import date

import pyarrow as pa
import pytest

import lakewright as lw
from contract.fault_enumerator import Operation, enumerate_faults
from contract.faulty_storage import FaultKind
from support.effort import is_thin

pytestmark = pytest.mark.long

FIELDS = [
    lw.DataField(0, "id", lw.AtomicType("INT")),
    lw.DataField(1, "day", lw.AtomicType("DATE")),
]
DAYS = [date(2026, 11, 1), date(2026, 11, 2)]


def observe(catalog: lw.Catalog) -> object:
    """Return all that a user sees: tables, columns, options, rows of every snapshot, tags."""
    seen = {}
    for database in catalog.list_databases():
        for name in catalog.list_tables(database):
            table = catalog.get_table(f"{database}.{name}")
            history = [_rows(table, snapshot_id) for snapshot_id in table.store.snapshots.ids()]
            tags = {tag: lw.read_table(table, tag=tag).num_rows for tag in table.list_tags()}
            columns = [str(field) for field in table.fields]
            seen[name] = (columns, sorted(table.schema.options.items()), history, tags, lw.read_table(table).num_rows)
    return seen


def _rows(table: lw.FileStoreTable, snapshot_id: int) -> list[str]:
    return sorted(map(repr, lw.read_table(table, snapshot_id=snapshot_id).to_pylist()))


def database(catalog: lw.Catalog) -> None:
    catalog.create_database("d")


def empty_table(catalog: lw.Catalog) -> None:
    database(catalog)
    catalog.create_table("d.t", lw.Schema(FIELDS, ["day"], options={"manifest.merge-min-count": "2"}))


def written_table(catalog: lw.Catalog) -> None:
    empty_table(catalog)
    for number in range(2):
        lw.write_table(_batch(number), catalog.get_table("d.t"))


def _batch(number: int) -> pa.Table:
    return pa.table({"id": pa.array([number, number + 100], pa.int32()), "day": pa.array(DAYS)})


def create(catalog: lw.Catalog) -> None:
    catalog.create_table("d.t", lw.Schema(FIELDS, ["day"]), ignore_if_exists=True)


def append(catalog: lw.Catalog) -> None:
    lw.write_table(_batch(7), catalog.get_table("d.t"))


def stream_append(catalog: lw.Catalog) -> None:
    builder = catalog.get_table("d.t").new_stream_write_builder().with_commit_user("stream")
    with builder.new_write() as write, builder.new_commit() as commit:
        write.write_arrow(_batch(8))
        commit.filter_and_commit({1: write.prepare_commit(1)})


def overwrite(catalog: lw.Catalog) -> None:
    lw.write_table(_batch(9).slice(0, 1), catalog.get_table("d.t"), mode="overwrite")


def overwrite_static(catalog: lw.Catalog) -> None:
    lw.write_table(_batch(9).slice(0, 1), catalog.get_table("d.t"), mode="overwrite", partitions={"day": DAYS[0]})


def truncate(catalog: lw.Catalog) -> None:
    with catalog.get_table("d.t").new_batch_write_builder().new_commit() as commit:
        commit.truncate_table()


def alter(catalog: lw.Catalog) -> None:
    if "note" not in catalog.get_table("d.t").field_names:
        catalog.alter_table("d.t", [lw.SchemaChange.add_column("note", lw.AtomicType("STRING"))])


def tag(catalog: lw.Catalog) -> None:
    catalog.get_table("d.t").create_tag("one", ignore_if_exists=True)


def drop(catalog: lw.Catalog) -> None:
    catalog.drop_table("d.t", ignore_if_not_exists=True)


def rename(catalog: lw.Catalog) -> None:
    catalog.rename_table("d.t", "d.renamed", ignore_if_not_exists=True)


def marked_table(catalog: lw.Catalog) -> None:
    """Make a table with deletion vectors of which some rows are deleted already."""
    _changeable(catalog, {"deletion-vectors.enabled": "true"})
    catalog.get_table("d.t").delete("id = 2")


def tracked_table(catalog: lw.Catalog) -> None:
    _changeable(catalog, {"row-tracking.enabled": "true"})


def _changeable(catalog: lw.Catalog, options: dict[str, str]) -> None:
    database(catalog)
    catalog.create_table("d.t", lw.Schema(FIELDS, options=options))
    lw.write_table(pa.concat_tables([_batch(0), _batch(1), _batch(2)]), catalog.get_table("d.t"))


def delete(catalog: lw.Catalog) -> None:
    catalog.get_table("d.t").delete("id >= 100")


def update(catalog: lw.Catalog) -> None:
    catalog.get_table("d.t").update({"day": DAYS[1]}, "id < 2")


OPERATIONS = [
    Operation("create", database, create, create),
    Operation("append", empty_table, append),
    Operation("append with a manifest merge", written_table, append),
    Operation("append of a stream", written_table, stream_append, stream_append),
    Operation("overwrite", written_table, overwrite),
    Operation("update by vectors", marked_table, update),
    Operation("update by copies", tracked_table, update),
    Operation("alter", written_table, alter, alter),
    Operation("tag", written_table, tag, tag),
    Operation("drop", written_table, drop, drop),
    Operation("rename", written_table, rename, rename),
]
# A static overwrite and a truncation are overwrites, and an update by vectors deletes by vectors too.
AT_NIGHT = [
    Operation("static overwrite", written_table, overwrite_static),
    Operation("truncate", written_table, truncate),
    Operation("delete by vectors", marked_table, delete),
]


@pytest.mark.parametrize(
    "operation",
    [*OPERATIONS, *(pytest.param(operation, marks=pytest.mark.nightly) for operation in AT_NIGHT)],
    ids=lambda operation: operation.name.replace(" ", "-"),
)
def test_every_fault_leaves_the_table_whole(operation: Operation) -> None:
    # The append fails in every way per push, the others in every way at night.
    report = enumerate_faults(operation, observe, thin=is_thin() and operation.name != "append")
    assert report.calls > 0
    assert report.failures == ()
    print(f"{report.operation}: {report.calls} calls, {report.runs} runs")


def test_the_enumerator_notices_an_operation_that_is_not_atomic() -> None:
    """A check that cannot fail proves nothing: two commits in one operation must be caught between."""

    def twice(catalog: lw.Catalog) -> None:
        for name in ("a", "b"):
            catalog.alter_table("d.t", [lw.SchemaChange.add_column(name, lw.AtomicType("STRING"))])

    report = enumerate_faults(Operation("twice", empty_table, twice), observe, (FaultKind.CRASH_AFTER,))
    assert any("a state between" in failure for failure in report.failures)


def test_the_enumerator_notices_every_lie_about_a_commit() -> None:
    """Also of faults that leave no trace, of which only the first is followed to the end."""

    def hushed(catalog: lw.Catalog) -> None:
        with suppress(OSError, lw.LakewrightError):
            append(catalog)

    report = enumerate_faults(Operation("hushed", empty_table, hushed), observe, (FaultKind.ERROR_BEFORE,))
    assert sum("acknowledged and lost" in failure for failure in report.failures) > 2
