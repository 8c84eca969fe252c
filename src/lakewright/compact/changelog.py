"""What a compaction did to keys, as rows of a changelog: rows before and rows after in, -U, +U, +I and -D out.

Both sides are keyed tables with at most one row per key; a row that deletes is no row. The result is in key order, the
old row of a key before the new one, each with its own sequence number. Nothing here reads or writes.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakewright.lsm.equality import equal_rows
from lakewright.lsm.keys import KeyOrder
from lakewright.lsm.merge import drop_retracts
from lakewright.spec.keyed_rows import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, VALUE_KIND, value_names

_PAIR = 2


def changes(before: pa.Table, after: pa.Table, key: KeyOrder, *, deduplicate: bool) -> pa.Table:
    """Return how the rows of some keys changed; `deduplicate` leaves out keys whose values are as they were."""
    before, after = drop_retracts(before), drop_retracts(after.select(before.column_names))
    rows = pa.concat_tables([before, after])
    if len(rows) == 0:
        return rows
    found = key.sorted(rows)
    starts = np.flatnonzero(found.new)
    sizes = np.diff(np.append(starts, len(rows)))
    in_pair = np.repeat(sizes == _PAIR, sizes)
    is_old = found.order < len(before)
    kinds = np.where(in_pair, np.where(is_old, UPDATE_BEFORE, UPDATE_AFTER), np.where(is_old, DELETE, INSERT))
    order = found.order
    if deduplicate:
        first = starts[sizes == _PAIR]
        names = value_names(rows)
        same = equal_rows(rows.select(names).take(order[first]), rows.select(names).take(order[first + 1]))
        keep = np.ones(len(order), np.bool_)
        keep[first[same]] = keep[first[same] + 1] = False
        order, kinds = order[keep], kinds[keep]
    out = rows.take(pa.array(order))
    place = out.schema.get_field_index(VALUE_KIND.name)
    return out.set_column(place, VALUE_KIND.name, pa.array(kinds.astype(np.int8)))
