"""Columns beside those of the user: key copies, sequence number, row kind, row id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from lakewright.spec.table_schema import KEY_PREFIX, TableSchema
from lakewright.spec.types import AtomicType, DataField, RowType

# ---- Names of row tracking -------------------------------------------------------------------------------------------
# A path into a ROW such as `a.b` gives a column named `a_b`; of the ROW only the wanted fields are read. Columns that
# only the filter needs are read and dropped again.

ROW_ID = DataField(2147483642, "_ROW_ID", AtomicType("BIGINT", nullable=False))


# ---- Metadata columns ------------------------------------------------------------------------------------------------
# Where a row is stored, under the names of Java's connector for Spark. No file holds them, and they are read only where
# they are named. Rows that are merged as they are read are stored in no single place.

FILE_PATH: Final = DataField(-3, "__paimon_file_path", AtomicType("STRING", nullable=False))
ROW_INDEX: Final = DataField(-4, "__paimon_row_index", AtomicType("BIGINT", nullable=False))  # position in the file
BUCKET: Final = DataField(-5, "__paimon_bucket", AtomicType("INT", nullable=False))
_PARTITION: Final = DataField(-6, "__paimon_partition", RowType(nullable=False, fields=[]))
METADATA_IDS: Final = frozenset({FILE_PATH.id, ROW_INDEX.id, BUCKET.id, _PARTITION.id})


def metadata_fields(schema: TableSchema) -> tuple[DataField, ...]:
    """Return the metadata columns of a table; the partition only if it has one, none that is a column of its own."""
    partition = replace(_PARTITION, type=RowType(nullable=False, fields=schema.partition_fields))
    fields = (FILE_PATH, ROW_INDEX, *([partition] if schema.partition_keys else []), BUCKET)
    return tuple(field for field in fields if field.name not in schema.field_names)


# ---- Keyed rows ------------------------------------------------------------------------------------------------------
# In memory a *keyed table* is an Arrow table whose first columns are `_SEQUENCE_NUMBER` (int64) and `_VALUE_KIND`
# (int8), perhaps followed by `_LEVEL` (int8, the level of the file a row came from; never stored), and then columns
# of the table, in schema order. In a data file that is not thin, copies of the key columns, named `_KEY_<column>`,
# come first; they are never read.

SEQUENCE_NUMBER: Final = DataField(2147483646, "_SEQUENCE_NUMBER", AtomicType("BIGINT", nullable=False))
VALUE_KIND: Final = DataField(2147483645, "_VALUE_KIND", AtomicType("TINYINT", nullable=False))
LEVEL: Final = DataField(-1, "_LEVEL", AtomicType("TINYINT", nullable=False))  # only in memory
KEYED_FIELDS: Final = (SEQUENCE_NUMBER, VALUE_KIND)
_KEY_ID_BASE = 1073741823

INSERT: Final = 0
UPDATE_BEFORE: Final = 1
UPDATE_AFTER: Final = 2
DELETE: Final = 3
RETRACTS: Final = frozenset({UPDATE_BEFORE, DELETE})
KIND_NAMES: Final = ("+I", "-U", "+U", "-D")  # by number


def key_copies(schema: TableSchema) -> tuple[DataField, ...]:
    """Return the fields of the copies of the key columns in files that are not thin."""
    return tuple(
        DataField(_KEY_ID_BASE + field.id, KEY_PREFIX + field.name, field.type)
        for field in schema.trimmed_primary_key_fields
    )


def stored_fields(schema: TableSchema, *, thin: bool) -> tuple[DataField, ...]:
    """Return the fields of a data file of a primary-key table, in file order."""
    return (*(() if thin else key_copies(schema)), *KEYED_FIELDS, *schema.fields)


def value_names(table: pa.Table) -> list[str]:
    """Return the columns of a keyed table that are columns of the table itself."""
    system = {SEQUENCE_NUMBER.name, VALUE_KIND.name, LEVEL.name}
    return [name for name in table.column_names if name not in system]


def keyed_table(values: pa.Table, sequence: pa.Array, kinds: pa.Array, level: pa.Array | None = None) -> pa.Table:
    """Put sequence numbers, kinds and perhaps levels before the columns of a table."""
    names = [SEQUENCE_NUMBER.name, VALUE_KIND.name, *([] if level is None else [LEVEL.name])]
    columns: Sequence[object] = [sequence, kinds, *([] if level is None else [level]), *values.columns]
    return pa.table(list(columns), names=[*names, *values.column_names])
