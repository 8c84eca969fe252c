"""The statistics file of a snapshot.

A snapshot names such a file in its field `statistics`; later snapshots name the same one while the schema stays. So the
statistics of a snapshot may be those of an older one: `snapshot_id` says of which.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from lakewright.errors import CorruptTableError
from lakewright.metadata.table_store import TableStore
from lakewright.spec.snapshot import MAX_LONG, Snapshot

_REMEDY = "write the statistics anew with table.analyze()"
_NUMBERS = ("distinctCount", "nullCount", "avgLen", "maxLen")


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """What is known of one column; None means unknown. Bounds are texts; those of dates count days since 1970."""

    column_id: int
    distinct_count: int | None = None
    min: str | None = None
    max: str | None = None
    null_count: int | None = None
    avg_len: int | None = None  # bytes of a value; characters of a text
    max_len: int | None = None

    def to_members(self) -> dict[str, object]:
        """Return the members of the JSON, without those that are unknown."""
        members = {
            "colId": self.column_id,
            "distinctCount": self.distinct_count,
            "min": self.min,
            "max": self.max,
            "nullCount": self.null_count,
            "avgLen": self.avg_len,
            "maxLen": self.max_len,
        }
        return {key: value for key, value in members.items() if value is not None}


@dataclass(frozen=True, slots=True)
class TableStatistics:
    """What is known of the rows of one snapshot, and of some or all of its columns."""

    snapshot_id: int
    schema_id: int
    row_count: int | None  # after merging
    size: int | None  # bytes of the data files that these rows make up
    columns: Mapping[str, ColumnStatistics] = field(default_factory=dict)

    def to_json(self) -> str:
        """Return the text of the statistics file.

        >>> TableStatistics(2, 0, 5, 100).to_json()
        '{"snapshotId":2,"schemaId":0,"mergedRecordCount":5,"mergedRecordSize":100,"colStats":{}}'
        """
        members = {
            "snapshotId": self.snapshot_id,
            "schemaId": self.schema_id,
            "mergedRecordCount": self.row_count,
            "mergedRecordSize": self.size,
            "colStats": {name: column.to_members() for name, column in self.columns.items()},
        }
        known = {key: value for key, value in members.items() if value is not None}
        return json.dumps(known, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str | bytes, *, path: str) -> TableStatistics:
        """Read the text of a statistics file; `path` names it in errors.

        >>> TableStatistics.from_json('{"snapshotId": 2, "schemaId": 0}', path="stat-1").row_count is None
        True
        """
        try:
            members = json.loads(text)
            numbers = [members.get(k) for k in ("snapshotId", "schemaId", "mergedRecordCount", "mergedRecordSize")]
            columns = members.get("colStats") or {}
            if not (_whole(numbers[0]) and _whole(numbers[1]) and all(n is None or _whole(n) for n in numbers)):
                raise ValueError(f"its numbers are {numbers}")  # noqa: TRY301 - one message for every way to be wrong
            read = {name: _column(column) for name, column in columns.items()}
        except (ValueError, AttributeError, TypeError, RecursionError) as error:
            text = f"{path} holds no statistics of a table: {error}; {_REMEDY}"
            raise CorruptTableError(text, path=path) from error
        return cls(*numbers, read)  # type: ignore[call-arg]  # four numbers


def read_statistics(store: TableStore, snapshot: Snapshot | None) -> TableStatistics | None:
    """Return the statistics that a snapshot names; None if it names none."""
    if snapshot is None or snapshot.statistics is None:
        return None
    origin = store.layout.snapshot_file(snapshot.id)
    path = store.layout.statistics_file(snapshot.statistics, origin=origin)
    try:
        data = store.storage.read(path)
    except FileNotFoundError as cause:
        raise CorruptTableError(f"{path} is missing, though {origin} names it; {_REMEDY}", path=path) from cause
    return TableStatistics.from_json(data, path=path)


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -MAX_LONG <= value <= MAX_LONG


def _column(members: Mapping[str, object]) -> ColumnStatistics:
    """Read the members of the JSON of one column, or raise ValueError."""
    numbers = {key: members.get(key) for key in ("colId", *_NUMBERS)}
    bounds = (members.get("min"), members.get("max"))
    if not _whole(numbers["colId"]) or not all(n is None or _whole(n) for n in numbers.values()):
        raise ValueError(f"the numbers of a column are {numbers}")
    if not all(bound is None or isinstance(bound, str) for bound in bounds):
        raise ValueError(f"the bounds of a column are {bounds}")
    column_id, distinct, nulls, average, longest = numbers.values()
    found = (column_id, distinct, *bounds, nulls, average, longest)
    return ColumnStatistics(*found)  # type: ignore[arg-type]  # checked above
