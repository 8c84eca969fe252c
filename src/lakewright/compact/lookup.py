"""Rows of deeper levels with keys that level 0 may have: files in, sorted runs of few rows out.

The merge finds the row of each key; this module only leaves out rows that cannot match. Files whose key range does not
overlap that of level 0 are not opened, row groups without a key of level 0 are skipped if the keys are few, and of the
rest only rows are kept whose key columns all have values that occur in level 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.compact.task import bounds_of, overlapping
from lakewright.compact.window import PLACE, POSITION_BITS
from lakewright.lsm.keys import KeyOrder
from lakewright.lsm.runs import runs_of
from lakewright.read.keyed_files import POSITION, KeyedFiles
from lakewright.spec.arrow import to_arrow_type
from lakewright.spec.datafile import DataFile
from lakewright.spec.keyed_rows import LEVEL, SEQUENCE_NUMBER, VALUE_KIND
from lakewright.spec.predicate.predicate import TRUE, Predicate, and_predicates
from lakewright.spec.types import DataField
from lakewright.spec.values import from_scalar

_KEYS_MAX = 4_000_000  # rows of level 0 whose keys are kept in memory; with more of them no row is left out
_LITERALS_MAX = 256  # values of a key column that row groups are compared with one by one
_MEMBERS = ("int", "string", "binary", "date", "time", "bool")  # Arrow types whose equality is that of keys


@dataclass(frozen=True, slots=True)
class LookupKeys:
    """The values of the key columns in level 0, by which rows to look up are chosen."""

    members: Mapping[str, pa.Array]  # distinct values by key column, of those columns that can be asked
    skip: Predicate  # a condition that row groups without such values do not fulfil

    def filter(self, rows: pa.Table) -> pa.Table:
        """Return the rows whose key columns all have such values."""
        mask = None
        for name, values in self.members.items():
            matches = pc.is_in(rows.column(name), value_set=values)
            mask = matches if mask is None else pc.and_(mask, matches)
        return rows if mask is None else rows.filter(mask)


ANY = LookupKeys({}, TRUE)


def read_lookup_keys(files: KeyedFiles, fresh: Sequence[DataFile], key: KeyOrder) -> LookupKeys:
    """Read the keys of level 0, unless they are too many to be held."""
    if sum(file.row_count for file in fresh) > _KEYS_MAX:
        return ANY
    keys = replace(files, columns=_in_schema_order(files, key))
    askable = [field for field in key.fields if _is_askable(field)]
    parts: dict[str, list[pa.Array]] = {field.name: [] for field in askable}
    for file in fresh:
        for rows in keys.read(file):
            for name, values in parts.items():
                values.append(pc.unique(rows.column(name)))
    members = {name: pc.unique(pa.chunked_array(values)) for name, values in parts.items() if values}
    asked = [_asked(field, members[field.name]) for field in askable if field.name in members]
    return LookupKeys(members, and_predicates(asked))


def lookup_runs(
    files: KeyedFiles, deeper: Sequence[DataFile], fresh: Sequence[DataFile], key: KeyOrder, *, narrow: bool
) -> tuple[list[Iterator[pa.Table]], list[DataFile]]:
    """Return one run per deeper level, with `_LEVEL` and `_PLACE`, and the files that places count.

    With `narrow` only the key columns are read; the others are null.
    """
    files_to_read = overlapping(deeper, fresh, key)
    if not files_to_read:
        return [], []
    keys = read_lookup_keys(files, fresh, key)
    numbered = list(files_to_read)
    number = {file.file_name: at for at, file in enumerate(numbered)}
    source = replace(files, columns=_in_schema_order(files, key)) if narrow else files
    runs = [
        _run(source, sorted(run.files, key=lambda file: bounds_of(file, key)), number, keys, files.columns)
        for run in runs_of(files_to_read)
    ]
    return runs, numbered


def _run(
    source: KeyedFiles,
    run: Sequence[DataFile],
    number: Mapping[str, int],
    keys: LookupKeys,
    columns: Sequence[DataField],
) -> Iterator[pa.Table]:
    for file in run:
        first = number[file.file_name] << POSITION_BITS
        for rows in source.read(file, skip=keys.skip, level=True, positions=True):
            kept = keys.filter(rows)
            if kept.num_rows:
                places = pa.array(kept.column(POSITION.name).to_numpy() + first)
                yield _widened(kept.drop_columns([POSITION.name]), columns).append_column(PLACE, places)


def _widened(rows: pa.Table, columns: Sequence[DataField]) -> pa.Table:
    """Return rows with all columns of the table; those that were not read are null."""
    names = {*rows.column_names}
    system = [SEQUENCE_NUMBER.name, VALUE_KIND.name, LEVEL.name]
    arrays = [rows.column(name) for name in system]
    for column in columns:
        known = column.name in names
        arrays.append(rows.column(column.name) if known else pa.nulls(rows.num_rows, to_arrow_type(column.type)))
    return pa.table(arrays, names=[*system, *(column.name for column in columns)])


def with_place(rows: pa.Table) -> pa.Table:
    """Return rows of files that are compacted in the form of those that are looked up."""
    return rows.append_column(PLACE, pa.array(np.full(rows.num_rows, -1, np.int64)))


def _in_schema_order(files: KeyedFiles, key: KeyOrder) -> tuple[DataField, ...]:
    return tuple(field for field in files.columns if field.name in key.names)


def _is_askable(field: DataField) -> bool:
    text = str(to_arrow_type(field.type))
    return text.startswith(_MEMBERS)


def _asked(field: DataField, members: pa.Array) -> Predicate:
    """Return the narrowest cheap condition that all values of a column fulfil."""
    if members.null_count:
        return TRUE
    few = len(members) <= _LITERALS_MAX
    method = "in" if few else "between"
    values = members if few else pc.min_max(members).values()
    literals: list[Any] = [from_scalar(value, field.type) for value in values]
    return Predicate(method, field.name, tuple(sorted(literals)), dtype=field.type, path=(field.name,))
