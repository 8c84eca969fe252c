"""Upserts into primary-key tables of data that lacks columns: these stay as they are, whatever the table is like."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pytest

import lakewright as lw
from contract.fault_enumerator import OPTIONS
from contract.faulty_storage import Fault, FaultKind, FaultyStorage, MemoryStorage
from lakewright.commit.table_commit import CommitResult
from lakewright.errors import ColumnNotExistException
from support.effort import each_once

Upsert = Callable[[lw.FileStoreTable, pa.Table], object]
FIELDS = (("id", "BIGINT NOT NULL"), ("a", "BIGINT"), ("b", "STRING"), ("p", "INT"))
ROWS = {"id": [1, 2, 3], "a": [1, 2, 3], "b": ["x", "y", "z"], "p": [1, 1, 2]}
_names = itertools.count()


def made(
    options: dict[str, str],
    partition_keys: Sequence[str] = (),
    fields: Sequence[tuple[str, str]] = FIELDS,
    defaults: dict[str, str] | None = None,
    rows: Mapping[str, object] | None = None,
) -> lw.FileStoreTable:
    storage = MemoryStorage(f"upserts-{next(_names)}")
    catalog = lw.FileSystemCatalog(storage, f"{storage.root}/w", OPTIONS)
    catalog.create_database("d")
    columns = [
        lw.DataField(number, name, lw.AtomicType(dtype), default_value=(defaults or {}).get(name))
        for number, (name, dtype) in enumerate(fields)
    ]
    catalog.create_table("d.t", lw.Schema(columns, list(partition_keys), ["id"], options))
    table = catalog.get_table("d.t")
    lw.write_table(pa.table(dict(rows or ROWS)), table)
    return table


def seen(table: lw.FileStoreTable) -> list[tuple[object, ...]]:
    return sorted((tuple(row.values()) for row in lw.read_table(table).to_pylist()), key=repr)


def by_verb(table: lw.FileStoreTable, data: pa.Table) -> object:
    return table.upsert(data)


def by_call(table: lw.FileStoreTable, data: pa.Table) -> object:
    return lw.write_table(data, table, mode="upsert")


def by_stream(table: lw.FileStoreTable, data: pa.Table) -> object:
    return lw.write_table(data.to_reader(max_chunksize=1), table, mode="upsert")


def by_builder(table: lw.FileStoreTable, data: pa.Table) -> object:
    builder = table.new_batch_write_builder()
    messages = builder.new_update().upsert_by_arrow_with_key(data, table.primary_keys)
    return builder.new_commit().commit(messages)


UPSERTS: list[Upsert] = [by_verb, by_call, by_stream, by_builder]
DEDUPLICATING: dict[str, tuple[dict[str, str], list[str]]] = {
    "fixed": ({"bucket": "2"}, []),
    "dynamic": ({"bucket": "-1"}, []),
    "cross-partition": ({"bucket": "-1"}, ["p"]),
    "postpone": ({"bucket": "-2", "postpone.default-bucket-num": "2"}, []),
    "vectors": ({"bucket": "1", "deletion-vectors.enabled": "true"}, []),
    "sequence": ({"bucket": "1", "sequence.field": "a"}, []),
    "changelog input": ({"bucket": "1", "changelog-producer": "input"}, []),
    "changelog lookup": ({"bucket": "1", "changelog-producer": "lookup"}, []),
    "cross-partition, changelog": ({"bucket": "-1", "changelog-producer": "input"}, ["p"]),
}


@pytest.mark.parametrize(("kind", "upsert"), each_once(list(DEDUPLICATING), UPSERTS))
def test_columns_that_the_data_lacks_keep_their_values(kind: str, upsert: Upsert) -> None:
    options, partition_keys = DEDUPLICATING[kind]
    table = made(options, partition_keys)
    upsert(table, pa.table({"id": [3, 1, 4, 4], "a": [30, 10, 40, 41]}))
    wanted: list[tuple[object, ...]] = [(1, 10, "x", 1), (2, 2, "y", 1), (3, 30, "z", 2), (4, 41, None, None)]
    assert seen(table) == wanted
    upsert(table, pa.table({"id": [1, 2, 5], "p": [2, 1, 7]}))  # where the key does not name the partition, rows move
    assert seen(table) == [(1, 10, "x", 2), (2, 2, "y", 1), *wanted[2:], (5, None, None, 7)]
    upsert(table, pa.table({"id": [1, 6]}))  # keys alone
    assert seen(table) == [(1, 10, "x", 2), (2, 2, "y", 1), *wanted[2:], (5, None, None, 7), (6, None, None, None)]


def test_counts_are_exact_where_rows_are_looked_up_and_unknown_elsewhere() -> None:
    table = made({"bucket": "1"})
    done = table.upsert(pa.table({"id": [1, 4, 4], "a": [10, 40, 41]}))
    assert (done.deleted, done.updated, done.inserted, done.rows) == (0, 1, 1, 2)
    done = table.upsert(pa.table({"id": [1, 5, 5], "a": [1, 2, 3], "b": ["p", "q", "r"], "p": [1, 1, 1]}))
    assert (done.deleted, done.updated, done.inserted, done.rows) == (None, None, None, None)
    assert done.written == 2
    done = table.upsert(pa.table({"id": pa.array([], pa.int64())}))
    assert (done.rows, done.snapshot_id) == (0, None)


def test_whole_rows_are_written_without_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    table = made({"bucket": "1"})

    def never(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("lakewright.dml.merge.merged_rows", never)
    whole = pa.table({"p": [9], "b": ["w"], "a": [9], "id": [1]})
    for upsert in UPSERTS:
        upsert(table, whole)
    assert seen(table)[0] == (1, 9, "w", 9)
    with pytest.raises(AssertionError):
        table.upsert(whole.drop_columns(["p"]))


def test_appends_write_null_or_the_default() -> None:
    table = made({"bucket": "1"}, defaults={"b": "none"})
    lw.write_table(pa.table({"id": [1], "a": [10]}), table)
    assert seen(table)[0] == (1, 10, "none", None)


def test_new_rows_get_defaults_and_rows_that_are_there_keep_what_they_have() -> None:
    engines = ("deduplicate", "partial-update", "aggregation", "first-row")
    for engine in engines:
        table = made({"bucket": "1", "merge-engine": engine}, defaults={"b": "none"})
        table.upsert(pa.table({"id": [1, 4], "a": [10, 40]}))
        assert seen(table)[0] == (1, 1 if engine == "first-row" else 10, "x", 1), engine
        assert seen(table)[-1] == (4, 40, "none", None), engine


@pytest.mark.parametrize("keys", [["id"], None])
def test_required_columns_are_asked_for_only_where_rows_are_new(keys: list[str] | None) -> None:
    fields = (("id", "BIGINT NOT NULL"), ("a", "BIGINT"), ("b", "STRING NOT NULL"), ("p", "INT"))
    for engine in ("deduplicate", "partial-update", "aggregation"):
        table = made({"bucket": "1", "merge-engine": engine}, fields=fields)
        table.upsert(pa.table({"id": [1, 2], "a": [10, 20]}), keys)
        assert seen(table)[:2] == [(1, 10, "x", 1), (2, 20, "y", 1)]
        before = table.store.snapshots.latest_id()
        with pytest.raises(lw.InvalidInputError, match="'b'"):
            table.upsert(pa.table({"id": [1, 4], "a": [11, 40]}), keys)
        assert table.store.snapshots.latest_id() == before


def test_late_rows_lose_and_the_newest_of_equal_keys_counts() -> None:
    for order, sign in (("ascending", 1), ("descending", -1)):
        table = made(
            {"bucket": "1", "sequence.field": "a", "sequence.field.sort-order": order},
            rows={"id": [1, 2], "a": [5 * sign, 5 * sign], "b": ["x", "y"], "p": [1, 1]},
        )
        data = pa.table({"id": [1, 2, 2, 3, 3], "a": [4 * sign, 9 * sign, 7 * sign, 2 * sign, 1 * sign], "p": [9] * 5})
        done = table.upsert(data.cast(pa.schema({"id": pa.int64(), "a": pa.int16(), "p": pa.int32()})))
        assert (done.updated, done.inserted) == (1, 1)
        assert seen(table) == [(1, 5 * sign, "x", 1), (2, 9 * sign, "y", 9), (3, 2 * sign, None, 9)]


def test_row_kinds_of_a_part_of_a_row() -> None:
    for kinds in (["+U", "-D", "-d", "+I"], [2, 3, 3, 0]):
        table = made({"bucket": "1"})
        data = pa.table({"id": [1, 2, 7, 4], "a": [10, None, None, 40], "_row_kind": kinds})
        done = table.upsert(data)
        assert (done.deleted, done.updated, done.inserted) == (1, 1, 1)
        assert seen(table) == [(1, 10, "x", 1), (3, 3, "z", 2), (4, 40, None, None)]
    table = made({"bucket": "1", "ignore-delete": "true"})
    by_call(table, pa.table({"id": [1, 2], "a": [10, None], "_row_kind": ["+U", "-D"]}))
    assert seen(table) == [(1, 10, "x", 1), (2, 2, "y", 1), (3, 3, "z", 2)]
    table = made({"bucket": "1", "sequence.field": "a"})
    with pytest.raises(lw.UnsupportedError, match="give all columns"):
        table.upsert(pa.table({"id": [1], "a": [10], "_row_kind": ["-D"]}))


def test_a_column_of_the_table_may_say_the_kinds() -> None:
    fields = (("id", "BIGINT NOT NULL"), ("a", "BIGINT"), ("b", "STRING"), ("k", "STRING NOT NULL"))
    rows = {"id": [1, 2], "a": [1, 2], "b": ["x", "y"], "k": ["+I", "+I"]}
    for producer in ("none", "input"):
        options = {"bucket": "1", "rowkind.field": "k", "changelog-producer": producer}
        table = made(options, fields=fields, rows=rows)
        table.upsert(pa.table({"id": [1, 2, 4], "a": [10, 0, 40], "k": ["+U", "-D", "+I"]}))
        assert [row[:3] for row in seen(table)] == [(1, 10, "x"), (4, 40, None)]
        table.upsert(pa.table({"id": [1, 5], "a": [11, 50]}))
        assert [row[:3] for row in seen(table)] == [(1, 11, "x"), (4, 40, None), (5, 50, None)]


def test_changelogs_tell_of_whole_rows() -> None:
    table = made({"bucket": "-1", "changelog-producer": "input"}, ["p"])
    table.upsert(pa.table({"id": [1, 2], "a": [10, 20], "p": [1, 7]}))
    last = table.store.snapshots.latest_id() or 0
    changes = lw.read_table(table, incremental=(last - 1, last), incremental_mode="changelog", row_kinds=True)
    told = sorted(tuple(row.values()) for row in changes.to_pylist())
    assert told[:2] == [("+U", 1, 10, "x", 1), ("+U", 2, 20, "y", 7)]
    assert [(row[0], row[1], row[4]) for row in told[2:]] == [("-D", 2, 1), ("-U", 1, 1)]
    assert told[3] == ("-U", 1, 1, "x", 1)


# ---- merge engines that fold rows ------------------------------------------------------------------------------------


def test_sums_count_once_and_last_values_stay() -> None:
    functions = {"fields.a.aggregate-function": "sum", "fields.b.aggregate-function": "last_value"}
    table = made({"bucket": "1", "merge-engine": "aggregation", **functions})
    done = table.upsert(pa.table({"id": [1, 1, 4], "a": [10, 10, 40]}))
    assert (done.updated, done.rows) == (None, None)
    table.upsert(pa.table({"id": [1], "b": ["new"]}))
    table.upsert(pa.table({"id": [1, 2], "p": [5, 6]}))
    assert seen(table) == [(1, 21, "new", 5), (2, 2, "y", 6), (3, 3, "z", 2), (4, 40, None, None)]


def test_what_a_function_would_count_twice_is_refused() -> None:
    functions = {"fields.a.aggregate-function": "sum"}
    fields = (("id", "BIGINT NOT NULL"), ("a", "BIGINT NOT NULL"), ("b", "STRING"), ("p", "INT"))
    table = made({"bucket": "1", "merge-engine": "aggregation", **functions}, fields=fields)
    with pytest.raises(lw.UnsupportedError, match=r"upsert without 'a'.*add the column"):
        table.upsert(pa.table({"id": [1], "b": ["new"]}))
    table = made({"bucket": "1", "merge-engine": "aggregation", **functions}, defaults={"a": "3"})
    with pytest.raises(lw.UnsupportedError, match="upsert without 'a'"):
        by_call(table, pa.table({"id": [1], "b": ["new"]}))
    assert seen(table)[0] == (1, 1, "x", 1)


def test_a_missing_sequence_field_does_not_make_rows_the_oldest() -> None:
    for engine in ("aggregation", "partial-update"):
        table = made({"bucket": "1", "merge-engine": engine, "sequence.field": "a"})
        table.upsert(pa.table({"id": [1, 4], "b": ["new", "w"]}))
        assert seen(table)[0] == (1, 1, "new", 1), engine
        assert seen(table)[-1] == (4, None, "w", None), engine


def test_columns_of_a_sequence_group_stay_and_its_sequence_is_asked_for() -> None:
    group = {"fields.a.sequence-group": "b,p"}
    table = made({"bucket": "1", "merge-engine": "partial-update", **group})
    table.upsert(pa.table({"id": [1, 2, 4], "a": [10, 0, 40], "b": ["new", "late", "w"]}))
    assert seen(table) == [(1, 10, "new", 1), (2, 2, "y", 1), (3, 3, "z", 2), (4, 40, "w", None)]
    with pytest.raises(lw.UnsupportedError, match=r"'b' without 'a'.*add 'a'"):
        table.upsert(pa.table({"id": [1], "b": ["lost"]}))


def test_all_rows_of_a_key_are_folded() -> None:
    table = made({"bucket": "1", "merge-engine": "partial-update"}, defaults={"p": "7"})
    table.upsert(pa.table({"id": [1, 1, 4, 4], "a": [10, None, None, 40], "b": [None, "new", "w", None]}))
    assert seen(table) == [(1, 10, "new", 1), (2, 2, "y", 1), (3, 3, "z", 2), (4, 40, "w", 7)]


# ---- other ways in, and what is refused ------------------------------------------------------------------------------


def test_an_update_type_limits_what_rows_that_are_there_get() -> None:
    for engine in ("deduplicate", "partial-update"):
        table = made({"bucket": "1", "merge-engine": engine})
        builder = table.new_batch_write_builder()
        update = builder.new_update().with_update_type(["a"])
        data = pa.table({"id": [1, 4], "a": [10, 40], "b": ["-", "w"], "p": [9, 9]})
        builder.new_commit().commit(update.upsert_by_arrow_with_key(data, ["id"]))
        assert [seen(table)[0], seen(table)[-1]] == [(1, 10, "x", 1), (4, 40, "w", 9)], engine


def test_parts_with_different_columns_are_refused() -> None:
    whole, part = pa.table(ROWS), pa.table({"id": [1], "a": [10]})
    for data in ([whole, part], [part, whole]):
        table = made({"bucket": "1"})
        for run in (lambda t, d: t.upsert(d), lambda t, d: lw.write_table(d, t, mode="upsert")):
            with pytest.raises(lw.InvalidInputError, match="some parts of the data have the column"):
                run(table, data)
        assert table.store.snapshots.latest_id() == 1


def test_bad_data_is_refused_before_anything_is_written() -> None:
    table = made({"bucket": "1", "primary-key.nullable": "true"}, fields=(("id", "BIGINT"), *FIELDS[1:]))
    bad: list[tuple[pa.Table, str]] = [
        (pa.table({"id": [1], "nope": [1]}), "no column 'nope'"),
        (pa.table({"a": [1]}), "no column 'id'"),
        (pa.table({"id": [1], "a": ["text"]}), "'a'"),
        (pa.table({"id": [1, None], "a": [1, 2]}), "key column 'id' is null"),
    ]
    for data, message in bad:
        with pytest.raises((lw.InvalidInputError, ColumnNotExistException), match=message):
            table.upsert(data)
    assert table.store.snapshots.latest_id() == 1


def test_merged_schemas_keep_what_the_data_lacks() -> None:
    table = made({"bucket": "1"})
    lw.write_table(pa.table({"id": [1], "new": [5]}), table, mode="upsert", schema_mode="merge")
    table = replace(table, store=table.store.with_schema(table.store.schemas.get(1)))
    assert seen(table)[0] == (1, 1, "x", 1, 5)


def test_a_job_upserts_a_part_of_its_rows_once() -> None:
    table = made({"bucket": "1"})
    data = pa.table({"id": [1, 4], "a": [10, 40]})
    first = lw.write_table(data, table, mode="upsert", job_id="monday")
    table.update({"a": 0})
    again = lw.write_table(data, table, mode="upsert", job_id="monday")
    assert (again.snapshot_id, again.rows, again.replayed, first.replayed) == (first.snapshot_id, 2, True, False)
    assert seen(table)[0] == (1, 0, "x", 1)


def test_of_two_runs_of_a_job_at_once_one_counts() -> None:
    table = made({"bucket": "1"})
    data = pa.table({"id": [1, 4], "a": [10, 40]})
    calls: list[CommitResult] = []

    def overtake() -> None:
        calls.append(lw.write_table(data, table, mode="upsert", job_id="monday"))

    files = FaultyStorage(table.store.storage)
    lw.write_table(data, replace(table, store=replace(table.store, storage=files)), mode="upsert", job_id="x")
    stop = next(n for n, c in enumerate(files.calls, 1) if c.verb == "create" and "/snapshot/snapshot-" in c.path)
    slow = FaultyStorage(table.store.storage, [Fault(stop, FaultKind.SLOW)], pause=overtake)
    done = lw.write_table(
        data, replace(table, store=replace(table.store, storage=slow)), mode="upsert", job_id="monday"
    )
    assert (done.snapshot_id, done.replayed, calls[0].replayed) == (calls[0].snapshot_id, True, False)
    assert seen(table)[0] == (1, 10, "x", 1)
