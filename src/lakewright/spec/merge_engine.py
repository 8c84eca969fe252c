"""Merge engines, changelog producers and other choices that a table's options name.

Every option is text on disk. A `ConfigOption` holds its key, the keys it had in older releases, a function that reads
the text, and a default; a `CoreOptions` holds the options of one table as text and returns typed values. A text is
parsed only when its option is needed, so a table with a bad value in an option that is not needed can still be read.
"""

from __future__ import annotations

from enum import StrEnum


class MergeEngine(StrEnum):
    """How a primary-key table merges the rows of one key."""

    DEDUPLICATE = "deduplicate"
    PARTIAL_UPDATE = "partial-update"
    AGGREGATION = "aggregation"
    FIRST_ROW = "first-row"
