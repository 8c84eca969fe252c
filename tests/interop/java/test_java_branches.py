"""Tables with a fallback or primary branch that Java wrote: Java and we read the same rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.errors import InvalidInputError, NotFoundError
from support.java import Java, JavaError

COLUMNS = pa.schema({"p": pa.string(), "k": pa.int32(), "v": pa.string()})
CHANGES = pa.schema({"kind": pa.string()}).append(COLUMNS.field(0)).append(COLUMNS.field(1)).append(COLUMNS.field(2))
FALLBACK, PRIMARY = "scan.fallback-branch", "scan.primary-branch"


@pytest.fixture(scope="module")
def java() -> Iterator[Java]:
    started = Java()
    yield started
    started.close()


@dataclass(slots=True)
class JavaTable:
    """The table `d.t` with a branch `b`: Java makes the branch, sets the options and writes the rows."""

    java: Java
    catalog: lw.Catalog
    sources: Iterator[int] = field(default_factory=count)

    @property
    def warehouse(self) -> Path:
        return Path(self.catalog.warehouse)

    def create(
        self, keys: Sequence[str] = (), options: Mapping[str, str] | None = None, partitions: Sequence[str] = ("p",)
    ) -> None:
        schema = lw.Schema.from_pyarrow_schema(
            COLUMNS, partition_keys=partitions, primary_keys=keys, options=options or {}
        )
        self.catalog.create_table("d.t", schema)
        self.java.branch(self.warehouse, "d.t", "b")

    def set(self, options: Mapping[str, str], branch: str = "") -> None:
        self.java.set(self.warehouse, f"d.t{branch}", options)

    def apply(self, text: str, branch: str = "", **options: str) -> None:
        """Write changes such as `+I x 1 a, -D x 2 b`."""
        rows = [dict(zip(CHANGES.names, words.split(), strict=True)) for words in text.split(",")]
        source = f"d.s{next(self.sources)}"
        self.catalog.create_table(source, lw.Schema.from_pyarrow_schema(CHANGES))
        table = pa.Table.from_pylist([row | {"k": int(row["k"])} for row in rows], schema=CHANGES)
        lw.write_table(table, self.catalog.get_table(source))
        self.java.apply(self.warehouse, source, f"d.t{branch}", **options)

    def agreed(self, branch: str = "", **options: str) -> list[str]:
        """Return the rows that Java reads, after a check that we read the same."""
        table = self.catalog.get_table(f"d.t{branch}").copy(options)
        theirs = _spelled(self.java.read(self.warehouse, f"d.t{branch}", **options))
        assert _spelled([list(row.values()) for row in lw.read_table(table).to_pylist()]) == theirs
        plan = table.new_read_builder().new_scan().plan()
        counts = [split.merged_row_count() for split in plan.splits()]
        assert None in counts or sum(number or 0 for number in counts) == len(theirs)
        return theirs

    def found(self, column: str, text: str) -> list[str]:
        """Return the rows with a value that Java finds, after a check that we find the same."""
        theirs = _spelled(self.java.find(self.warehouse, "d.t", column, text))
        ours = lw.read_table(self.catalog.get_table("d.t"), filter=f"{column} = '{text}'").to_pylist()
        assert _spelled([list(row.values()) for row in ours]) == theirs
        return theirs


def _spelled(rows: Sequence[Sequence[Any]]) -> list[str]:
    return sorted(" ".join(map(str, row)) for row in rows)


@pytest.fixture
def table(java: Java, catalog: lw.Catalog) -> JavaTable:
    return JavaTable(java, catalog)


KEYED = {"primary-key": "p,k", "bucket": "2"}
FORMS: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "append": ({}, {}),
    "append and keyed": ({}, KEYED),
    "append and vectors": ({}, {**KEYED, "deletion-vectors.enabled": "true"}),
    "append and first row": ({}, {**KEYED, "merge-engine": "first-row"}),
    "keyed": (KEYED, {**KEYED, "bucket": "1"}),
    "vectors and keyed": ({**KEYED, "deletion-vectors.enabled": "true"}, KEYED),
    "keyed and append": (KEYED, {}),
    "append with buckets": ({"bucket": "2", "bucket-key": "k"}, {}),
}


@pytest.mark.parametrize("option", [FALLBACK, PRIMARY])
@pytest.mark.parametrize("form", FORMS)
def test_partitions_come_from_one_branch_each(table: JavaTable, form: str, option: str) -> None:
    table.create()
    own, other = FORMS[form]
    if own:
        table.set(own)
    if other:
        table.set(other, "$branch_b")
    table.apply("+I x 1 own,+I x 2 own,+I y 1 own,+I w 3 own")
    table.apply("+I x 5 other,+I z 1 other,+I z 2 other,+I w 9 other", "$branch_b")
    if "primary-key" in own and "first row" not in form:
        table.apply("-D x 1 own,+I y 1 newer")
    if "primary-key" in other and other.get("merge-engine") is None:
        table.apply("-D z 1 other,+I z 2 newer,+I z 3 other", "$branch_b")
    table.set({option: "b"})
    rows = table.agreed()
    assert {row[0] for row in rows} == set("wxyz")
    table.agreed("$branch_b")
    for column, text in (("v", "own"), ("v", "other"), ("v", "newer"), ("p", "x"), ("p", "z"), ("p", "none")):
        table.found(column, text)
    for name, options in (("d.t", own), ("d.t$branch_b", other)):
        if options:
            table.java.compact(table.warehouse, name)
    assert table.agreed() == rows


def test_a_partition_that_batch_reads_do_not_see_yet_comes_from_the_other_branch(table: JavaTable) -> None:
    table.create(("p", "k"), {"bucket": "1", "deletion-vectors.enabled": "true"})
    table.apply("+I x 1 own", **{"write-only": "true"})  # at level 0, which waits for a compaction
    table.apply("+I x 2 other,+I y 1 other", "$branch_b")
    table.set({FALLBACK: "b"})
    assert table.agreed() == ["x 2 other", "y 1 other"]
    table.java.compact(table.warehouse, "d.t")
    assert table.agreed() == ["x 1 own", "y 1 other"]


def test_postponed_rows_are_no_partition(table: JavaTable) -> None:
    table.create(("p", "k"), {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false"})
    table.set({"bucket": "1"}, "$branch_b")
    table.apply("+I x 1 own")
    table.apply("+I x 2 other", "$branch_b")
    table.set({FALLBACK: "b"})
    assert table.agreed() == ["x 2 other"]


def test_a_partition_whose_rows_are_deleted_counts_until_its_files_go(table: JavaTable) -> None:
    table.create(("p", "k"), {"bucket": "1"})
    table.apply("+I x 1 own")
    table.apply("-D x 1 own")
    table.apply("+I x 2 other", "$branch_b")
    table.set({FALLBACK: "b"})
    assert table.agreed() == []
    table.java.compact(table.warehouse, "d.t")
    assert table.agreed() == ["x 2 other"]


def test_a_table_without_partitions_is_read_from_one_branch(table: JavaTable) -> None:
    table.create(partitions=())
    table.apply("+I x 2 other", "$branch_b")
    table.set({FALLBACK: "b"})
    assert table.agreed() == ["x 2 other"]
    table.apply("+I x 1 own")
    assert table.agreed() == ["x 1 own"]


def test_null_partitions_are_partitions(table: JavaTable) -> None:
    table.create()
    source = lw.Schema.from_pyarrow_schema(COLUMNS)
    for name, branch, rows in (("a", "", {"p": ["x"]}), ("b", "$branch_b", {"p": [None]})):
        table.catalog.create_table(f"d.{name}", source)
        lw.write_table(pa.table({**rows, "k": [1], "v": [name]}, COLUMNS), table.catalog.get_table(f"d.{name}"))
        table.java.copy(table.warehouse, f"d.{name}", f"d.t{branch}")
    table.set({FALLBACK: "b"})
    assert table.agreed() == ["None 1 b", "x 1 a"]


def test_states_of_the_past(table: JavaTable) -> None:
    table.create()
    table.apply("+I x 1 own")
    table.apply("+I z 1 other", "$branch_b")
    table.apply("+I z 2 own")
    table.apply("+I y 1 other", "$branch_b")
    table.set({FALLBACK: "b"})
    assert table.agreed() == ["x 1 own", "y 1 other", "z 2 own"]
    # All snapshots of the branch are later than the first of the table: its first one is read.
    assert table.agreed(**{"scan.snapshot-id": "1"}) == ["x 1 own", "z 1 other"]
    assert table.agreed(**{"scan.snapshot-id": "2"}) == ["x 1 own", "z 2 own"]
    own = table.catalog.get_table("d.t").snapshot(2)
    assert own is not None
    assert table.agreed(**{"scan.timestamp-millis": str(own.time_millis)}) == ["x 1 own", "z 2 own"]
    first = table.catalog.get_table("d.t").snapshot(1)
    assert first is not None
    early = {"scan.timestamp-millis": str(first.time_millis)}
    with pytest.raises(JavaError, match="no snapshot earlier"):
        table.java.read(table.warehouse, "d.t", **early)
    with pytest.raises(NotFoundError, match="No snapshot found with timestamp earlier"):
        lw.read_table(table.catalog.get_table("d.t").copy(early))
    handle = table.catalog.get_table("d.t")
    handle.create_tag("now", 2)
    table.catalog.get_table("d.t$branch_b").create_tag("now", 2)
    for option in ("scan.tag-name", "scan.version"):  # a tag is one of the table's own branch, which is read alone
        assert table.agreed(**{option: "now"}) == ["x 1 own", "z 2 own"]
    assert table.agreed(**{"scan.version": "1"}) == ["x 1 own", "z 1 other"]


def test_columns_added_to_both_branches(table: JavaTable) -> None:
    table.create()
    table.apply("+I x 1 own")
    table.apply("+I z 1 other", "$branch_b")
    table.set({FALLBACK: "b"})
    change = lw.SchemaChange.add_column("more", lw.AtomicType("INT"))
    table.catalog.alter_table("d.t$branch_b", [change])
    with pytest.raises(JavaError, match="does not have the same row type"):
        table.java.read(table.warehouse, "d.t")
    with pytest.raises(InvalidInputError, match="differ in their columns"):
        lw.read_table(table.catalog.get_table("d.t"))
    table.catalog.alter_table("d.t", [change])
    assert table.agreed() == ["x 1 own None", "z 1 other None"]


def test_both_options_are_refused(table: JavaTable) -> None:
    table.create()
    table.set({FALLBACK: "b"})
    with pytest.raises(JavaError, match="Cannot set both"):
        table.set({PRIMARY: "b"})
    with pytest.raises(InvalidInputError, match="only one of"):
        table.catalog.alter_table("d.t", [lw.SchemaChange.set_option(PRIMARY, "b")])
