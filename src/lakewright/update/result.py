"""What a row-level change did: counts for the caller, and in which way it was done."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UpdateResult:
    """What one verb did to the table.

    Where no row was concerned there is no new snapshot. The counts are None where nobody looked what was there before:
    an upsert that simply writes whole rows into a primary-key table, or whose merge engine folds rows. `written`,
    `files` and `bytes` are those of the data files it wrote, which are none where rows are deleted by deletion vectors.
    """

    snapshot_id: int | None  # None: nothing had to be changed
    deleted: int | None = 0
    updated: int | None = 0
    inserted: int | None = 0
    files: int = 0
    bytes: int = 0
    seconds: float = 0.0
    partitions: int = 0  # that got, lost or changed rows
    way: str = ""  # how rows that were there were changed, as `update.ways.Way` says it
    attempts: int = 1  # plans that were made, because others changed the same rows at the same time
    written: int = 0  # rows in the data files, with those that were copied and those that delete others
    replayed: bool = False  # another run of the same job made the snapshot; nothing was written now

    @property
    def rows(self) -> int | None:
        """How many rows were deleted, updated or inserted."""
        if self.deleted is None or self.updated is None or self.inserted is None:
            return None
        return self.deleted + self.updated + self.inserted

    @property
    def is_empty(self) -> bool:
        """Say whether nothing had to be changed."""
        return self.snapshot_id is None
