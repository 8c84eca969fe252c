"""Which partitions an overwrite replaces, and the change that replaces them. Nothing here touches storage.

A dynamic overwrite replaces the partitions that its new files lie in. A static one replaces every partition that agrees
with a spec (a value per partition column, possibly not for all of them; the empty spec is the whole table). What is
replaced are the files that are live when the commit is published, so every attempt computes the change again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from lakewright.commit.changes import Change
from lakewright.commit.conflicts import KeyRange, overlapping_files
from lakewright.errors import InvalidInputError
from lakewright.spec.manifest import ADD, DELETE, IndexEntry, ManifestEntry
from lakewright.spec.schema.table_schema import POSTPONE
from lakewright.spec.types import DataField, Value
from lakewright.spec.values import cast_text, to_value

Spec: TypeAlias = tuple[tuple[int, Value], ...]  # position among the partition columns, and the value there

Bounds: TypeAlias = tuple[Value, Value, int | None]  # least, greatest, and how many nulls


@dataclass(frozen=True, slots=True)
class PartitionSelection:
    """Some partitions of a table: the listed ones, or those that agree with one of the specs."""

    partitions: frozenset[bytes] | None = None
    specs: tuple[Spec, ...] = ()

    def selects(self, partition: bytes, values: Sequence[Value]) -> bool:
        """Say whether a partition is selected; `values` are those of its columns."""
        if self.partitions is not None:
            return partition in self.partitions
        return any(all(values[position] == value for position, value in spec) for spec in self.specs)

    def may_select(self, columns: Sequence[Bounds], values_of: Callable[[bytes], Sequence[Value]]) -> bool:
        """Say whether a partition inside these bounds, one per partition column, may be selected."""
        if self.partitions is None:
            specs: Iterable[Spec] = self.specs
        else:
            specs = (tuple(enumerate(values_of(partition))) for partition in self.partitions)
        return any(all(_within(value, columns[position]) for position, value in spec) for spec in specs)


WHOLE_TABLE = PartitionSelection(specs=((),))


def partitions_by_specs(
    specs: Iterable[Mapping[str, object]], fields: Sequence[DataField], *, default_name: str, table: str
) -> PartitionSelection:
    """Read partition specs as users write them: text or Python values; None or the default name means null."""
    return PartitionSelection(specs=tuple(_parse_spec(spec, fields, default_name, table) for spec in specs))


def partitions_of_files(new: Change) -> PartitionSelection:
    """Return the partitions that the new files lie in."""
    return PartitionSelection(partitions=frozenset(e.partition for e in new.entries if e.kind == ADD))


def overwrite_change(
    new: Change,
    live: Iterable[ManifestEntry],
    index: Iterable[IndexEntry],
    selects: Callable[[bytes], bool],
    *,
    buckets: int,
) -> Change:
    """Delete the live files and index files of the replaced partitions and add the new ones.

    The changelog of an overwrite is dropped. In a table with real buckets the files of the postpone bucket stay.
    """
    gone = [
        replace(e, kind=DELETE)
        for e in live
        if e.kind == ADD and (e.bucket >= 0 or buckets == POSTPONE) and selects(e.partition)
    ]
    index_gone = [replace(e, kind=DELETE) for e in index if selects(e.partition)]
    return Change(
        (*gone, *(e for e in new.entries if e.kind == ADD)),
        (),
        (*index_gone, *(e for e in new.index if e.kind == ADD)),
    )


def upgrade_files(entries: tuple[ManifestEntry, ...], level: int, key_range: KeyRange) -> tuple[ManifestEntry, ...]:
    """Put new files on the deepest level, bucket by bucket, where they are all of level 0 and share no keys.

    They replace everything in the bucket, so nothing is left to merge them with. Files with deletes stay on level 0,
    because the deepest level holds none, and so do files of the postpone bucket, whose rows are in no order.
    """
    places: dict[tuple[bytes, int], list[ManifestEntry]] = {}
    for entry in entries:
        places.setdefault((entry.partition, entry.bucket), []).append(entry)

    def fit(place: tuple[bytes, int]) -> bool:
        files = places[place]
        if place[1] < 0 or any(e.file.level or e.file.delete_row_count for e in files):
            return False
        return overlapping_files([_on_level(e, level) for e in files], (), key_range) is None

    fitting = {place for place in places if level > 0 and fit(place)}
    return tuple(_on_level(e, level) if (e.partition, e.bucket) in fitting else e for e in entries)


def _on_level(entry: ManifestEntry, level: int) -> ManifestEntry:
    return replace(entry, file=replace(entry.file, level=level))


def files_outside(new: Change, selects: Callable[[bytes], bool]) -> tuple[ManifestEntry, ...]:
    """Return the new files that lie in partitions which are not replaced."""
    return tuple(e for e in new.entries if e.kind == ADD and not selects(e.partition))


def _parse_spec(spec: Mapping[str, object], fields: Sequence[DataField], default_name: str, table: str) -> Spec:
    places = {field.name: position for position, field in enumerate(fields)}
    out: list[tuple[int, Value]] = []
    for name, given in spec.items():
        if name not in places:
            known = ", ".join(places) or "none: the table is not partitioned"
            raise InvalidInputError(
                f"{table}: {name!r} in the partition spec {dict(spec)!r} is not a partition column ({known})",
                table=table,
                column=name,
            )
        field = fields[places[name]]
        try:
            out.append((places[name], _spec_value(given, field, default_name)))
        except InvalidInputError as error:
            raise InvalidInputError(
                f"{table}: the partition column {name!r}: {error}", table=table, column=name
            ) from error
    return tuple(sorted(out, key=lambda pair: pair[0]))


def _spec_value(given: object, field: DataField, default_name: str) -> Value:
    if given is None or given == default_name:
        return None
    if isinstance(given, str):
        return cast_text(given, field.type)
    return to_value(given, field.type)


def _within(value: Value, bounds: Bounds) -> bool:
    """Say whether a value may lie within bounds; only a certain no is a no."""
    low, high, nulls = bounds
    if value is None:
        return nulls != 0
    # NaN and the two zeros have an order of their own in bounds, so floats are not judged here.
    if low is None or high is None or isinstance(value, float):
        return True
    return low <= value <= high  # type: ignore[operator]  # the bounds of a column have the type of its values
