"""Tables of every merge engine and option with seeded random commits, and what a batch read of them must show.

A commit is a list of changes `(kind, {column: value})` in the order of arrival. The answer is computed row by row: each
commit is folded as a write buffer folds it, and then the commits of a key are folded once more.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cmp_to_key
from typing import Any, TypeAlias

import pyarrow as pa

from lakewright.spec.arrow_types import to_arrow_type
from lakewright.spec.schema import Schema, new_table_schema
from lakewright.spec.table_schema import TableSchema
from lakewright.spec.types import ArrayType, AtomicType, DataField, DataType, MapType, RowType
from support.engine_reference import RETRACTS, Row, fold
from support.merging import compare, first_difference

Thing: TypeAlias = Any  # a value of a column
Change: TypeAlias = tuple[str, dict[str, Thing]]
Draw: TypeAlias = Callable[[random.Random], Thing]

ADDS = ("+I", "+I", "+U")
ALL = ("+I", "+I", "+I", "+U", "-U", "-D")
DELETES = ("+I", "+I", "+I", "+U", "-D")

KINDS_OF = {"adds": ADDS, "retracts": ALL}

ITEM = RowType(
    nullable=True,
    fields=[DataField(n, name, AtomicType("INT" if name == "i" else "STRING")) for n, name in enumerate("ixs")],
)


def _text(chance: random.Random) -> str:
    return chance.choice(["a", "b", "c", "d", "é", "a longer piece of text"])


def _item(chance: random.Random, number: int = 1) -> dict[str, Thing]:
    return {"i": number, "x": chance.choice(["p", "q"]), "s": chance.choice(["1", "2", "3"])}


def _items(chance: random.Random) -> list[dict[str, Thing]]:
    """Return rows of different keys: what becomes of two rows of one key in one value is said nowhere."""
    return [_item(chance, number) for number in chance.sample([1, 2, 3], chance.randint(0, 3))]


def _pairs(draw: Draw) -> Draw:
    return lambda chance: [(key, draw(chance)) for key in chance.sample("xyz", chance.randint(0, 3))]


TYPES: dict[str, tuple[DataType, Draw]] = {
    "int": (AtomicType("INT"), lambda chance: chance.randint(-9, 9)),
    "digit": (AtomicType("BIGINT"), lambda chance: chance.randint(-3, 3)),
    "tiny": (AtomicType("TINYINT"), lambda chance: chance.randint(-2, 2)),
    "long": (AtomicType("BIGINT"), lambda chance: chance.randint(-(2**40), 2**40)),
    "double": (AtomicType("DOUBLE"), lambda chance: chance.choice([0.5, -0.25, 2.0, 8.0, 1024.0])),
    "decimal": (AtomicType("DECIMAL(20, 2)"), lambda chance: Decimal(chance.randint(-999, 999)).scaleb(-2)),
    "text": (AtomicType("STRING"), _text),
    "parts": (AtomicType("STRING"), lambda chance: chance.choice(["a", "b", "a,b", "b,c", "d"])),
    "blanks": (AtomicType("STRING"), lambda chance: chance.choice(["", "", "a", "b"])),
    "flag": (AtomicType("BOOLEAN"), lambda chance: chance.random() < 0.5),
    "list": (
        ArrayType(True, AtomicType("INT")),  # noqa: FBT003
        lambda chance: [chance.randint(1, 4) for _ in range(chance.randint(0, 3))],
    ),
    "map": (MapType(True, AtomicType("STRING"), AtomicType("INT")), _pairs(lambda chance: chance.randint(1, 9))),  # noqa: FBT003
    "rows": (ArrayType(True, ITEM), _items),  # noqa: FBT003
    "row_map": (MapType(True, AtomicType("STRING"), ITEM), _pairs(_item)),  # noqa: FBT003
}
UNORDERED = {"collect", "nested_update", "nested_partial_update"}  # the order of their elements has no meaning


@dataclass(frozen=True, slots=True)
class Case:
    """A table and the kinds of rows it gets."""

    name: str
    columns: Mapping[str, str]  # names of `TYPES`
    options: Mapping[str, str] = field(default_factory=dict)
    kinds: tuple[str, ...] = ADDS
    nulls: float = 0.2

    def __str__(self) -> str:
        return self.name

    @property
    def schema(self) -> Schema:
        """The table, of two buckets, which nothing compacts unless asked to."""
        fields = [DataField(0, "k", AtomicType("BIGINT"))]
        number = 1
        for name, kind in self.columns.items():
            fields.append(DataField(number, name, _moved(TYPES[kind][0], number + 1)))
            number += 10
        options = {"bucket": "2", "write-only": "true", **self.options}
        return Schema(fields, primary_keys=["k"], options=options)

    @property
    def python(self) -> bool:
        """Whether pypaimon 2.1.0 reads such a table right.

        It refuses retracts and options that it does not know, fails on maps, and folds keys that have one row only,
        which shows where values are to be distinct.
        """
        if self.options.get("merge-engine") is None:
            return True
        refused = ("sequence-group", "on-delete", "ignore-delete", "ignore-retract", "ts-field", "distinct")
        broken = {"merge_map", "first_not_null_value"} & set(self.options.values())
        return self.kinds is ADDS and not broken and not any(key.endswith(refused) for key in self.options)

    @property
    def unordered(self) -> list[int]:
        """The places of columns whose arrays have no order."""
        functions = (self.options.get(f"fields.{name}.aggregate-function") for name in self.columns)
        return [at for at, function in enumerate(functions, 1) if function in UNORDERED]

    def commits(self, seed: int = 1, count: int = 3, size: int = 40) -> list[list[Change]]:
        """Return commits of random changes to a few keys."""
        chance = random.Random(f"{self.name} {seed}")
        return [[self._change(chance) for _ in range(size)] for _ in range(count)]

    def _change(self, chance: random.Random) -> Change:
        values: dict[str, Thing] = {"k": chance.randint(0, 29)}
        for name, kind in self.columns.items():
            values[name] = None if chance.random() < self.nulls else TYPES[kind][1](chance)
        return chance.choice(self.kinds), values


def _moved(dtype: DataType, first: int) -> DataType:
    """Return a type whose inner fields have ids of their own."""
    match dtype:
        case RowType(fields=fields):
            return RowType(True, [DataField(first + n, f.name, f.type) for n, f in enumerate(fields)])  # noqa: FBT003
        case ArrayType(element=element):
            return ArrayType(True, _moved(element, first))  # noqa: FBT003
        case MapType(key=key, value=value):
            return MapType(True, key, _moved(value, first))  # noqa: FBT003
        case _:
            return dtype


def table_of(rows: Sequence[Mapping[str, Thing]], fields: Sequence[DataField]) -> pa.Table:
    """Return rows as an Arrow table."""
    return pa.table({f.name: pa.array([row[f.name] for row in rows], to_arrow_type(f.type)) for f in fields})


def answer(
    wish: Schema, commits: Sequence[Sequence[Change]], *, merged: Collection[int] | None = None
) -> list[dict[str, Thing]]:
    """Return the rows that a batch read shows after these commits.

    `merged` are the commits whose writer merges the rows of a key without the older ones, which loses what some
    retracts say: all of them, unless they are named. Rows of other commits are stored as this library stores them.
    """
    schema = new_table_schema(wish, time_millis=0)
    number, runs = 0, []
    for index, commit in enumerate(commits):
        rows: list[Row] = []
        for kind, values in commit:
            if not _is_dropped(schema, kind):
                rows.append((kind, number, values))
            number += 1
        runs += _folded(schema, rows) if merged is None or index in merged else _stored(schema, rows)
    return [values for kind, _, values in _folded(schema, runs) if kind not in RETRACTS]


def _stored(schema: TableSchema, rows: Sequence[Row]) -> list[Row]:
    """Return the rows of a commit of this library, of which those that retract are not merged with others."""
    keys: dict[Thing, list[Row]] = {}
    for row in rows:
        keys.setdefault(row[2]["k"], []).append(row)
    out: list[Row] = []
    for group in keys.values():
        if schema.options.get("partial-update.remove-record-on-delete") == "true":
            out += [_cleared(schema, row) for row in group if row[0] != "-U"]  # which does nothing
        elif any(key.endswith(".sequence-group") for key in schema.options):
            # Rows that add are merged. Functions that look at the order give something else for each of several late
            # rows than for their merged row, which is late as a whole.
            for retracts, rows_of_kind in itertools.groupby(group, key=lambda row: row[0] in RETRACTS):
                some = list(rows_of_kind)
                out += [_cleared(schema, row) for row in some] if retracts else _folded(schema, some)
        elif schema.options.get("merge-engine") == "aggregation" and not _removes(schema) and _all_retract(group):
            # One row, which takes back all that they do: a record that is not there does not become visible.
            _, number, values = fold(schema, [("+I", number, values) for _, number, values in group])
            out.append(("-U", number, values))
        else:
            out += [_cleared(schema, row) for row in group]
    return out


def _all_retract(rows: Sequence[Row]) -> bool:
    return all(kind in RETRACTS for kind, *_ in rows)


def _removes(schema: TableSchema) -> bool:
    return any("remove-record-on" in key for key in schema.options)


def _cleared(schema: TableSchema, row: Row) -> Row:
    """Return a row as this library writes it: one that removes a record has no values that later rows would keep."""
    kind, number, values = row
    if kind != "-D" or not _removes(schema):
        return row
    groups = [key.split(".")[1] for key in schema.options if key.endswith(".sequence-group")]
    kept = {*schema.primary_keys, *schema.options.get("sequence.field", "").split(","), *",".join(groups).split(",")}
    return kind, number, {name: value if name in kept else None for name, value in values.items()}


def _is_dropped(schema: TableSchema, kind: str) -> bool:
    options = schema.options
    if options.get("ignore-delete") == "true" and kind in RETRACTS:
        return True
    return options.get("ignore-update-before") == "true" and kind == "-U"


def _folded(schema: TableSchema, rows: Sequence[Row]) -> list[Row]:
    """Return one row per key."""
    sequence = [name for name in schema.options.get("sequence.field", "").split(",") if name]
    descending = schema.options.get("sequence.field.sort-order") == "descending"

    def ages(one: Row, other: Row) -> int:
        signs = [compare(one[2][name], other[2][name], descending=descending) for name in sequence]
        return first_difference([*signs, compare(one[1], other[1])])

    keys: dict[Thing, list[Row]] = {}
    for row in rows:
        keys.setdefault(tuple(row[2][name] for name in schema.primary_keys), []).append(row)
    return [_one(schema, sorted(group, key=cmp_to_key(ages))) for group in keys.values()]


def _one(schema: TableSchema, group: Sequence[Row]) -> Row:
    match schema.options.get("merge-engine", "deduplicate"):
        case "deduplicate":
            return group[-1]
        case "first-row":
            return group[0]
        case _:
            return fold(schema, group)


PLAIN = {"a": "int", "b": "text", "c": "decimal"}
SEQUENCED = {"s": "tiny", "t": "text", **PLAIN}
GROUPED = {"g": "tiny", "a": "int", "b": "text", "h": "tiny", "i": "text", "c": "int", "free": "text"}
GROUPS = {"merge-engine": "partial-update", "fields.g.sequence-group": "a,b", "fields.h,i.sequence-group": "c"}
DESCENDING = {"sequence.field.sort-order": "descending"}

DEDUPLICATE = [
    Case("deduplicate", PLAIN, kinds=ALL),
    Case("deduplicate ignore-delete", PLAIN, {"ignore-delete": "true"}, ALL),
    Case("deduplicate ignore-update-before", PLAIN, {"ignore-update-before": "true"}, ALL),
    Case("deduplicate sequence", SEQUENCED, {"sequence.field": "s"}, ALL),
    Case("deduplicate sequence descending", SEQUENCED, {"sequence.field": "s", **DESCENDING}, ALL),
    Case("deduplicate two sequences", SEQUENCED, {"sequence.field": "s,t"}, ALL),
    Case("deduplicate two sequences descending", SEQUENCED, {"sequence.field": "t,s", **DESCENDING}, ALL),
    Case("deduplicate sequence ignore-delete", SEQUENCED, {"sequence.field": "s", "ignore-delete": "true"}, ALL),
]

PARTIAL = {"merge-engine": "partial-update"}
PARTIAL_UPDATE = [
    Case("partial-update", PLAIN, PARTIAL, nulls=0.5),
    Case("partial-update sequence", SEQUENCED, {**PARTIAL, "sequence.field": "s"}, nulls=0.4),
    Case("partial-update sequence descending", SEQUENCED, {**PARTIAL, "sequence.field": "s", **DESCENDING}, nulls=0.4),
    Case("partial-update ignore-delete", PLAIN, {**PARTIAL, "ignore-delete": "true"}, ALL, 0.5),
    Case("partial-update remove", PLAIN, {**PARTIAL, "partial-update.remove-record-on-delete": "true"}, ALL, 0.4),
    Case("partial-update groups", GROUPED, GROUPS, nulls=0.3),
    Case("partial-update groups retract", GROUPED, GROUPS, ALL, 0.3),
    Case("partial-update groups ignore-delete", GROUPED, {**GROUPS, "ignore-delete": "true"}, ALL, 0.3),
    Case(
        "partial-update groups remove",
        GROUPED,
        {**GROUPS, "partial-update.remove-record-on-sequence-group": "g"},
        ALL,
        0.3,
    ),
    Case(
        "partial-update groups remove by the second",
        GROUPED,
        {**GROUPS, "partial-update.remove-record-on-sequence-group": "h,i"},
        ALL,
        0.3,
    ),
]


# What aggregates a column: the function, the type of the column, further options of the column.
Aggregate: TypeAlias = tuple[str, str] | tuple[str, str, dict[str, str]]


def _aggregated(aggregates: Sequence[Aggregate]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the columns, and the options that aggregate them."""
    columns: dict[str, str] = {}
    options: dict[str, str] = {}
    for number, (function, kind, *more) in enumerate(aggregates):
        name = f"a{number}"
        columns[name] = kind
        stored = {"aggregate-function": function, **(more[0] if more else {})}
        options |= {f"fields.{name}.{what}": value for what, value in stored.items()}
    return columns, options


def _in_group(name: str, kinds: tuple[str, ...], *aggregates: Aggregate) -> Case:
    """Return a table with one sequence group of these columns and a plain one."""
    columns, options = _aggregated(aggregates)
    group = {"fields.g.sequence-group": ",".join([*columns, "b"])}
    return Case(f"group of {name}", {"g": "tiny", **columns, "b": "text"}, {**PARTIAL, **group, **options}, kinds)


def _aggregation(name: str, kinds: tuple[str, ...], *aggregates: Aggregate, **more: str) -> Case:
    """Return an aggregation table with these columns, and one that names no function."""
    columns, options = _aggregated(aggregates)
    stored = {key.replace("_", "-").replace("--", "."): value for key, value in more.items()}
    return Case(name, {**columns, "b": "text"}, {"merge-engine": "aggregation", **options, **stored}, kinds)


DISTINCT = {"distinct": "true"}
IGNORE = {"ignore-retract": "true"}
KEYED = {"nested-key": "i"}
BY_TIME = {"nested-key": "i,x", "nested-sequence-field": "s"}
NUMBERS = ("int", "long", "double", "decimal")

IN_GROUPS = [
    _in_group(
        "numbers", ADDS, ("sum", "int"), ("sum", "decimal"), ("product", "double"), ("max", "text"), ("min", "int")
    ),
    _in_group("last values", ADDS, ("last_value", "int"), ("last_non_null_value", "text"), ("first_value", "text")),
    _in_group(
        "flags and lists", ADDS, ("bool_and", "flag"), ("bool_or", "flag"), ("listagg", "text"), ("collect", "list")
    ),
    _in_group(
        "nested values",
        ADDS,
        ("collect", "list", DISTINCT),
        ("merge_map", "map"),
        ("nested_update", "rows"),
        ("nested_update", "rows", KEYED),
    ),
    _in_group(
        "retracted values",
        ALL,
        ("sum", "decimal"),
        ("last_value", "int"),
        ("last_non_null_value", "text"),
        ("collect", "list"),
        ("merge_map", "map"),
        ("max", "int", IGNORE),
    ),
]
# Where pypaimon-rust 0.4.0 is wrong by the words of the format: a late null wipes the first non-null value, and a blank
# that meets a blank or a null becomes null.
RUST_DIFFERS = [
    _in_group("first_non_null_value", ADDS, ("first_non_null_value", "int")),
    _in_group("blanks", ADDS, ("listagg", "blanks")),
    _in_group("blanks distinct", ADDS, ("listagg", "blanks", DISTINCT)),
    _aggregation("blanks", ADDS, ("listagg", "blanks"), ("listagg", "blanks", DISTINCT)),
]

AGGREGATION = [
    *(_aggregation(f"sum of {name}", kinds, *(("sum", kind) for kind in NUMBERS)) for name, kinds in KINDS_OF.items()),
    _aggregation("product", ADDS, ("product", "digit"), ("product", "double")),
    _aggregation("product retract", ALL, ("product", "double")),
    _aggregation("min", ADDS, *(("min", kind) for kind in (*NUMBERS, "text"))),
    _aggregation("max", ADDS, *(("max", kind) for kind in (*NUMBERS, "text"))),
    _aggregation("last_value", ALL, ("last_value", "int"), ("last_value", "list")),
    _aggregation("last_non_null_value", ALL, ("last_non_null_value", "int"), ("last_non_null_value", "map")),
    _aggregation("first_value", ADDS, ("first_value", "int"), ("first_value", "text")),
    _aggregation("first_non_null_value", ADDS, ("first_non_null_value", "int"), ("first_non_null_value", "text")),
    _aggregation("first_not_null_value", ADDS, ("first_not_null_value", "int")),
    _aggregation(
        "listagg",
        ADDS,
        ("listagg", "text"),
        ("listagg", "parts"),
        ("listagg", "text", {"list-agg-delimiter": "; "}),
        ("listagg", "parts", DISTINCT),
    ),
    _aggregation("flags", ADDS, ("bool_and", "flag"), ("bool_or", "flag")),
    *(
        _aggregation(f"collect of {name}", kinds, ("collect", "list"), ("collect", "list", DISTINCT))
        for name, kinds in KINDS_OF.items()
    ),
    *(_aggregation(f"merge_map of {name}", kinds, ("merge_map", "map")) for name, kinds in KINDS_OF.items()),
    _aggregation("merge_map_with_keytime", ADDS, ("merge_map_with_keytime", "row_map", {"ts-field": "s"})),
    *(
        _aggregation(f"nested_update of {name}", kinds, ("nested_update", "rows"), ("nested_update", "rows", KEYED))
        for name, kinds in KINDS_OF.items()
    ),
    _aggregation(
        "nested options",
        ADDS,
        ("nested_update", "rows", BY_TIME),
        ("nested_update", "rows", {"count-limit": "4"}),
        ("nested_partial_update", "rows", KEYED),
    ),
    _aggregation(
        "ignore-retract",
        ALL,
        ("max", "int", IGNORE),
        ("first_value", "int", IGNORE),
        ("listagg", "text", IGNORE),
        ("bool_or", "flag", IGNORE),
        ("sum", "int", IGNORE),
        ("collect", "list", IGNORE),
    ),
    _aggregation(
        "aggregation remove", DELETES, ("sum", "int"), ("max", "int"), aggregation__remove_record_on_delete="true"
    ),
    Case(
        "aggregation by sequence",
        {"s": "tiny", "a": "int", "b": "text"},
        {
            "merge-engine": "aggregation",
            "sequence.field": "s",
            "fields.a.aggregate-function": "sum",
            "fields.b.aggregate-function": "first_value",
        },
    ),
    Case(
        "aggregation by default",
        {"a": "int", "b": "long", "c": "int"},
        {
            "merge-engine": "aggregation",
            "fields.default-aggregate-function": "sum",
            "fields.c.aggregate-function": "max",
        },
    ),
]

FIRST_ROW = [
    Case("first-row", PLAIN, {"merge-engine": "first-row"}),
    Case("first-row ignore-delete", PLAIN, {"merge-engine": "first-row", "ignore-delete": "true"}, ALL),
]
