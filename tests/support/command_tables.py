"""The tables that tests of the command line work on."""

from __future__ import annotations

from pathlib import Path

import click
import pyarrow as pa

import lakewright as lw
from lakewright.cli.main import main
from lakewright.cli.program import PROGRAM


def command_warehouse(root: Path) -> str:
    """Make `d.t`, a primary-key table of three snapshots, and `d.empty`; return their warehouse."""
    catalog = lw.CatalogFactory.create({"warehouse": str(root / "w")})
    catalog.create_database("d")
    fields = [lw.DataField(0, "id", lw.AtomicType("BIGINT")), lw.DataField(1, "n", lw.AtomicType("INT"))]
    catalog.create_table("d.t", lw.Schema(fields, primary_keys=["id"], options={"bucket": "1"}))
    catalog.create_table("d.empty", lw.Schema(fields))
    for n in range(3):
        lw.write_table(pa.table({"id": [n, 9], "n": pa.array([n, n], pa.int32())}), catalog.get_table("d.t"))
    return str(root / "w")


def ids_of(warehouse: str, name: str = "d.t") -> list[int]:
    """Return the ids of a table's rows, sorted."""
    rows = lw.read_table(lw.CatalogFactory.create({"warehouse": warehouse}).get_table(name))
    return sorted(row["id"] for row in rows.to_pylist())


def code_of(words: list[str]) -> int:
    """Run a command in this process and return its exit code."""
    try:
        return main(words)
    except SystemExit as ended:
        return int(ended.code or 0)


def parse_words(words: list[str]) -> None:
    """Raise an error of click unless the words are a command with its arguments; nothing runs."""
    top = click.Context(PROGRAM, info_name="lakewright")
    name, command, rest = PROGRAM.resolve_command(top, words)
    assert command is not None
    command.make_context(name, rest, parent=top)
