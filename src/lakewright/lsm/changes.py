"""How the rows of some keys changed: their rows before and after in, -U, +U, +I and -D out.

Incremental reads and the changelog of a compaction use the same rule. Each side has at most one row per key. The result
is in key order, the old row of a key before the new one: -U and +U for a key that both sides have, +I for one that only
the side after has, -D for one that only the side before has. Nothing here reads or writes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakewright.lsm.equality import Flags, equal_rows
from lakewright.lsm.images import Longs
from lakewright.lsm.keys import KeyOrder
from lakewright.lsm.merge import drop_retracts
from lakewright.spec.keyed_rows import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, VALUE_KIND, value_names


def key_changes(
    rows: pa.Table, is_after: Flags, key: KeyOrder, compared: Sequence[str] | None
) -> tuple[Longs, npt.NDArray[np.int8]]:
    """Return the positions of the rows of a change, in key order, and the kind of each.

    `is_after` says of each row whether it is of the side after. Keys whose two rows agree in the columns `compared` are
    left out; without such columns every key that both sides have counts as changed.
    """
    ordered = key.sorted(rows)
    order = ordered.order
    first = np.flatnonzero(~ordered.new) - 1  # of each pair
    turned = first[is_after[order[first]]]  # pairs that begin with the row after
    if len(turned):
        order = order.copy()
        order[turned], order[turned + 1] = order[turned + 1], order[turned]
    kinds = np.where(is_after[order], INSERT, DELETE).astype(np.int8)
    kinds[first], kinds[first + 1] = UPDATE_BEFORE, UPDATE_AFTER
    if compared is None:
        return order, kinds
    values = rows.select(list(compared))
    same = equal_rows(values.take(pa.array(order[first])), values.take(pa.array(order[first + 1])))
    keep = np.ones(len(order), np.bool_)
    keep[first[same]] = keep[first[same] + 1] = False
    return order[keep], kinds[keep]


def changelog_rows(
    before: pa.Table, after: pa.Table, key: KeyOrder, *, deduplicate: bool, ignored: frozenset[str] = frozenset()
) -> pa.Table:
    """Return how keyed rows changed, each row with its own sequence number; a row that deletes counts as no row.

    `deduplicate` leaves out keys whose values are as they were, whatever their sequence numbers and
    their values in the columns `ignored`.
    """
    before, after = drop_retracts(before), drop_retracts(after.select(before.column_names))
    rows = pa.concat_tables([before, after])
    if len(rows) == 0:
        return rows
    is_after = np.arange(len(rows)) >= len(before)
    compared = [name for name in value_names(rows) if name not in ignored]
    order, kinds = key_changes(rows, is_after, key, compared if deduplicate else None)
    out = rows.take(pa.array(order))
    place = out.schema.get_field_index(VALUE_KIND.name)
    return out.set_column(place, VALUE_KIND.name, pa.array(kinds))
