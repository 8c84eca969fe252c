"""What a read returns does not depend on how rows were grouped into writes, buffers and compactions."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pytest

import lakewright as lw
from contract.fault_enumerator import OPTIONS
from contract.faulty_storage import MemoryStorage
from support.effort import examples

Row: TypeAlias = tuple[str, dict[str, Any]]  # the kind and the values

NUMBERS = itertools.count()
ITEM = pa.struct([("i", pa.int32()), ("x", pa.string())])
TYPES: dict[str, pa.DataType] = {
    "int": pa.int32(),
    "text": pa.string(),
    "flag": pa.bool_(),
    "list": pa.list_(pa.int32()),
    "map": pa.map_(pa.string(), pa.int32()),
    "items": pa.list_(ITEM),
    "item_map": pa.map_(pa.string(), ITEM),
}
FUNCTIONS = {
    "sum": "int",
    "product": "int",
    "max": "int",
    "min": "text",
    "last_value": "int",
    "last_non_null_value": "text",
    "first_value": "int",
    "first_non_null_value": "text",
    "listagg": "text",
    "bool_and": "flag",
    "bool_or": "flag",
    "collect": "list",
    "merge_map": "map",
    "merge_map_with_keytime": "item_map",
    "nested_update": "items",
    "nested_partial_update": "items",
}
ORDERED = {"last_non_null_value", "merge_map"}  # functions of sequence groups for which the order of late rows matters
RETRACTABLE = ("sum", "product", "last_value", "last_non_null_value", "collect", "merge_map", "nested_update")


def _columns(function: str) -> dict[str, str]:
    return {"fields.a.aggregate-function": function, "fields.a.nested-key": "i"}


# The type of the column `a`, the options of the table, and the kinds of rows that it takes.
TABLES: dict[str, tuple[str, dict[str, str], str]] = {
    "deduplicate": ("int", {}, "+-"),
    "deduplicate-sequence": ("int", {"sequence.field": "s"}, "+-"),
    "deduplicate-ignore-delete": ("int", {"ignore-delete": "true"}, "+u-"),
    "first-row": ("int", {"merge-engine": "first-row"}, "+"),
    "first-row-ignore-delete": ("int", {"merge-engine": "first-row", "ignore-delete": "true"}, "+u-"),
}
for function, kind in FUNCTIONS.items():
    aggregation = {"merge-engine": "aggregation", **_columns(function)}
    TABLES[function] = (kind, aggregation, "+u-" if function in RETRACTABLE else "+")
    TABLES[f"{function}-ignore-retract"] = (kind, {**aggregation, "fields.a.ignore-retract": "true"}, "+u-")
    if function == "first_value":
        continue  # refused with the next option
    remove = {**aggregation, "aggregation.remove-record-on-delete": "true"}
    TABLES[f"{function}-remove"] = (kind, remove, "+u-" if function in RETRACTABLE else "+-")
for function in ("collect", "listagg"):
    TABLES[f"{function}-distinct"] = (
        FUNCTIONS[function],
        {"merge-engine": "aggregation", "fields.a.distinct": "true", **_columns(function)},
        "+u-" if function == "collect" else "+",
    )
TABLES["nested_update-whole"] = (
    "items",
    {"merge-engine": "aggregation", "fields.a.aggregate-function": "nested_update"},
    "+u-",
)
TABLES["aggregation-sequence"] = (
    "int",
    {"merge-engine": "aggregation", "sequence.field": "s", **_columns("sum")},
    "+u-",
)
PARTIAL = {"merge-engine": "partial-update"}
GROUP = {**PARTIAL, "fields.s.sequence-group": "a"}
TABLES |= {
    "partial-update": ("int", PARTIAL, "+"),
    "partial-update-ignore-delete": ("int", {**PARTIAL, "ignore-delete": "true"}, "+u-"),
    "partial-update-remove": ("int", {**PARTIAL, "partial-update.remove-record-on-delete": "true"}, "+u-"),
    "sequence-group": ("int", GROUP, "+u-"),
    "sequence-group-remove": ("int", {**GROUP, "partial-update.remove-record-on-sequence-group": "s"}, "+u-"),
    "sequence-group-ignore-delete": ("int", {**GROUP, "ignore-delete": "true"}, "+u-"),
}
for function in ("sum", "last_non_null_value", "collect", "merge_map"):
    TABLES[f"sequence-group-{function}"] = (FUNCTIONS[function], {**GROUP, **_columns(function)}, "+u-")
    TABLES[f"sequence-group-{function}-remove"] = (
        FUNCTIONS[function],
        {**GROUP, **_columns(function), "partial-update.remove-record-on-sequence-group": "s"},
        "+u-",
    )
WAYS: dict[str, dict[str, str]] = {
    "plain": {},
    "few-runs": {"num-sorted-run.compaction-trigger": "2"},
    "large-levels": {
        "num-sorted-run.compaction-trigger": "3",
        "compaction.max-size-amplification-percent": "100000",
    },
    "small-buffer": {"write-buffer-size": "1 b", "write-buffer-spillable": "false"},
    "spilled": {"write-buffer-size": "1 b"},
    "vectors": {"deletion-vectors.enabled": "true"},
    "lookup": {"changelog-producer": "lookup"},
    "full-changelog": {"changelog-producer": "full-compaction"},
    "input-changelog": {"changelog-producer": "input"},
}


def value_of(kind: str, dice: random.Random) -> object:
    if dice.random() < 0.25:
        return None
    number = dice.randrange(1, 4)
    match kind:
        case "int":
            return number
        case "text":
            return "xyz"[number - 1]
        case "flag":
            return number == 1
        case "list":
            return [dice.randrange(3) for _ in range(number)]
        case "map":
            return [(text, number) for text in dice.sample("xyz", number)]
        case "items":
            return [{"i": i, "x": dice.choice(["p", "q"])} for i in dice.sample(range(3), number)]
        case _:
            return [(text, {"i": number, "x": str(dice.randrange(9))}) for text in dice.sample("xyz", number)]


def history(kind: str, kinds: str, options: dict[str, str], seed: int) -> list[Row]:
    """Return rows of few keys; a key that has no row gets one that adds before any that retracts."""
    dice = random.Random(seed)
    last: dict[int, dict[str, Any]] = {}
    rows: list[Row] = []
    for number in range(14):
        key = dice.randrange(2)
        # A compaction forgets removed records, after which an older row would bring them back.
        late = "-" not in kinds or ("sequence-group" in str(options) and "remove" not in str(options))
        # Several late rows are in another order than their merged row for functions that look at the order.
        late = late and not ("sequence-group" in str(options) and ORDERED.intersection(options.values()))
        sequence = dice.choice([None, dice.randrange(6)]) if late else number
        values = {"k": key, "a": value_of(kind, dice), "b": dice.choice([None, 1, 2]), "s": sequence}
        row_kind = {"+": dice.choice(["+I", "+U"]), "u": "-U", "-": "-D"}[dice.choice("++" + kinds)]
        if row_kind in {"-U", "-D"}:
            if key not in last:
                continue
            if "sequence-group" in str(options) and row_kind == "-D":
                # What a function has made of a group goes on from the value in the row that removes the record.
                values = {**values, "a": None}
            elif dice.random() < 0.5:  # as a database tells it, with the values of the old row
                values = {**last[key], "s": sequence}
        if row_kind == "-D":
            last.pop(key)
        elif row_kind != "-U":
            last[key] = values
        rows.append((row_kind, values))
    return rows


def new_table(kind: str, options: dict[str, str]) -> lw.FileStoreTable:
    storage = MemoryStorage(f"grouping-{next(NUMBERS)}")
    catalog = lw.FileSystemCatalog(storage, f"{storage.root}/warehouse", OPTIONS)
    catalog.create_database("d")
    columns = pa.schema([("k", pa.int32()), ("a", TYPES[kind]), ("b", pa.int32()), ("s", pa.int32())])
    known = {key: value for key, value in options.items() if key != "fields.a.nested-key" or "nested" in str(options)}
    whole = {"bucket": "1", **known}
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(columns, primary_keys=["k"], options=whole))
    return catalog.get_table("d.t")


def write(table: lw.FileStoreTable, rows: Sequence[Row]) -> None:
    data = pa.Table.from_pylist([values for _, values in rows], schema=lw.read_table(table).schema)
    builder = table.new_batch_write_builder()
    with builder.new_write() as writer, builder.new_commit() as commit:
        writer.write_arrow(data, row_kinds=[kind for kind, _ in rows])
        commit.commit(writer.prepare_commit())


def content(table: lw.FileStoreTable) -> list[str]:
    rows = lw.read_table(table).to_pylist()
    return sorted(str({name: _sorted(value) for name, value in row.items()}) for row in rows)


def _sorted(value: object) -> object:
    return sorted(value, key=str) if isinstance(value, list) else value


def cuts(rows: Sequence[Row], dice: random.Random) -> list[Sequence[Row]]:
    """Return the rows in groups, in their order."""
    at = sorted(dice.sample(range(1, len(rows)), min(len(rows) - 1, dice.randrange(5))))
    return [rows[start:end] for start, end in itertools.pairwise([0, *at, len(rows)])]


@pytest.mark.parametrize("name", TABLES)
def test_a_read_does_not_depend_on_the_grouping_of_rows(name: str) -> None:
    kind, options, kinds = TABLES[name]
    first_row = options.get("merge-engine") == "first-row"
    for seed in range(examples(20)):
        rows = history(kind, kinds, options, seed)
        single = new_table(kind, {**options, "write-only": str(not first_row)})  # only compactions show first rows
        for row in rows:
            write(single, [row])
        dice = random.Random(seed)
        for way in dice.sample(sorted(WAYS), 2):
            if not (first_row and {"deletion-vectors.enabled", "changelog-producer"}.intersection(WAYS[way])):
                check_grouping(name, rows, way, content(single), dice)


def check_grouping(name: str, rows: list[Row], way: str, expected: list[str], dice: random.Random) -> None:
    kind, options, _ = TABLES[name]
    table = new_table(kind, {**options, **WAYS[way]})
    steps: list[str] = []
    for group in [rows] if dice.random() < 0.3 else cuts(rows, dice):
        write(table, group)
        steps.append(str(group))
        if dice.random() < 0.3:
            full = dice.random() < 0.5
            table.compact(full=full)
            steps.append(f"compact(full={full})")
    assert content(table) == expected, (name, way, steps)


def test_a_commit_makes_two_runs_at_most_of_the_retracts_of_an_aggregation() -> None:
    table = new_table("list", {"merge-engine": "aggregation", **_columns("collect"), "write-only": "true"})
    rows = [("+I" if n % 2 else "-U", {"k": 1, "a": [n % 5], "b": n, "s": n}) for n in range(40)]
    write(table, rows)
    plan = table.new_read_builder().new_scan().plan()
    assert sum(len(split.files) for split in plan.splits()) == 2


def test_first_value_is_refused_where_deletes_remove_the_record() -> None:
    options = {"merge-engine": "aggregation", "aggregation.remove-record-on-delete": "true", **_columns("first_value")}
    with pytest.raises(lw.InvalidInputError, match="first_non_null_value"):
        new_table("int", options)


@pytest.mark.parametrize("history", ["+-u", "+u-u", "+-uu", "u", "uu"])
def test_an_update_of_a_record_that_is_not_there_does_nothing(history: str) -> None:
    kind, options, _ = TABLES["partial-update-remove"]
    kinds = {"+": "+I", "u": "-U", "-": "-D"}
    rows: list[Row] = [(kinds[c], {"k": 1, "a": n, "b": n, "s": n}) for n, c in enumerate(history)]
    for groups in ([rows], [[row] for row in rows], [rows[:2], rows[2:]]):
        table = new_table(kind, {**options, "write-only": "true"})
        for group in groups:
            write(table, group)
        assert content(table) == []
        write(table, [("+I", {"k": 1, "a": None, "b": 7, "s": None})])
        assert content(table) == [str({"k": 1, "a": None, "b": 7, "s": None})]


@pytest.mark.parametrize("function", ["first_value", "last_value"])
def test_several_retracts_that_a_column_ignores_do_not_set_it_to_null(function: str) -> None:
    kind, options, _ = TABLES[f"{function}-ignore-retract"]
    adds: list[Row] = [("+I", {"k": 1, "a": 5, "b": 1, "s": 0})]
    retracts: list[Row] = [("-U", {"k": 1, "a": 5, "b": 1, "s": n}) for n in (1, 2)]
    for groups in ([adds, retracts], [retracts, adds]):
        table = new_table(kind, {**options, "fields.b.ignore-retract": "true", "write-only": "true"})
        for group in groups:
            write(table, group)
        assert [row["a"] for row in lw.read_table(table).to_pylist()] == [5]


@pytest.mark.parametrize("ignored", [False, True])
def test_a_late_delete_is_refused_at_the_write_where_a_function_cannot_take_it_back(*, ignored: bool) -> None:
    options = {**GROUP, **_columns("max"), "partial-update.remove-record-on-sequence-group": "s"}
    table = new_table("int", {**options, "fields.a.ignore-retract": str(ignored).lower(), "write-only": "true"})
    write(table, [("+I", {"k": 1, "a": 3, "b": 1, "s": 5})])
    late: list[Row] = [("-D", {"k": 1, "a": None, "b": None, "s": 4})]
    if ignored:
        write(table, late)
    else:
        with pytest.raises(lw.InvalidInputError, match="ignore-retract"):
            write(table, late)
    assert content(table) == [str({"k": 1, "a": 3, "b": 1, "s": 5})]
    if ignored:
        write(table, [("-D", {"k": 1, "a": None, "b": None, "s": 6})])
        assert content(table) == []
