"""Rows of a primary-key table that are too old: rows of files in, those that a compaction keeps out.

The option `record-level.expire-time` says how long a row is kept, and `record-level.time-field` which column says since
when: an INT in seconds, a BIGINT in seconds or milliseconds, or a TIMESTAMP. Reads return old rows until a compaction
drops them. What always holds: each row is judged by itself before rows with equal keys are merged, as the others do,
and a row without a time stays.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.errors import InvalidInputError
from lakewright.spec.options import CoreOptions
from lakewright.spec.schema.table_schema import TableSchema
from lakewright.spec.types import AtomicType, DataField, Value

_MILLIS_MIN = 1_000_000_000_000  # a BIGINT of at least this is in milliseconds, a smaller one in seconds
_NANOS = 1_000_000_000
_ROOTS = frozenset({"INT", "BIGINT", "TIMESTAMP", "TIMESTAMP_LTZ"})


@dataclass(frozen=True, slots=True)
class RecordExpiry:
    """Which rows are too old: the column of their time, and the second since 1970 before which a row is dropped."""

    field: DataField
    oldest: int

    @classmethod
    def of(cls, schema: TableSchema, now_millis: int) -> RecordExpiry | None:
        """Return what the options of a table say; None: no row grows old."""
        options = schema.core_options
        kept, name = options.get(CoreOptions.RECORD_LEVEL_EXPIRE_TIME), options.get(CoreOptions.RECORD_LEVEL_TIME_FIELD)
        if kept is None:
            return None
        option = CoreOptions.RECORD_LEVEL_TIME_FIELD.key()
        if name is None:
            raise InvalidInputError(f"'record-level.expire-time' needs {option!r}: the column of a row's time")
        field = schema.field(name)
        root = field.type.root if isinstance(field.type, AtomicType) else ""
        if root not in _ROOTS:
            raise InvalidInputError(
                f"{option!r} is the column {name!r} of type {field.type}, and must be INT, BIGINT or TIMESTAMP",
                option=option,
                column=name,
            )
        return cls(field, now_millis // 1000 - kept // 1000)

    def kept(self, rows: pa.Table) -> pa.Table:
        """Return the rows that are not too old."""
        column = rows.column(self.field.name)
        if pa.types.is_timestamp(column.type):
            seconds = pc.divide(column.cast(pa.int64()), _PER_SECOND[column.type.unit])
        else:
            seconds = column.cast(pa.int64())
        if column.type == pa.int64():
            seconds = pc.if_else(pc.less(seconds, _MILLIS_MIN), seconds, pc.divide(seconds, 1000))
        return rows.filter(pc.fill_null(pc.greater_equal(seconds, self.oldest), fill_value=True))

    def is_old(self, least: Value) -> bool:
        """Say whether a row with this time, the least of a file, is too old; a time that is not known is not."""
        if not isinstance(least, int):
            return False
        root = self.field.type.root if isinstance(self.field.type, AtomicType) else ""
        if root.startswith("TIMESTAMP"):
            least = least // _NANOS
        elif root == "BIGINT" and least >= _MILLIS_MIN:
            least = least // 1000
        return least < self.oldest


_PER_SECOND = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": _NANOS}
