"""What a row-level change did: counts for the caller, and in which way it was done."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UpdateResult:
    """What one verb did to the table.

    Where no row was concerned there is no new snapshot. `files` and `bytes` are those of the data files it wrote, which
    are none where rows are deleted by deletion vectors.
    """

    snapshot_id: int | None  # None: nothing had to be changed
    deleted: int = 0
    updated: int = 0
    inserted: int = 0
    files: int = 0
    bytes: int = 0
    seconds: float = 0.0
    partitions: int = 0  # that got, lost or changed rows
    way: str = ""  # how rows that were there were changed, as `update.ways.Way` says it
    attempts: int = 1  # plans that were made, because others changed the same rows at the same time

    @property
    def rows(self) -> int:
        """How many rows were deleted, updated or inserted."""
        return self.deleted + self.updated + self.inserted

    @property
    def is_empty(self) -> bool:
        """Say whether nothing had to be changed."""
        return self.snapshot_id is None
