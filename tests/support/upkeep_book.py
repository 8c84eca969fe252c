"""What a table under upkeep must hold: the rows of every state that it ever had, and which states its branches keep.

The files of a table in, the states that branches and tags name out. Metadata is read as JSON, without the library. A
state is known by the names of its manifest lists, which no two commits share: so a snapshot that was copied to another
branch, or that came back by a rollback, is known again, whatever its number is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

import lakewright as lw
from support.row_changes import SCHEMA, frame

MAIN = "main"
PIN = re.compile(r"rollback-of-\d+-[0-9a-f]{8}|rollback-to-as-latest-.*")
# The name of each column of a schema, and its name in the rows of a state: `#7` for a column that was added.
Columns = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class State:
    """The rows of one snapshot and the columns of its schema."""

    rows: pl.DataFrame
    columns: Columns
    # Rows that a commit has written and that no reader sees before the next compaction.
    waiting: pl.DataFrame | None = None

    def seen_with(self, columns: Columns) -> pl.DataFrame:
        """Return the rows with the columns of a schema."""
        return projected(self.rows, columns)


@dataclass(frozen=True, slots=True)
class Line:
    """One branch as its files say it is."""

    snapshots: Mapping[int, str]  # the key of the state of each id
    tags: Mapping[str, tuple[int, str]]  # the id and the key of each tag's snapshot
    consumers: Mapping[str, int]
    schemas: Mapping[int, Columns]
    texts: Mapping[int, Mapping[str, Any]] = field(compare=False)  # the snapshot files
    tag_texts: Mapping[str, Mapping[str, Any]] = field(compare=False)

    @property
    def newest(self) -> int:
        """The id of the newest snapshot; 0 if there is none."""
        return max(self.snapshots, default=0)

    @property
    def columns(self) -> Columns:
        """The columns of the newest schema."""
        return self.schemas[max(self.schemas)]

    @property
    def extras(self) -> list[str]:
        """The names of the columns that were added."""
        return [name for name, _ in self.columns if name not in SCHEMA.names]


def projected(rows: pl.DataFrame, columns: Columns) -> pl.DataFrame:
    """Return rows of a state with the columns of a schema under their names there; what is missing is null."""
    return rows.select(
        pl.col(inner).alias(name) if inner in rows.columns else pl.lit(None, pl.Int64).alias(name)
        for name, inner in columns
    )


def stored(rows: pl.DataFrame, columns: Columns) -> pl.DataFrame:
    """Return rows with the columns of a schema as a state keeps them."""
    return rows.select(pl.col(name).alias(inner) for name, inner in columns)


def same_rows(left: pl.DataFrame, right: pl.DataFrame) -> bool:
    """Say whether two frames have the same columns and rows, in any order."""
    return left.columns == right.columns and sorted(left.rows(), key=repr) == sorted(right.rows(), key=repr)


def read(table: lw.FileStoreTable, snapshot_id: int | None = None, tag: str | None = None) -> pl.DataFrame:
    """Read the rows of a state with the library."""
    return frame(lw.read_table(table, snapshot_id=snapshot_id, tag=tag))


def key_of(text: Mapping[str, Any]) -> str:
    """Return what a snapshot is known by."""
    return f"{text['baseManifestList']} {text['deltaManifestList']}"


def branch_roots(files: Mapping[str, bytes], root: str) -> dict[str, str]:
    """Return the directory of each branch below the root of a table; those being made or dropped are hidden."""
    found, place = {MAIN: root}, f"{root}/branch/branch-"
    for path in files:
        if path.startswith(place):
            name = path[len(place) :].partition("/")[0]
            found[name] = place + name
    return found


def lines_of(files: Mapping[str, bytes], root: str) -> dict[str, Line]:
    """Return every branch of a table, from all its files by path."""
    return {name: _line(files, place) for name, place in branch_roots(files, root).items()}


def numbered(files: Mapping[str, bytes], prefix: str) -> dict[int, Any]:
    """Return the JSON of the files whose path is a prefix and a number."""
    found = [path for path in files if path.startswith(prefix) and path[len(prefix) :].isdecimal()]
    numbers = sorted(int(path[len(prefix) :]) for path in found)
    return {number: json.loads(files[f"{prefix}{number}"]) for number in numbers}


def named(files: Mapping[str, bytes], prefix: str) -> dict[str, Any]:
    """Return the JSON of the files whose path is a prefix and a name."""
    paths = sorted(path for path in files if path.startswith(prefix) and "/" not in path[len(prefix) :])
    return {path[len(prefix) :]: json.loads(files[path]) for path in paths}


def _line(files: Mapping[str, bytes], place: str) -> Line:
    texts = numbered(files, f"{place}/snapshot/snapshot-")
    schemas = numbered(files, f"{place}/schema/schema-")
    # A rollback or fast-forward that was killed leaves a tag that pinned its target, which goes with time.
    tags = {name: text for name, text in named(files, f"{place}/tag/tag-").items() if not PIN.fullmatch(name)}
    return Line(
        {number: key_of(text) for number, text in texts.items()},
        {name: (text["id"], key_of(text)) for name, text in tags.items()},
        {name: text["nextSnapshot"] for name, text in named(files, f"{place}/consumer/consumer-").items()},
        {number: _columns(text["fields"]) for number, text in schemas.items()},
        texts,
        tags,
    )


def _columns(fields: Sequence[Mapping[str, Any]]) -> Columns:
    return tuple((one["name"], one["name"] if one["id"] < len(SCHEMA) else f"#{one['id']}") for one in fields)
