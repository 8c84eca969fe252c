"""Absolute order images: a column in, one unsigned 64-bit word per row out that compares as the values do.

Unlike `lsm.images`, whose words only compare within one table, these compare between all tables of one `ColumnWords`,
so rows of many files can be told apart by them. Nulls are 0 and come first, -0.0 is below 0.0 and NaN above everything.
A text is represented by eight bytes, those after the beginning that all texts of a sample share, or by 32; a decimal of
more than 18 digits by its nearest double. Such words may be equal for different values (`is_exact` is False); they are
never in the wrong order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.lsm.images import COMPACT_DECIMAL_MAX, WORD_BYTES, raw_values, shared_prefix, text_words
from lakewright.spec.rows.binary_row import null_mask, plain_column
from lakewright.spec.types import BYTES_ROOTS, TEXT_ROOTS, AtomicType, DataField

Words: TypeAlias = npt.NDArray[np.uint64]

_SIGN = np.uint64(1 << 63)
_DOUBLE = AtomicType("DOUBLE")
_TEXT_WORDS = 4  # of a text that are compared with the ends of ranges
_HIGHEST = np.uint64((1 << 64) - 1)


@dataclass(frozen=True, slots=True)
class ColumnWords:
    """How the values of one column become words."""

    field: DataField
    type: AtomicType
    prefix: bytes = b""  # what texts begin with; those that do not are below or above all others

    @classmethod
    def of_sample(cls, field: DataField, sample: pa.ChunkedArray) -> ColumnWords:
        """Return the words of a column of which some rows are known."""
        if not isinstance(field.type, AtomicType):
            raise TypeError(f"{field.name}: {field.type} has no order")
        prefix = b""
        if _is_text(field.type):
            column = _bytes(plain_column(sample, field.type))
            length = shared_prefix(column)
            least = pc.min(column).as_py() if length else None
            prefix = b"" if least is None else least[:length]
        return cls(field, field.type, prefix)

    @property
    def is_exact(self) -> bool:
        """Whether different values always have different words."""
        return not _is_text(self.type) and not _is_wide_decimal(self.type)

    def words(self, column: pa.Array | pa.ChunkedArray) -> Words:
        """Return the words of a column."""
        plain = plain_column(column, self.type)
        nulls = null_mask(plain)
        if _is_text(self.type):
            out = self._text_words(plain)
        else:
            dtype = self.type
            if _is_wide_decimal(dtype):
                plain, dtype = plain.cast(pa.float64()), _DOUBLE
            (values,) = raw_values(plain, dtype, self.field.name)
            out = values.astype(np.int64).view(np.uint64) ^ _SIGN
        np.maximum(out, np.uint64(1), out=out)
        if nulls is not None:
            out[nulls] = 0
        return out

    def all_words(self, column: pa.Array | pa.ChunkedArray) -> list[Words]:
        """Return the words of a column and, of texts, those of the bytes that follow, which order texts further."""
        first = self.words(column)
        if not _is_text(self.type):
            return [first]
        texts = _bytes(plain_column(column, self.type))
        more = [text_words(texts, len(self.prefix) + at * WORD_BYTES) for at in range(1, _TEXT_WORDS)]
        # These are nulls and texts that do not begin as the others do: what follows must not order them.
        unordered = (first <= 1) | (first == _HIGHEST)
        for words in more:
            words[unordered] = 0
        return [first, *more]

    def _text_words(self, column: pa.Array) -> Words:
        column = _bytes(column)
        out = text_words(column, len(self.prefix))
        if self.prefix:
            others = pc.fill_null(pc.invert(pc.starts_with(column, pattern=self.prefix)), fill_value=False)
            below = pc.fill_null(pc.less(column, pa.scalar(self.prefix, column.type)), fill_value=False)
            strange = np.asarray(others)
            if strange.any():
                out[strange] = np.where(np.asarray(below)[strange], np.uint64(1), _HIGHEST)
        return out


def _is_text(dtype: AtomicType) -> bool:
    return dtype.root in TEXT_ROOTS or dtype.root in BYTES_ROOTS


def _is_wide_decimal(dtype: AtomicType) -> bool:
    return dtype.root == "DECIMAL" and dtype.precision > COMPACT_DECIMAL_MAX


def _bytes(column: pa.Array) -> pa.Array:
    return column.cast({pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}.get(column.type, column.type))
