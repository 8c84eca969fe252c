"""The rows of a change query, on a worker: clause numbers and new values in, which rows change and how out.

The decision was made by the engine; here it is read, values are put into exactly the types of the table, and what is
ambiguous or forbidden is refused. Values of this module travel to workers, so they hold no text of the statement.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.errors import InvalidInputError
from lakewright.spec.types import DataField
from lakewright.update.merge.clauses import Decision
from lakewright.update.merge.match import Longs, Pairs
from lakewright.update.values import without_defaults
from lakewright.write.input.align import Aligner, align

CLAUSE = "_lw_clause"  # the column with the number of the clause that applies to a row
NO_CLAUSE = -1  # the number of a source row that matches, and to which no clause applies


@dataclass(frozen=True, slots=True)
class DecidedRows:
    """What the columns of a change query mean: it takes the place of a merge's plan where rows are changed."""

    table: str
    fields: tuple[DataField, ...]  # of the table
    is_delete: tuple[bool, ...]  # of the clauses, by their numbers: whether rows are deleted
    values: Mapping[str, int]  # from columns that get values to the number of the value
    assigned: tuple[str, ...] = ()  # the columns that updates set, in the order of the table
    inserted: tuple[str, ...] = ()  # the columns that inserts set
    matches_once: bool = True  # False: several source rows may match a row, since all that happens is its delete
    keys: tuple[str, ...] = ()  # the columns of the target that equal columns of the source

    by_source = ()  # rows without a match are in the query as well
    upserts = False
    target_columns = ()  # nothing of the target is read again to decide

    @property
    def source_columns(self) -> tuple[str, ...]:
        """The columns of the change query beside group and position."""
        return (CLAUSE, *(value_name(at) for at in range(len(self.values))))

    @property
    def deletes(self) -> bool:
        """Whether some clause deletes rows."""
        return any(self.is_delete)

    def decide(self, target: pa.Table, source: pa.Table, pairs: Pairs) -> Decision:
        """Return which rows of the target change and how; `source` are rows of the change query."""
        del target  # nothing is read of it
        self._check_matched_once(pairs.target)
        clauses = source.column(CLAUSE).to_numpy()[pairs.source]
        changes = clauses != NO_CLAUSE
        deletes = np.array(self.is_delete)[clauses] & changes
        updates = ~deletes & changes
        rows = pairs.source[updates]
        values = self._new_values(source.take(pa.array(rows))) if len(rows) else None
        return Decision(np.unique(pairs.target[deletes]), pairs.target[updates], values)

    def inserts(self, source: pa.Table, rows: Longs) -> pa.Table | None:
        """Return the rows to insert; None: there are none."""
        if not len(rows):
            return None
        table = source if len(rows) == source.num_rows else source.take(pa.array(rows))
        return align(self._columns(table, self.inserted), self.fields, table=self.table)

    def _new_values(self, rows: pa.Table) -> pa.Table:
        fields = [field for field in self.fields if field.name in self.assigned]
        return Aligner(without_defaults(fields), table=self.table).align(self._columns(rows, self.assigned))

    def _columns(self, rows: pa.Table, names: tuple[str, ...]) -> pa.Table:
        if not names:
            return pa.table({"": pa.nulls(rows.num_rows)}).select([])
        return pa.table({name: rows.column(value_name(self.values[name])) for name in names})

    def _check_matched_once(self, target: Longs) -> None:
        """Refuse rows of the target that several rows of the source would change."""
        if not self.matches_once:
            return
        times = pc.value_counts(pa.array(target))
        most = pc.max(times.field("counts")).as_py() or 0
        if most > 1:
            keys = f" ({', '.join(self.keys)})" if self.keys else ""
            raise InvalidInputError(
                f"{self.table}: a row is matched by {most} rows of the source, and it is not clear which one changes "
                f"it; keep one source row for each key{keys}, or tell them apart in ON. Nothing was changed.",
                table=self.table,
                times=most,
            )


def value_name(number: int) -> str:
    """Return the name of the column of a change query that holds a value."""
    return f"_lw_v{number}"
