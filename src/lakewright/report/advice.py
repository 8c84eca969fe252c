"""What to do about a table: the facts of its report in, advice in plain words with the exact calls out.

Each rule is one function that yields advice or nothing. What hides or loses rows comes first, then what costs most.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator

from lakewright.display.words import in_count, in_share, in_size
from lakewright.errors import counted
from lakewright.report.facts import Advice, TableFacts

DELETED_SHARE = 0.2  # from which deleted rows are worth a full compaction
BUCKET_BYTES = 2**30  # a good size of a bucket, which one task writes and compacts
_MANY_PARTITIONS = 1000
_SMALL_PARTITION = 2**24
_MANY_MANIFESTS = 100
_SMALL_MANIFEST = 2**20
_MANY = 4


def advice_of(facts: TableFacts) -> tuple[Advice, ...]:
    """Return what to do, the most urgent first."""
    rules = (_nothing_written, _hidden, _compact, _compact_fully, _expire, _behind, _manifests, _rescale, _partitions)
    found = [advice for rule in (*rules, _orphans) for advice in rule(facts)]
    return tuple(sorted(found, key=lambda advice: not advice.urgent))


def _sql(text: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _call(facts: TableFacts, procedure: str, more: str = "") -> str:
    return f"CALL sys.{procedure}(table => {_sql(facts.head.name)}{more})"


def _command(facts: TableFacts, command: str, more: str = "") -> str:
    return f"lakewright {command} {shlex.quote(facts.head.name)}{more}"


def _nothing_written(facts: TableFacts) -> Iterator[Advice]:
    if facts.snapshot is None:
        yield Advice(
            "Write the first rows",
            "The table has columns and options, and no snapshot yet: there is nothing to read.",
            python="lakewright.write_table(rows, table)",
            command=f"lakewright ingest rows.parquet --table {shlex.quote(facts.head.name)}",
            sql=f"INSERT INTO {facts.head.name} VALUES (...)",  # noqa: S608 - shown, not run
        )


def _hidden(facts: TableFacts) -> Iterator[Advice]:
    """Advise about rows that batch reads leave out until a compaction: fresh ones, and those without a bucket yet."""
    buckets = facts.buckets
    for title, files, rows, where in (
        ("new rows are hidden", buckets.hidden_files, buckets.hidden_rows, "are fresh, and this table hides such rows"),
        ("rows wait for their bucket", buckets.postponed_files, buckets.postponed_rows, "lie in the postpone bucket"),
    ):
        if files:
            why = (
                f"{counted(files, 'file')} with {counted(rows, 'row')} {where}: batch reads leave them out until then."
            )
            yield _worthwhile(facts, f"Compact: {title}", why, urgent=True)


def _worthwhile(facts: TableFacts, title: str, why: str, *, urgent: bool) -> Advice:
    """Return the advice to compact where it is worth it."""
    return Advice(
        title,
        why,
        python="table.compact()",
        command=_command(facts, "compact"),
        sql=_call(facts, "compact", ", compact_strategy => 'minor'"),
        urgent=urgent,
    )


def _compact(facts: TableFacts) -> Iterator[Advice]:
    planned = None if facts.compaction is None else facts.compaction.worthwhile
    if planned is None or planned.files_after >= planned.files or facts.buckets.hidden_files:
        return
    why = (
        f"They would become about {planned.files_after:,}, and {in_size(planned.bytes)} are rewritten once. A scan of "
        f"the table opens {in_count(facts.totals.files)} files today."
    )
    urgent = planned.files >= _MANY * max(planned.files_after, 1) and planned.files * 2 > facts.totals.files
    yield _worthwhile(facts, f"Compact {counted(planned.files, 'file')}", why, urgent=urgent)


def _compact_fully(facts: TableFacts) -> Iterator[Advice]:
    deleted, rows = facts.buckets.deleted_rows + facts.buckets.delete_rows, facts.totals.rows
    planned = None if facts.compaction is None else facts.compaction.full
    if planned is None or not planned.files or not rows or deleted < DELETED_SHARE * rows:
        return
    yield Advice(
        f"Drop deleted rows: {in_share(deleted / rows)} of what is stored",
        f"{counted(deleted, 'row')} of {rows:,} are deleted or only delete others, and every scan reads them. A full "
        f"compaction rewrites {in_size(planned.bytes)} without them.",
        python="table.compact(full=True)",
        command=_command(facts, "compact", " --full"),
        sql=_call(facts, "compact", ", compact_strategy => 'full'"),
    )


def _expire(facts: TableFacts) -> Iterator[Advice]:
    expiry = facts.expiry
    if expiry is None or not expiry.snapshots:
        return
    freed = "" if not expiry.data_bytes else f", up to {in_size(expiry.data_bytes)} of data"
    yield Advice(
        f"Expire {counted(expiry.snapshots, 'snapshot')}",
        f"They are older than the options of the table ask for. {counted(expiry.files, 'file')} would be "
        f"removed with them{freed}.",
        python="table.expire_snapshots()",
        command=_command(facts, "expire"),
        sql=_call(facts, "expire_snapshots"),
    )


def _behind(facts: TableFacts) -> Iterator[Advice]:
    """Advise about the consumer that keeps most snapshots from expiring."""
    consumers = facts.references.consumers.shown
    if facts.expiry is None or not facts.expiry.left or not consumers:
        return
    slowest = consumers[0]
    yield Advice(
        f"Look after the consumer {slowest.name}",
        f"It is {counted(slowest.behind, 'snapshot')} behind and keeps {counted(facts.expiry.left, 'snapshot')} from "
        "expiring. If nobody reads with it any more, delete it.",
        sql=_call(facts, "reset_consumer", f", consumerId => {_sql(slowest.name)}"),
    )


def _manifests(facts: TableFacts) -> Iterator[Advice]:
    totals = facts.totals
    if totals.manifests >= _MANY_MANIFESTS and totals.manifest_bytes < totals.manifests * _SMALL_MANIFEST:
        yield Advice(
            f"Merge {counted(totals.manifests, 'manifest')}",
            f"They have {in_size(totals.manifest_bytes / totals.manifests)} on average, and every plan of a read opens "
            "those that its filter does not rule out.",
            python="table.compact_manifests()",
            command=_command(facts, "compact-manifests"),
            sql=_call(facts, "compact_manifest"),
        )


def _rescale(facts: TableFacts) -> Iterator[Advice]:
    """Advise about buckets that are much too large or much too small, where their number is fixed."""
    totals, has_number = facts.totals, facts.head.buckets[:1].isdigit()
    if not has_number or not totals.partitions or not totals.buckets:
        return
    mean = totals.bytes / totals.buckets
    now = int(facts.head.buckets.split(" ", 1)[0].replace(",", ""))
    fitting = max(1, math.ceil(totals.bytes / totals.partitions / BUCKET_BYTES))
    too_large, too_small = mean > _MANY * BUCKET_BYTES, mean < BUCKET_BYTES / 64 and now >= 2 * _MANY
    if fitting == now or not (too_large or too_small):
        return
    what = "large: one task reads, writes and compacts each" if too_large else "small: each costs files of its own"
    yield Advice(
        f"Use {counted(fitting, 'bucket')} where there are {now:,}",
        f"A bucket holds {in_size(mean)} on average, which is {what}. About 1 GiB is a good size.",
        python=f"table.rescale({fitting})",
        command=_command(facts, "rescale", f" {fitting}"),
        sql=_call(facts, "rescale", f", bucket_num => {fitting}"),
    )


def _partitions(facts: TableFacts) -> Iterator[Advice]:
    partitions = facts.partitions
    if partitions.largest.total >= _MANY_PARTITIONS and partitions.median_bytes < _SMALL_PARTITION:
        yield Advice(
            "Partition more coarsely",
            f"Half of the {partitions.largest.total:,} partitions hold {in_size(partitions.median_bytes)} or less, and "
            "each has files of its own: scans open many small files that no compaction can join. A table by month in "
            "place of day, or without the finest column, is read faster. Make it anew and load it from this one.",
        )


def _orphans(facts: TableFacts) -> Iterator[Advice]:
    if facts.orphans is not None and facts.orphans.files:
        yield Advice(
            f"Remove {counted(facts.orphans.files, 'file')} that nothing names",
            f"They take {in_size(facts.orphans.bytes)} and were left by writers that failed; all are older than a day.",
            python="table.remove_orphan_files()",
            command=_command(facts, "remove-orphans", " --delete"),
            sql=_call(facts, "remove_orphan_files"),
        )
