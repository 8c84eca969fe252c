"""What a report says, as values.

Everything is plain text, numbers and tuples, so that it can be shown as a page or as JSON. Invariant: lists are
bounded, whatever the size of the table; what a list leaves out is counted beside it. Times are epoch milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakewright.metadata.table_summary import Head, Shortened


@dataclass(frozen=True, slots=True)
class Totals:
    """The size of one snapshot."""

    files: int = 0
    rows: int = 0  # of all files: with a primary key a row counts once for every file that has a version of it
    bytes: int = 0
    partitions: int = 0
    buckets: int = 0  # that hold files
    manifests: int = 0
    manifest_bytes: int = 0
    index_files: int = 0
    index_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Commit:
    """One snapshot of the history, and what it added and removed."""

    id: int
    time_millis: int
    kind: str  # APPEND, OVERWRITE, COMPACT or ANALYZE
    user: str
    total_rows: int | None
    delta_rows: int | None
    added_bytes: int | None = None  # None: not looked up, because there are too many
    removed_bytes: int | None = None
    total_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """One partition of the newest snapshot."""

    name: str
    files: int
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Partitions:
    """All partitions: the largest ones, and how uneven they are."""

    largest: Shortened[PartitionFacts] = Shortened()
    median_bytes: int = 0
    profile: tuple[int, ...] = ()  # mean bytes of groups of equal length, from the largest partitions to the smallest
    top_share: float = 0.0  # the part of all bytes that the largest tenth of the partitions holds


@dataclass(frozen=True, slots=True)
class Level:
    """The files of one level of a bucket."""

    level: int
    files: int
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class BucketFacts:
    """One bucket: what it holds and what reading it costs."""

    partition: str
    bucket: int
    files: int
    rows: int
    bytes: int
    levels: tuple[Level, ...]
    runs: int  # how many files hold versions of one key at most, which a read merges; 1 where nothing is merged
    deleted_rows: int  # by deletion vectors
    delete_rows: int  # rows that say that a key is deleted
    answered_rows: int  # an estimate of the rows that a read returns

    @property
    def deleted_share(self) -> float:
        """The part of the stored rows that are deleted, or that delete others."""
        return (self.deleted_rows + self.delete_rows) / self.rows if self.rows else 0.0

    @property
    def bytes_per_row(self) -> float:
        """How many bytes are read for each row that a read returns."""
        return self.bytes / max(self.answered_rows, 1)


@dataclass(frozen=True, slots=True)
class Buckets:
    """All buckets: those that cost most to read, those with most deleted rows, and sums."""

    costliest: Shortened[BucketFacts] = Shortened()
    most_deleted: Shortened[BucketFacts] = Shortened()
    runs: tuple[tuple[int, int], ...] = ()  # how many buckets have so many runs; the last pair stands for "or more"
    runs_max: int = 0
    files_max: int = 0
    level_0_files: int = 0
    deleted_rows: int = 0
    delete_rows: int = 0
    answered_rows: int = 0
    hidden_files: int = 0  # in level 0 of a table whose reads leave level 0 out
    hidden_rows: int = 0
    postponed_files: int = 0  # that wait for a compaction to give them a bucket
    postponed_rows: int = 0
    unknown_vectors: int = 0  # deletion vectors that do not say how many rows they delete


@dataclass(frozen=True, slots=True)
class SizeBin:
    """How many files are of one range of sizes."""

    low: int
    high: int
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of data files, against the size that writers aim at."""

    target: int = 0
    small_below: int = 0  # a smaller file is one that compaction would join with others
    small_files: int = 0
    median: int = 0
    bins: tuple[SizeBin, ...] = ()


@dataclass(frozen=True, slots=True)
class Rewrite:
    """What a compaction would do; how many files come out is an estimate."""

    buckets: int = 0
    files: int = 0  # that are rewritten
    files_after: int = 0  # that come out
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Compaction:
    """What compactions would bring: where it is worth it, and of everything."""

    worthwhile: Rewrite = Rewrite()
    full: Rewrite = Rewrite()


@dataclass(frozen=True, slots=True)
class Expiry:
    """What an expiry of snapshots, as the options of the table say, would remove."""

    snapshots: int = 0
    files: int = 0
    data_files: int = 0
    data_bytes: int | None = None  # at most, where tags or branches keep some of them; None: not known
    left: int = 0  # snapshots beyond the retention that stay for now
    held_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Orphans:
    """Files that nothing names."""

    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class TagFacts:
    """A tag and the snapshot it names."""

    name: str
    snapshot_id: int
    time_millis: int
    rows: int | None
    kept: str  # for how long, in words


@dataclass(frozen=True, slots=True)
class ConsumerFacts:
    """A reader of a stream and the snapshot it reads next."""

    name: str
    next_snapshot: int
    behind: int  # how many snapshots it has not read


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """One schema of the table, and what it changed."""

    id: int
    time_millis: int
    columns: int
    changes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class References:
    """What keeps old states: tags, branches, consumers."""

    tags: Shortened[TagFacts] = Shortened()
    branches: Shortened[str] = Shortened()
    consumers: Shortened[ConsumerFacts] = Shortened()


@dataclass(frozen=True, slots=True)
class Advice:
    """Something to do, why, and the calls that do it; a call that does not exist is empty."""

    title: str
    why: str
    python: str = ""
    command: str = ""
    sql: str = ""
    urgent: bool = False


@dataclass(frozen=True, slots=True)
class TableFacts:
    """Everything that a report shows."""

    made_millis: int
    version: str  # of lakewright
    head: Head
    snapshot: Commit | None  # that everything about files is of; None: nothing was written yet
    totals: Totals
    history: Shortened[Commit]  # the newest ones, newest first
    partitions: Partitions
    buckets: Buckets
    sizes: Sizes
    compaction: Compaction | None  # None: it could not be found out, `problems` say why
    expiry: Expiry | None
    orphans: Orphans | None  # None: they were not asked for
    references: References
    schemas: Shortened[SchemaVersion]  # the newest ones, newest first
    problems: tuple[str, ...]  # what could not be read, in words
    advice: tuple[Advice, ...] = ()
