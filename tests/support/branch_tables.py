"""Branches of tables, made file by file."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

import lakewright as lw
from lakewright.metadata.schema_files import SchemaFiles
from lakewright.spec.schema import new_table_schema

COLUMNS = pa.schema({"p": pa.string(), "k": pa.int64(), "v": pa.string(), "r": pa.struct({"a": pa.int64()})})


def rows_of(text: str) -> pa.Table:
    """Return rows given as `p k v, p k v`."""
    rows = [dict(zip("pkv", words.split(), strict=True)) for words in text.split(",")]
    return pa.Table.from_pylist([{**row, "k": int(row["k"]), "r": {"a": int(row["k"])}} for row in rows], COLUMNS)


def make_branch(
    catalog: lw.Catalog, name: str, branch: str, schema: lw.Schema, changes: Sequence[lw.SchemaChange] = ()
) -> lw.FileStoreTable:
    """Make an empty branch of a table with a schema of its own, which then changes."""
    store = catalog.get_table(name).store
    schemas = SchemaFiles(store.storage, store.layout.for_branch(branch))
    assert schemas.create(new_table_schema(schema, time_millis=1))
    if changes:
        schemas.evolve(changes, has_snapshot=False, time_millis=2)
    return catalog.get_table(f"{name}$branch_{branch}")


def fallback_table(catalog: lw.Catalog) -> lw.FileStoreTable:
    """Make an append table `d.t` with partitions x and y, whose keyed fallback branch `b` has x and z."""
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(COLUMNS, partition_keys=["p"]))
    keyed = lw.Schema.from_pyarrow_schema(
        COLUMNS, partition_keys=["p"], primary_keys=["p", "k"], options={"bucket": "2"}
    )
    # The ids of `v` and `r` differ from those of the table: names decide.
    drops = [lw.SchemaChange.drop_column("v"), lw.SchemaChange.drop_column("r")]
    inner = lw.RowType(True, [lw.DataField(0, "a", lw.AtomicType("BIGINT"))])  # noqa: FBT003 - pypaimon's order
    adds = [lw.SchemaChange.add_column("v", lw.AtomicType("STRING")), lw.SchemaChange.add_column("r", inner)]
    branch = make_branch(catalog, "d.t", "b", keyed, [*drops, *adds])
    lw.write_table(rows_of("x 1 own,x 2 own,y 1 own"), catalog.get_table("d.t"))
    lw.write_table(rows_of("x 9 other,z 1 other,z 2 other,z 3 other"), branch)
    lw.write_table(rows_of("z 2 newer"), branch)
    branch.delete("k = 3")
    catalog.alter_table("d.t", [lw.SchemaChange.set_option("scan.fallback-branch", "b")])
    return catalog.get_table("d.t")
