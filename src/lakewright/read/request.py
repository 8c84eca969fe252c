"""What to read of a table: the arguments of one read call in, table options and a filled read builder out.

Embedded reads, Spark, Ray and the Spark data source each build one `ReadRequest` and pass it on, so an argument means
the same on every engine. Always holds: at most one argument names a state or a range of snapshots, and the read sees
the columns of that state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from lakewright.errors import InvalidInputError
from lakewright.read.builder import ReadBuilder
from lakewright.spec import arguments
from lakewright.spec.arguments import Moment
from lakewright.spec.options import CoreOptions
from lakewright.spec.predicate.filters import Filter

Columns: TypeAlias = str | Sequence[str] | Mapping[str, str]  # one name, several, or new names for some
SnapshotRange: TypeAlias = str | tuple[int | str, int | str]  # two ids or tags; the first snapshot is left out


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """Which rows and columns to read, of which state of the table or of which changes; as the caller gave them."""

    filter: Filter | None = None
    columns: Columns | None = None
    limit: int | None = None
    snapshot_id: int | None = None
    tag: str | None = None
    timestamp: Moment | None = None
    incremental: SnapshotRange | None = None
    incremental_mode: str | None = None
    row_kinds: bool = False

    def travel_options(self, table: str) -> dict[str, str]:
        """Return the table options that name the state, or the changes, to read; none for the newest state.

        >>> ReadRequest(incremental=(3, 7), incremental_mode="diff").travel_options("d.t")
        {'incremental-between': '3,7', 'incremental-between-scan-mode': 'diff'}
        """
        optional = arguments.optional
        states = {
            CoreOptions.SCAN_SNAPSHOT_ID.key(): optional(arguments.whole, "snapshot_id", self.snapshot_id),
            CoreOptions.SCAN_TAG_NAME.key(): optional(arguments.text, "tag", self.tag),
            CoreOptions.SCAN_TIMESTAMP_MILLIS.key(): optional(arguments.moment_millis, "timestamp", self.timestamp),
            CoreOptions.INCREMENTAL_BETWEEN.key(): optional(_range_text, "incremental", self.incremental),
        }
        options = {key: str(value) for key, value in states.items() if value is not None}
        if len(options) > 1:
            raise InvalidInputError(
                f"{table}: give one of snapshot_id, tag, timestamp and incremental, not {len(options)}"
            )
        if self.incremental_mode is not None:
            mode = arguments.text("incremental_mode", self.incremental_mode)
            options[CoreOptions.INCREMENTAL_BETWEEN_SCAN_MODE.key()] = mode
        return options

    def apply_to(self, builder: ReadBuilder) -> ReadBuilder:
        """Set row kinds, filter, columns and limit of a builder; its table's options name the state to read."""
        if arguments.flag("row_kinds", self.row_kinds):
            builder = builder.with_include_row_kind()
        if self.filter is not None:
            builder = builder.with_filter(self.filter)
        if self.columns is not None:
            builder = builder.with_projection(self.columns)
        if self.limit is not None:
            builder = builder.with_limit(self.limit)
        return builder


def _range_text(argument: str, value: object) -> str:
    """Return a range of snapshots as its option has it, from a pair of ids or tags or from text with a comma."""
    expected = "two snapshots or tags, such as (3, 7) or '3,7'"
    pair = value.split(",") if isinstance(value, str) else arguments.items(argument, value, expected)
    if len(pair) != 2:  # noqa: PLR2004 - a pair
        raise arguments.wrong(argument, expected, value)
    ends = [end if isinstance(end, str) else str(arguments.whole(argument, end)) for end in pair]
    if any(not end.strip() or "," in end for end in ends):
        raise arguments.wrong(argument, expected, value)
    return ",".join(end.strip() for end in ends)
