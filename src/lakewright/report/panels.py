"""The panels of the page about files: facts in, one section of markup out for each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from lakewright.display.markup import Markup, and_more, element, joined, name, table
from lakewright.display.words import in_share, in_size
from lakewright.errors import counted
from lakewright.report.charts import Bar, Mark, Part, bars, columns, legend
from lakewright.report.facts import Bucket, Rewrite, TableFacts
from lakewright.report.files import RUNS_BINS

BARS_MAX = 10
_DEEPEST_COLOUR = 5
_FEW_RUNS = 3


def panel(key: str, title: str, *children: str) -> Markup:
    """Return one section with its heading."""
    heading = element("h2", title, id=f"{key}-title")
    return element("section", heading, *children, id=key, class_="panel", aria_labelledby=f"{key}-title")


def lead(*parts: str) -> Markup:
    """Return the sentence below a heading that says what there is to see."""
    return element("p", *parts, class_="lead")


def figure(chart: str, caption: str = "") -> Markup:
    """Return a chart with a line above it."""
    return element("figure", element("figcaption", caption) if caption else Markup(), chart)


def details(summary: str, inside: str) -> Markup:
    """Return something that is shown on demand, without a script."""
    return element("details", element("summary", summary), inside)


def partitions_panel(facts: TableFacts) -> Markup:
    """Return the partitions and how uneven they are."""
    partitions, total = facts.partitions, facts.partitions.largest.total
    if not facts.head.partition_keys:
        return panel("partitions", "Partitions", lead("The table has no partition columns: all rows lie in one place."))
    if not total:
        return panel("partitions", "Partitions", lead("No partition holds a file."))
    largest = partitions.largest.shown[0]
    skew = (
        f"The largest, {in_size(largest.bytes)}, is {largest.bytes / max(partitions.median_bytes, 1):,.1f} times the "
    )
    words = f"{skew}median; the largest tenth holds {in_share(partitions.top_share)} of all bytes."
    shown = partitions.largest.shown[:BARS_MAX]
    rows = [Bar(p.name, in_size(p.bytes), (Part("append", p.bytes, p.name),)) for p in shown]
    charts = [figure(bars("The largest partitions", f"{counted(total, 'partition')}. {words}", rows))]
    if total > len(shown):
        charts.append(element("p", and_more(total - len(shown), "partitions"), class_="more"))
        stacks = [[Part("append", size, in_size(size))] for size in partitions.profile]
        ends = ((0.0, "largest"), (1.0, "smallest"))
        description = (
            f"{total} partitions from the largest to the smallest; the median is {in_size(partitions.median_bytes)}"
        )
        profile = columns("Partitions by size", description, stacks, ticks=ends, top=in_size(partitions.profile[0]))
        charts.append(figure(profile, "All of them, by size"))
    cells = ((name(p.name), in_size(p.bytes), f"{p.rows:,}", f"{p.files:,}") for p in partitions.largest.shown)
    more = and_more(partitions.largest.left_out, "partitions")
    as_table = table("The largest partitions", ("Partition", "Size", "Rows", "Files"), cells, more)
    sentence = lead(element("strong", counted(total, "partition")), f". {words if total > 1 else ''}")
    return panel("partitions", "Partitions and their skew", sentence, *charts, details("As a table", as_table))


def sizes_panel(facts: TableFacts) -> Markup:
    """Return the sizes of the data files beside the size that writers aim at."""
    sizes = facts.sizes
    if not sizes.bins:
        return panel("sizes", "File sizes", lead("There are no data files."))
    last = sizes.bins[-1].high
    stacks = [
        [
            Part(
                "small"
                if one.high <= max(sizes.small_below, sizes.bins[0].high) and one.high <= sizes.target
                else "append",
                one.files,
                f"{_range(one.low, one.high)}: {counted(one.files, 'file')}, {in_size(one.bytes)}",
            )
        ]
        for one in sizes.bins
    ]
    step = max(1, math.ceil(len(sizes.bins) / 5))
    ticks = [(at / len(sizes.bins), in_size(sizes.bins[at].low)) for at in range(0, len(sizes.bins), step)]
    mark = Mark(_place_of(sizes.target, [one.low for one in sizes.bins], last), f"target {in_size(sizes.target)}")
    top = max(one.files for one in sizes.bins)
    words = (
        f"Half of the files are of {in_size(sizes.median)} or less; {sizes.small_files:,} of {facts.totals.files:,} "
    )
    words += f"are small, below {in_size(sizes.small_below)}."
    chart = columns(
        "Files by size", words, stacks, ticks=ticks, top=f"{top:,} files" if top > 1 else "1 file", mark=mark
    )
    cells = ((_range(one.low, one.high), f"{one.files:,}", in_size(one.bytes)) for one in sizes.bins)
    colours = legend((("small", "small"), ("append", "large enough")))
    as_table = table("Files by size", ("Size", "Files", "Bytes"), cells)
    return panel("sizes", "File sizes", lead(words), colours, figure(chart), details("As a table", as_table))


def _range(low: int, high: int) -> str:
    return f"{in_size(low)} or more" if high > 2**60 else f"{in_size(low)} to {in_size(high)}"


def _place_of(size: int, lows: Sequence[int], last: int) -> float:
    """Return where a size lies between the bins, from 0 to 1; within a bin by its logarithm."""
    at = max((at for at, low in enumerate(lows) if low <= size), default=0)
    low, high = max(lows[at], 1), (*lows, last)[at + 1]
    within = math.log(max(size, 1) / low) / math.log(high / low) if high > low else 0.0
    return min(1.0, (at + min(max(within, 0.0), 1.0)) / len(lows))


def _place(one: Bucket) -> str:
    return f"bucket {one.bucket} · {one.partition}" if one.partition else f"bucket {one.bucket}"


def _named(one: Bucket) -> tuple[str, str]:
    return name(one.partition or "all"), f"{one.bucket}"


def levels_panel(facts: TableFacts) -> Markup:
    """Return the levels of the buckets that cost most to read."""
    shown = facts.buckets.costliest.shown
    if not facts.head.primary_keys:
        return panel(
            "levels", "Levels of buckets", lead("Only primary-key tables have levels; this is an append table.")
        )
    if not shown:
        return panel("levels", "Levels of buckets", lead("No bucket holds a file."))
    rows = [
        Bar(
            _place(one),
            f"{counted(one.runs, 'run')} · {in_size(one.bytes)}",
            tuple(
                Part(
                    f"level-{min(level.level, _DEEPEST_COLOUR)}",
                    level.bytes,
                    f"level {level.level}: {counted(level.files, 'file')}, {in_size(level.bytes)}",
                )
                for level in one.levels
            ),
        )
        for one in shown[:BARS_MAX]
    ]
    used = sorted({min(level.level, _DEEPEST_COLOUR) for one in shown for level in one.levels})
    names = ((f"level-{at}", f"level {at} and deeper" if at == _DEEPEST_COLOUR else f"level {at}") for at in used)
    words = f"{counted(facts.buckets.costliest.total, 'bucket')}, {facts.buckets.level_0_files:,} files in level 0. "
    words += "Fresh files lie in level 0; compaction moves rows down to the deepest level, where each key lies once."
    cells = (
        (*_named(one), f"{level.level}", f"{level.files:,}", f"{level.rows:,}", in_size(level.bytes))
        for one in shown
        for level in one.levels
    )
    more = and_more(facts.buckets.costliest.left_out, "buckets")
    heads = ("Partition", "Bucket", "Level", "Files", "Rows", "Size")
    left = facts.buckets.costliest.total - len(rows)
    return panel(
        "levels",
        "Levels of buckets",
        lead(words),
        legend(names),
        figure(bars("Levels of the buckets that cost most to read", words, rows)),
        element("p", and_more(left, "buckets"), class_="more") if left else Markup(),
        details("As a table", table("Levels of buckets", heads, cells, more)),
    )


def deleted_panel(facts: TableFacts) -> Markup:
    """Return the share of deleted rows, of the table and of its worst buckets."""
    buckets, rows = facts.buckets, facts.totals.rows
    deleted, delete = buckets.deleted_rows, buckets.delete_rows
    if not rows:
        return panel("deleted", "Deleted rows", lead("There are no rows."))
    share = (deleted + delete) / rows
    words = f"{in_share(share)} of the {rows:,} stored rows: {deleted:,} deleted by deletion vectors, {delete:,} that "
    words += "delete others."
    if buckets.unknown_vectors:
        words += f" {counted(buckets.unknown_vectors, 'deletion vector')} do not say how many rows they delete."
    whole = Bar("the table", in_share(share), (
        Part("lost", deleted, f"{deleted:,} rows deleted by deletion vectors"),
        Part("overwrite", delete, f"{delete:,} rows that delete others"),
        Part("good", max(rows - deleted - delete, 0), f"{max(rows - deleted - delete, 0):,} rows that are neither"),
    ))  # fmt: skip
    colours = legend((("lost", "deleted by vectors"), ("overwrite", "delete others"), ("good", "neither")))
    children = [lead(words), colours, figure(bars("Deleted rows of the table", words, [whole]))]
    worst = buckets.most_deleted
    if worst.shown:
        as_bars = [
            Bar(
                _place(one),
                in_share(one.deleted_share),
                (Part("lost", one.deleted_share, in_share(one.deleted_share)),),
            )
            for one in worst.shown[:5]
        ]
        described = f"The share of deleted rows in {counted(worst.total, 'bucket')}, the highest first"
        children.append(figure(bars("Buckets with most deleted rows", described, as_bars, whole=1.0), "Where they lie"))
    cells = (
        (*_named(one), f"{one.rows:,}", f"{one.deleted_rows:,}", f"{one.delete_rows:,}", in_share(one.deleted_share))
        for one in worst.shown
    )
    heads = ("Partition", "Bucket", "Rows", "Deleted", "Delete others", "Share")
    total = table("Deleted rows", ("Rows", "Deleted by vectors", "Delete others", "Share"),
                  [(f"{rows:,}", f"{deleted:,}", f"{delete:,}", in_share(share))])  # fmt: skip
    each = table("Buckets with deleted rows", heads, cells, and_more(worst.left_out, "buckets")) if worst.shown else ""
    return panel("deleted", "Deleted rows", *children, details("As a table", joined((total, each))))


def reading_panel(facts: TableFacts) -> Markup:
    """Return what a read opens, merges and reads for each row that it returns."""
    buckets, totals = facts.buckets, facts.totals
    if not buckets.costliest.shown:
        return panel("reading", "Read amplification", lead("There is nothing to read."))
    per_row = totals.bytes / max(buckets.answered_rows, 1)
    stored = totals.rows / max(buckets.answered_rows, 1)
    words = (
        f"A scan opens {counted(totals.files, 'file')} in {counted(totals.buckets, 'bucket')} and merges up to "
        f"{counted(buckets.runs_max, 'run')}. For each row that it returns it reads about {in_size(per_row)} and "
        f"{stored:,.2f} stored rows."
    )
    stacks = [
        [
            Part(
                "good" if runs == 1 else "level-1" if runs <= _FEW_RUNS else "small",
                many,
                f"{counted(many, 'bucket')} with {counted(runs, 'run')}",
            )
        ]
        for runs, many in _whole_range(buckets.runs)
    ]
    by_runs = columns(
        "Buckets by runs to merge",
        "How many buckets have so many sorted runs that a read of them merges",
        stacks,
        ticks=[((at + 0.5) / len(stacks), _runs_text(runs)) for at, (runs, _) in enumerate(_whole_range(buckets.runs))],
        top=counted(max(many for _, many in buckets.runs), "bucket"),
    )
    costly = buckets.costliest.shown
    rows = [Bar(_place(one), f"{counted(one.files, 'file')} · {in_size(one.bytes_per_row)}/row",
                (Part("append", one.files, counted(one.files, "file")),)) for one in costly[:5]]  # fmt: skip
    cells = (
        (*_named(one), f"{one.files:,}", f"{one.runs:,}", in_size(one.bytes), f"{one.answered_rows:,}",
         in_size(one.bytes_per_row)) for one in costly
    )  # fmt: skip
    heads = ("Partition", "Bucket", "Files", "Runs", "Size", "Rows answered", "Bytes per row")
    left = buckets.costliest.left_out
    described = "How many files a read opens in the buckets that cost most"
    return panel(
        "reading",
        "Read amplification",
        lead(words),
        figure(by_runs, "Buckets by the number of runs that a read merges"),
        figure(bars("Files to open in the costliest buckets", described, rows), "The costliest buckets"),
        details("As a table", table("The costliest buckets", heads, cells, and_more(left, "buckets"))),
    )


def _whole_range(runs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    known = dict(runs)
    return [(number, known.get(number, 0)) for number in range(1, max((*known, 3)) + 1)]


def _runs_text(runs: int) -> str:
    return f"{runs}+" if runs == RUNS_BINS else f"{runs}"


def upkeep_panel(facts: TableFacts) -> Markup:
    """Return what compaction and expiry would bring."""
    cards = []
    if facts.compaction is not None:
        cards.append(_rewrite_card(facts, "Compaction where it is worth it", facts.compaction.worthwhile))
        cards.append(_rewrite_card(facts, "Full compaction", facts.compaction.full))
    if facts.expiry is not None:
        cards.append(_expiry_card(facts))
    if facts.orphans is not None:
        found = f"{counted(facts.orphans.files, 'file')}, {in_size(facts.orphans.bytes)}"
        cards.append(element("div", element("h3", "Files that nothing names"), element("p", found, class_="lead")))
    if not cards:
        nothing = "Nothing was written yet." if facts.snapshot is None else "It could not be found out; see above."
        return panel("upkeep", "What upkeep would bring", lead(nothing))
    rows = []
    if facts.compaction is not None:
        for what, one in (("compaction", facts.compaction.worthwhile), ("full compaction", facts.compaction.full)):
            rows.append((what, f"{one.files:,}", f"{one.files_after:,}", in_size(one.bytes)))
    if facts.expiry is not None:
        freed = "" if facts.expiry.data_bytes is None else in_size(facts.expiry.data_bytes)
        rows.append((f"expiry of {counted(facts.expiry.snapshots, 'snapshot')}", f"{facts.expiry.files:,}", "0", freed))
    as_table = table("What upkeep would do", ("What", "Files", "Files after", "Bytes rewritten or freed"), rows)
    sentence = lead("Counted by a dry run of the same code: nothing was changed. Numbers of new files are estimates.")
    shown = element("div", joined(cards), class_="cards")
    return panel("upkeep", "What upkeep would bring", sentence, shown, details("As a table", as_table))


def _rewrite_card(facts: TableFacts, title: str, planned: Rewrite) -> Markup:
    before, after = facts.totals.files, facts.totals.files - planned.files + planned.files_after
    if not planned.files:
        return element("div", element("h3", title), element("p", "There is nothing to do.", class_="lead"))
    rows = [
        Bar("now", counted(before, "file"), (Part("small", before, "files now"),)),
        Bar("after", f"about {counted(after, 'file')}", (Part("good", after, "files after it"),)),
    ]
    words = f"{counted(planned.files, 'file')} of {counted(planned.buckets, 'bucket')} would be rewritten, "
    words += f"{in_size(planned.bytes)}."
    chart = bars(f"{title}: files before and after", words, rows)
    return element("div", element("h3", title), element("p", words, class_="lead"), figure(chart))


def _expiry_card(facts: TableFacts) -> Markup:
    expiry, total = facts.expiry, facts.history.total
    if expiry is None or not expiry.snapshots:
        words = f"All {counted(total, 'snapshot')} are to be kept." if total > 1 else "The only snapshot stays."
        return element("div", element("h3", "Expiry of snapshots"), element("p", words, class_="lead"))
    freed = "" if expiry.data_bytes is None else f", up to {in_size(expiry.data_bytes)} of data"
    words = f"{counted(expiry.snapshots, 'snapshot')} and {counted(expiry.files, 'file')} would go{freed}."
    rows = [
        Bar("now", counted(total, "snapshot"), (Part("small", total, "snapshots now"),)),
        Bar(
            "after",
            counted(total - expiry.snapshots, "snapshot"),
            (Part("good", total - expiry.snapshots, "after it"),),
        ),
    ]
    chart = bars("Expiry: snapshots before and after", words, rows)
    held = joined(element("li", reason) for reason in expiry.held_by)
    why = details(f"What keeps the rest ({len(expiry.held_by)})", element("ul", held)) if expiry.held_by else Markup()
    return element("div", element("h3", "Expiry of snapshots"), element("p", words, class_="lead"), figure(chart), why)
