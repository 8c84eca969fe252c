"""The page: panels, charts, style."""

from __future__ import annotations

import math
import re
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lakewright.display import (
    SafeHtml,
    escape_html,
    format_bytes,
    format_count,
    html_element,
    html_name,
    in_share,
    instant,
    join_html,
    render_remainder,
    table,
)
from lakewright.errors import InvalidInputError, pluralize
from lakewright.report.gather_facts import RUNS_BINS
from lakewright.report.report_facts import Advice, BucketFacts, Commit, Rewrite, TableFacts

# ---- Charts ----------------------------------------------------------------------------------------------------------
# Places across are in per cent and places down in pixels, without a view box: a chart is as wide as its panel and its
# texts keep their size, on a phone too. Colours are classes, which the style of the page gives for light and dark.

_COLUMNS_HEIGHT = 120
_ROW_HEIGHT = 40
_LABEL_CHARS_MAX = 30
_GAP = 0.16  # of the width of a column
_SLIVER = 0.4  # per cent: what is there can be seen


@dataclass(frozen=True, slots=True)
class BarPart:
    """One part of a bar: a class that colours it, how much it is, and what it is in words."""

    class_: str
    value: float
    title: str


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of one or more parts with a text before and behind it."""

    label: str
    value: str
    parts: tuple[BarPart, ...]


@dataclass(frozen=True, slots=True)
class Mark:
    """A line across the columns, at a place between 0 and 1, with a text."""

    place: float
    label: str


def columns(
    title: str,
    description: str,
    stacks: Sequence[Sequence[BarPart]],
    *,
    ticks: Sequence[tuple[float, str]] = (),
    top: str = "",
    mark: Mark | None = None,
) -> SafeHtml:
    """Return upright columns, each a stack of parts; `ticks` are texts below them, at places between 0 and 1."""
    head = 22
    highest = max((sum(part.value for part in stack) for stack in stacks), default=0) or 1
    width = 100 / max(len(stacks), 1)
    base = head + _COLUMNS_HEIGHT
    shapes = [
        html_element("line", x1="0%", x2="100%", y1=head, y2=head, class_="grid"),
        html_element(
            "line", x1="0%", x2="100%", y1=head + _COLUMNS_HEIGHT / 2, y2=head + _COLUMNS_HEIGHT / 2, class_="grid"
        ),
    ]
    for at, stack in enumerate(stacks):
        below = float(base)
        for part in (part for part in stack if part.value > 0):
            height = max(part.value / highest * _COLUMNS_HEIGHT, 2.0)
            below -= height
            shapes.append(_rect(at * width + width * _GAP / 2, below, width * (1 - _GAP), height, part))
    shapes.append(html_element("line", x1="0%", x2="100%", y1=base, y2=base, class_="axis"))
    if top:
        shapes.append(html_element("text", top, x="0%", y=head - 7, class_="tick"))
    if mark is not None:
        shapes += _mark(mark, head, base)
    shapes += [_tick(place, text, base + 16) for place, text in ticks]
    return _svg(title, description, base + 24, shapes)


def bars(title: str, description: str, rows: Sequence[Bar], *, whole: float | None = None) -> SafeHtml:
    """Return lying bars, one below the other, each with its texts above it.

    The chart is as wide as `whole`, or as the longest bar.
    """
    longest = whole or max((sum(part.value for part in row.parts) for row in rows), default=0) or 1
    shapes: list[SafeHtml] = []
    for at, row in enumerate(rows):
        top = at * _ROW_HEIGHT
        label = html_element(
            "text", cut(row.label), html_element("title", row.label), x="0%", y=top + 15, class_="label"
        )
        shapes += [label, html_element("text", row.value, x="100%", y=top + 15, class_="value", text_anchor="end")]
        shapes.append(html_element("rect", x="0%", y=top + 22, width="100%", height=10, rx=3, class_="track"))
        left = 0.0
        for part in row.parts:
            share = part.value / longest * 100
            if part.value > 0:
                shapes.append(_rect(left, top + 22, max(share, _SLIVER), 10, part))
            left += share
    return _svg(title, description, max(len(rows) * _ROW_HEIGHT, 1), shapes)


def legend(items: Iterable[tuple[str, str]]) -> SafeHtml:
    """Return what colours mean: pairs of a class and a text."""
    swatch = (
        html_element(
            "li",
            html_element(
                "svg",
                html_element("rect", width=12, height=12, rx=3, class_=class_),
                width=12,
                height=12,
                aria_hidden="true",
            ),
            text,
        )
        for class_, text in items
    )
    return html_element("ul", join_html(swatch), class_="legend")


def cut(text: str, most: int = _LABEL_CHARS_MAX) -> str:
    """Return a text that fits beside a number on a phone, without its middle if it is long.

    >>> cut("day=2026-01-01/hour=07/region=north", 20)
    'day=2026-0…gion=north'
    """
    half = most // 2
    return text if len(text) <= most else f"{text[:half]}…{text[-half:]}"


def _rect(left: float, top: float, width: float, height: float, part: BarPart) -> SafeHtml:
    return html_element(
        "rect",
        html_element("title", part.title),
        x=f"{left:.3f}%",
        y=f"{top:.1f}",
        width=f"{width:.3f}%",
        height=f"{height:.1f}",
        rx=2,
        class_=part.class_,
    )


def _mark(mark: Mark, head: float, base: float) -> list[SafeHtml]:
    place = f"{mark.place * 100:.2f}%"
    return [
        html_element("line", x1=place, x2=place, y1=head - 4, y2=base, class_="mark"),
        html_element("text", mark.label, x=place, y=head - 8, class_="tick strong", text_anchor=_anchor(mark.place)),
    ]


def _tick(place: float, text: str, y: float) -> SafeHtml:
    return html_element("text", text, x=f"{place * 100:.2f}%", y=y, class_="tick", text_anchor=_anchor(place))


def _anchor(place: float) -> str:
    return "start" if place < 0.15 else "end" if place > 0.85 else "middle"  # noqa: PLR2004 - near the edges


def _svg(title: str, description: str, height: float, shapes: Iterable[str]) -> SafeHtml:
    """Return the picture with its name and description, which a reader of screens reads out."""
    slug = re.sub("[^a-z0-9]+", "-", title.lower())
    return html_element(
        "svg",
        html_element("title", title, id=f"title-{slug}"),
        html_element("desc", description, id=f"desc-{slug}"),
        *shapes,
        role="img",
        aria_labelledby=f"title-{slug} desc-{slug}",
        width="100%",
        height=f"{height:.0f}",
        class_="chart",
    )


# ---- Panels about files ----------------------------------------------------------------------------------------------

BARS_MAX = 10
_DEEPEST_COLOUR = 5
_FEW_RUNS = 3


def panel(key: str, title: str, *children: str) -> SafeHtml:
    """Return one section with its heading."""
    heading = html_element("h2", title, id=f"{key}-title")
    return html_element("section", heading, *children, id=key, class_="panel", aria_labelledby=f"{key}-title")


def lead(*parts: str) -> SafeHtml:
    """Return the sentence below a heading that says what there is to see."""
    return html_element("p", *parts, class_="lead")


def figure(chart: str, caption: str = "") -> SafeHtml:
    """Return a chart with a line above it."""
    return html_element("figure", html_element("figcaption", caption) if caption else SafeHtml(), chart)


def details(summary: str, inside: str) -> SafeHtml:
    """Return something that is shown on demand, without a script."""
    return html_element("details", html_element("summary", summary), inside)


def partitions_panel(facts: TableFacts) -> SafeHtml:
    """Return the partitions and how uneven they are."""
    partitions, total = facts.partitions, facts.partitions.largest.total
    if not facts.head.partition_keys:
        return panel("partitions", "Partitions", lead("The table has no partition columns: all rows are in one place."))
    if not total:
        return panel("partitions", "Partitions", lead("No partition holds a file."))
    largest = partitions.largest.shown[0]
    factor = largest.bytes / max(partitions.median_bytes, 1)
    skew = f"The largest, {format_bytes(largest.bytes)}, is {factor:,.1f} times the "
    words = f"{skew}median; the largest tenth holds {in_share(partitions.top_share)} of all bytes."
    shown = partitions.largest.shown[:BARS_MAX]
    rows = [Bar(p.name, format_bytes(p.bytes), (BarPart("append", p.bytes, p.name),)) for p in shown]
    charts = [figure(bars("The largest partitions", f"{pluralize(total, 'partition')}. {words}", rows))]
    if total > len(shown):
        charts.append(html_element("p", render_remainder(total - len(shown), "partitions"), class_="more"))
        stacks = [[BarPart("append", size, format_bytes(size))] for size in partitions.profile]
        ends = ((0.0, "largest"), (1.0, "smallest"))
        median = format_bytes(partitions.median_bytes)
        description = f"{total} partitions from the largest to the smallest; the median is {median}"
        profile = columns(
            "Partitions by size", description, stacks, ticks=ends, top=format_bytes(partitions.profile[0])
        )
        charts.append(figure(profile, "All of them, by size"))
    cells = (
        (html_name(p.name), format_bytes(p.bytes), f"{p.rows:,}", f"{p.files:,}") for p in partitions.largest.shown
    )
    more = render_remainder(partitions.largest.left_out, "partitions")
    as_table = table("The largest partitions", ("Partition", "Size", "Rows", "Files"), cells, more)
    sentence = lead(html_element("strong", pluralize(total, "partition")), f". {words if total > 1 else ''}")
    return panel("partitions", "Partitions and their skew", sentence, *charts, details("As a table", as_table))


def sizes_panel(facts: TableFacts) -> SafeHtml:
    """Return the sizes of the data files beside the size that writers aim at."""
    sizes = facts.sizes
    if not sizes.bins:
        return panel("sizes", "File sizes", lead("There are no data files."))
    last = sizes.bins[-1].high
    stacks = [
        [
            BarPart(
                "small"
                if one.high <= max(sizes.small_below, sizes.bins[0].high) and one.high <= sizes.target
                else "append",
                one.files,
                f"{_range(one.low, one.high)}: {pluralize(one.files, 'file')}, {format_bytes(one.bytes)}",
            )
        ]
        for one in sizes.bins
    ]
    step = max(1, math.ceil(len(sizes.bins) / 5))
    ticks = [(at / len(sizes.bins), format_bytes(sizes.bins[at].low)) for at in range(0, len(sizes.bins), step)]
    mark = Mark(_place_of(sizes.target, [one.low for one in sizes.bins], last), f"target {format_bytes(sizes.target)}")
    top = max(one.files for one in sizes.bins)
    median = format_bytes(sizes.median)
    words = f"Half of the files are of {median} or less; {sizes.small_files:,} of {facts.totals.files:,} "
    words += f"are small, below {format_bytes(sizes.small_below)}."
    chart = columns(
        "Files by size", words, stacks, ticks=ticks, top=f"{top:,} files" if top > 1 else "1 file", mark=mark
    )
    cells = ((_range(one.low, one.high), f"{one.files:,}", format_bytes(one.bytes)) for one in sizes.bins)
    colours = legend((("small", "small"), ("append", "large enough")))
    as_table = table("Files by size", ("Size", "Files", "Bytes"), cells)
    return panel("sizes", "File sizes", lead(words), colours, figure(chart), details("As a table", as_table))


def _range(low: int, high: int) -> str:
    return f"{format_bytes(low)} or more" if high > 2**60 else f"{format_bytes(low)} to {format_bytes(high)}"


def _place_of(size: int, lows: Sequence[int], last: int) -> float:
    """Return where a size is between the bins, from 0 to 1; within a bin by its logarithm."""
    at = max((at for at, low in enumerate(lows) if low <= size), default=0)
    low, high = max(lows[at], 1), (*lows, last)[at + 1]
    within = math.log(max(size, 1) / low) / math.log(high / low) if high > low else 0.0
    return min(1.0, (at + min(max(within, 0.0), 1.0)) / len(lows))


def _place(one: BucketFacts) -> str:
    return f"bucket {one.bucket} · {one.partition}" if one.partition else f"bucket {one.bucket}"


def _bucket_name(one: BucketFacts) -> tuple[str, str]:
    return html_name(one.partition or "all"), f"{one.bucket}"


def levels_panel(facts: TableFacts) -> SafeHtml:
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
            f"{pluralize(one.runs, 'run')} · {format_bytes(one.bytes)}",
            tuple(
                BarPart(
                    f"level-{min(level.level, _DEEPEST_COLOUR)}",
                    level.bytes,
                    f"level {level.level}: {pluralize(level.files, 'file')}, {format_bytes(level.bytes)}",
                )
                for level in one.levels
            ),
        )
        for one in shown[:BARS_MAX]
    ]
    used = sorted({min(level.level, _DEEPEST_COLOUR) for one in shown for level in one.levels})
    names = ((f"level-{at}", f"level {at} and deeper" if at == _DEEPEST_COLOUR else f"level {at}") for at in used)
    words = f"{pluralize(facts.buckets.costliest.total, 'bucket')}, {facts.buckets.level_0_files:,} files in level 0. "
    words += "Fresh files are in level 0; compaction moves rows down to the deepest level, where each key lies once."
    cells = (
        (*_bucket_name(one), f"{level.level}", f"{level.files:,}", f"{level.rows:,}", format_bytes(level.bytes))
        for one in shown
        for level in one.levels
    )
    more = render_remainder(facts.buckets.costliest.left_out, "buckets")
    heads = ("Partition", "Bucket", "Level", "Files", "Rows", "Size")
    left = facts.buckets.costliest.total - len(rows)
    return panel(
        "levels",
        "Levels of buckets",
        lead(words),
        legend(names),
        figure(bars("Levels of the buckets that cost most to read", words, rows)),
        html_element("p", render_remainder(left, "buckets"), class_="more") if left else SafeHtml(),
        details("As a table", table("Levels of buckets", heads, cells, more)),
    )


def deleted_panel(facts: TableFacts) -> SafeHtml:
    """Return the share of deleted rows, of the table and of its worst buckets."""
    buckets, rows = facts.buckets, facts.totals.rows
    deleted, delete = buckets.deleted_rows, buckets.delete_rows
    if not rows:
        return panel("deleted", "Deleted rows", lead("There are no rows."))
    share = (deleted + delete) / rows
    words = f"{in_share(share)} of the {rows:,} stored rows: {deleted:,} deleted by deletion vectors, {delete:,} that "
    words += "delete others."
    if buckets.unknown_vectors:
        words += f" {pluralize(buckets.unknown_vectors, 'deletion vector')} do not say how many rows they delete."
    whole = Bar("the table", in_share(share), (
        BarPart("lost", deleted, f"{deleted:,} rows deleted by deletion vectors"),
        BarPart("overwrite", delete, f"{delete:,} rows that delete others"),
        BarPart("good", max(rows - deleted - delete, 0), f"{max(rows - deleted - delete, 0):,} rows that are neither"),
    ))  # fmt: skip
    colours = legend((("lost", "deleted by vectors"), ("overwrite", "delete others"), ("good", "neither")))
    children = [lead(words), colours, figure(bars("Deleted rows of the table", words, [whole]))]
    worst = buckets.most_deleted
    if worst.shown:
        as_bars = [
            Bar(
                _place(one),
                in_share(one.deleted_share),
                (BarPart("lost", one.deleted_share, in_share(one.deleted_share)),),
            )
            for one in worst.shown[:5]
        ]
        described = f"The share of deleted rows in {pluralize(worst.total, 'bucket')}, the highest first"
        children.append(figure(bars("Buckets with most deleted rows", described, as_bars, whole=1.0), "Where they lie"))
    cells = (
        (
            *_bucket_name(one),
            f"{one.rows:,}",
            f"{one.deleted_rows:,}",
            f"{one.delete_rows:,}",
            in_share(one.deleted_share),
        )
        for one in worst.shown
    )
    heads = ("Partition", "Bucket", "Rows", "Deleted", "Delete others", "Share")
    total = table("Deleted rows", ("Rows", "Deleted by vectors", "Delete others", "Share"),
                  [(f"{rows:,}", f"{deleted:,}", f"{delete:,}", in_share(share))])  # fmt: skip
    each = (
        table("Buckets with deleted rows", heads, cells, render_remainder(worst.left_out, "buckets"))
        if worst.shown
        else ""
    )
    return panel("deleted", "Deleted rows", *children, details("As a table", join_html((total, each))))


def reading_panel(facts: TableFacts) -> SafeHtml:
    """Return what a read opens, merges and reads for each row that it returns."""
    buckets, totals = facts.buckets, facts.totals
    if not buckets.costliest.shown:
        return panel("reading", "Read amplification", lead("There is nothing to read."))
    per_row = totals.bytes / max(buckets.answered_rows, 1)
    stored = totals.rows / max(buckets.answered_rows, 1)
    words = (
        f"A scan opens {pluralize(totals.files, 'file')} in {pluralize(totals.buckets, 'bucket')} and merges up to "
        f"{pluralize(buckets.runs_max, 'run')}. For each row that it returns it reads "
        f"about {format_bytes(per_row)} and "
        f"{stored:,.2f} stored rows."
    )
    stacks = [
        [
            BarPart(
                "good" if runs == 1 else "level-1" if runs <= _FEW_RUNS else "small",
                many,
                f"{pluralize(many, 'bucket')} with {pluralize(runs, 'run')}",
            )
        ]
        for runs, many in _whole_range(buckets.runs)
    ]
    by_runs = columns(
        "Buckets by runs to merge",
        "How many buckets have so many sorted runs that a read of them merges",
        stacks,
        ticks=[((at + 0.5) / len(stacks), _runs_text(runs)) for at, (runs, _) in enumerate(_whole_range(buckets.runs))],
        top=pluralize(max(many for _, many in buckets.runs), "bucket"),
    )
    costly = buckets.costliest.shown
    rows = [Bar(_place(one), f"{pluralize(one.files, 'file')} · {format_bytes(one.bytes_per_row)}/row",
                (BarPart("append", one.files, pluralize(one.files, "file")),)) for one in costly[:5]]  # fmt: skip
    cells = (
        (*_bucket_name(one), f"{one.files:,}", f"{one.runs:,}", format_bytes(one.bytes), f"{one.answered_rows:,}",
         format_bytes(one.bytes_per_row)) for one in costly
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
        details("As a table", table("The costliest buckets", heads, cells, render_remainder(left, "buckets"))),
    )


def _whole_range(runs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    known = dict(runs)
    return [(number, known.get(number, 0)) for number in range(1, max((*known, 3)) + 1)]


def _runs_text(runs: int) -> str:
    return f"{runs}+" if runs == RUNS_BINS else f"{runs}"


def upkeep_panel(facts: TableFacts) -> SafeHtml:
    """Return what compaction and expiry would bring."""
    cards = []
    if facts.compaction is not None:
        cards.append(_rewrite_card(facts, "Compaction where it is worth it", facts.compaction.worthwhile))
        cards.append(_rewrite_card(facts, "Full compaction", facts.compaction.full))
    if facts.expiry is not None:
        cards.append(_expiry_card(facts))
    if facts.orphans is not None:
        found = f"{pluralize(facts.orphans.files, 'file')}, {format_bytes(facts.orphans.bytes)}"
        cards.append(
            html_element("div", html_element("h3", "Files that nothing names"), html_element("p", found, class_="lead"))
        )
    if not cards:
        nothing = "Nothing was written yet." if facts.snapshot is None else "It could not be found out; see above."
        return panel("upkeep", "What upkeep would bring", lead(nothing))
    rows = []
    if facts.compaction is not None:
        for what, one in (("compaction", facts.compaction.worthwhile), ("full compaction", facts.compaction.full)):
            rows.append((what, f"{one.files:,}", f"{one.files_after:,}", format_bytes(one.bytes)))
    if facts.expiry is not None:
        freed = "" if facts.expiry.data_bytes is None else format_bytes(facts.expiry.data_bytes)
        rows.append(
            (f"expiry of {pluralize(facts.expiry.snapshots, 'snapshot')}", f"{facts.expiry.files:,}", "0", freed)
        )
    as_table = table("What upkeep would do", ("What", "Files", "Files after", "Bytes rewritten or freed"), rows)
    sentence = lead("Counted by a dry run of the same code: nothing was changed. Numbers of new files are estimates.")
    shown = html_element("div", join_html(cards), class_="cards")
    return panel("upkeep", "What upkeep would bring", sentence, shown, details("As a table", as_table))


def _rewrite_card(facts: TableFacts, title: str, planned: Rewrite) -> SafeHtml:
    before, after = facts.totals.files, facts.totals.files - planned.files + planned.files_after
    if not planned.files:
        return html_element(
            "div", html_element("h3", title), html_element("p", "There is nothing to do.", class_="lead")
        )
    rows = [
        Bar("now", pluralize(before, "file"), (BarPart("small", before, "files now"),)),
        Bar("after", f"about {pluralize(after, 'file')}", (BarPart("good", after, "files after it"),)),
    ]
    words = f"{pluralize(planned.files, 'file')} of {pluralize(planned.buckets, 'bucket')} would be rewritten, "
    words += f"{format_bytes(planned.bytes)}."
    chart = bars(f"{title}: files before and after", words, rows)
    return html_element("div", html_element("h3", title), html_element("p", words, class_="lead"), figure(chart))


def _expiry_card(facts: TableFacts) -> SafeHtml:
    expiry, total = facts.expiry, facts.history.total
    if expiry is None or not expiry.snapshots:
        words = f"All {pluralize(total, 'snapshot')} are to be kept." if total > 1 else "The only snapshot stays."
        return html_element("div", html_element("h3", "Expiry of snapshots"), html_element("p", words, class_="lead"))
    freed = "" if expiry.data_bytes is None else f", up to {format_bytes(expiry.data_bytes)} of data"
    words = f"{pluralize(expiry.snapshots, 'snapshot')} and {pluralize(expiry.files, 'file')} would go{freed}."
    rows = [
        Bar("now", pluralize(total, "snapshot"), (BarPart("small", total, "snapshots now"),)),
        Bar(
            "after",
            pluralize(total - expiry.snapshots, "snapshot"),
            (BarPart("good", total - expiry.snapshots, "after it"),),
        ),
    ]
    chart = bars("Expiry: snapshots before and after", words, rows)
    held = join_html(html_element("li", reason) for reason in expiry.held_by)
    why = (
        details(f"What keeps the rest ({len(expiry.held_by)})", html_element("ul", held))
        if expiry.held_by
        else SafeHtml()
    )
    return html_element(
        "div", html_element("h3", "Expiry of snapshots"), html_element("p", words, class_="lead"), figure(chart), why
    )


# ---- Panels about the past -------------------------------------------------------------------------------------------

KINDS = ("APPEND", "OVERWRITE", "COMPACT", "ANALYZE")
BINS_MAX = 60
ROWS_MAX = 50


def history_panel(facts: TableFacts) -> SafeHtml:
    """Return the snapshots over time by kind, and how rows and bytes grew with them."""
    commits = facts.history.shown[::-1]
    if not commits:
        return panel("history", "Snapshots over time", lead("There is no snapshot."))
    kinds = Counter(commit.kind for commit in commits)
    by_kind = ", ".join(f"{kinds[kind]:,} {kind.lower()}" for kind in KINDS if kinds[kind])
    words = f"{pluralize(facts.history.total, 'snapshot')} from {instant(commits[0].time_millis)} to "
    words += f"{instant(commits[-1].time_millis)}: {by_kind}."
    if facts.history.left_out:
        words += f" The {facts.history.left_out:,} oldest are not drawn."
    bins = _bins(commits)
    charts = [figure(_kinds_chart(bins, commits, words), "Snapshots")]
    charts += _sums(bins, commits)
    cells = (
        (f"{one.id}", instant(one.time_millis), one.kind.lower(), _number(one.total_rows), _number(one.delta_rows),
         _size(one.total_bytes), _size(one.added_bytes), _size(one.removed_bytes), html_name(one.user))
        for one in facts.history.shown[:ROWS_MAX]
    )  # fmt: skip
    heads = ("Snapshot", "Time", "Kind", "Rows", "Change", "Size", "Added", "Removed", "User")
    more = render_remainder(facts.history.total - min(ROWS_MAX, len(commits)), "snapshots")
    as_table = table("The newest snapshots", heads, cells, more)
    colours = legend((kind.lower(), kind.lower()) for kind in KINDS if kinds[kind])
    grid = html_element("div", join_html(charts), class_="cards")
    sections = (lead(words), colours, grid, details("As a table", as_table))
    return panel("history", "Snapshots over time", *sections)


def _number(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def _size(size: int | None) -> str:
    return "-" if size is None else format_bytes(size)


def _bins(commits: Sequence[Commit]) -> list[list[Commit]]:
    """Cut the time from the first to the last commit into pieces of equal length, with the commits of each."""
    count = min(BINS_MAX, max(len(commits), 12))
    first, last = min(one.time_millis for one in commits), max(one.time_millis for one in commits)
    bins: list[list[Commit]] = [[] for _ in range(count)]
    for one in commits:
        bins[min(count - 1, (one.time_millis - first) * count // max(last - first, 1))].append(one)
    return bins


def _ends(commits: Sequence[Commit]) -> tuple[tuple[float, str], ...]:
    first, last = (instant(commits[at].time_millis, date_only=True) for at in (0, -1))
    if first == last:  # all of one day: the time of the day tells more
        first, last = (instant(commits[at].time_millis)[-9:-4] for at in (0, -1))
    return ((0.0, first),) if first == last else ((0.0, first), (1.0, last))


def _kinds_chart(bins: Sequence[Sequence[Commit]], commits: Sequence[Commit], words: str) -> SafeHtml:
    stacks = []
    for some in bins:
        counts = Counter(one.kind for one in some)
        stacks.append(
            [BarPart(kind.lower(), counts[kind], f"{counts[kind]:,} {kind.lower()}") for kind in KINDS if counts[kind]]
        )
    top = pluralize(max(len(some) for some in bins), "snapshot")
    return columns("Snapshots over time by kind", words, stacks, ticks=_ends(commits), top=top)


def _sums(bins: Sequence[Sequence[Commit]], commits: Sequence[Commit]) -> list[SafeHtml]:
    """Return rows and bytes over time."""
    rows = _carry_forward([[one.total_rows for one in some] for some in bins])
    sizes = _carry_forward([[one.total_bytes for one in some] for some in bins])
    ends = _ends(commits)
    of_rows = [[BarPart("append", number, format_count(number))] for number in rows]
    of_bytes = [[BarPart("compact", size, format_bytes(size))] for size in sizes]
    grown = f"{format_count(rows[0])} rows at first and {format_count(rows[-1])} at last"
    by_bytes = f"{format_bytes(sizes[0])} at first and {format_bytes(sizes[-1])} at last"
    return [
        figure(columns("Rows over time", grown, of_rows, ticks=ends, top=format_count(max(rows))), "Rows"),
        figure(columns("Bytes over time", by_bytes, of_bytes, ticks=ends, top=format_bytes(max(sizes))), "Size"),
    ]


def _carry_forward(bins: Sequence[Sequence[int | None]]) -> list[int]:
    """Return the last known number of each piece of time; one without any has that of the piece before it.

    >>> _carry_forward([[1, 2], [], [None], [5, None]])
    [2, 2, 2, 5]
    """
    values, known = [], 0
    for some in bins:
        known = next((value for value in reversed(some) if value is not None), known)
        values.append(known)
    return values


def references_panel(facts: TableFacts) -> SafeHtml:
    """Return tags, branches and consumers, which keep old states."""
    tags, branches, consumers = facts.references.tags, facts.references.branches, facts.references.consumers
    parts = []
    if tags.total:
        cells = (
            (html_name(tag.name), f"{tag.snapshot_id}", instant(tag.time_millis), _number(tag.rows), tag.kept)
            for tag in tags.shown
        )
        heads = ("Tag", "Snapshot", "Of", "Rows", "Kept")
        parts.append(table(pluralize(tags.total, "tag"), heads, cells, render_remainder(tags.left_out, "tags")))
    if branches.total:
        title = f"{branches.total:,} branch{'es' if branches.total > 1 else ''}"
        parts.append(
            table(
                title,
                ("Branch",),
                ((html_name(one),) for one in branches.shown),
                render_remainder(branches.left_out, "branches"),
            )
        )
    if consumers.total:
        positions = ((html_name(one.name), f"{one.next_snapshot}", f"{one.behind:,}") for one in consumers.shown)
        more = render_remainder(consumers.left_out, "consumers")
        parts.append(
            table(pluralize(consumers.total, "consumer"), ("Consumer", "Reads next", "Behind"), positions, more)
        )
    shown = parts or [lead("There are none: only snapshots keep old states.")]
    return panel("references", "Tags, branches and consumers", *shown)


def schemas_panel(facts: TableFacts) -> SafeHtml:
    """Return the history of the schema."""
    versions = facts.schemas
    cells = (
        (f"{one.id}", instant(one.time_millis, date_only=True), f"{one.columns:,}",
         html_element("span", join_html(html_element("div", change, dir="auto") for change in one.changes)))
        for one in versions.shown
    )  # fmt: skip
    more = render_remainder(versions.left_out, "schemas")
    heads = ("Schema", "Made", "Columns", "Changes")
    shown = table(pluralize(versions.total, "schema"), heads, cells, more)
    return panel("schemas", "Schema history", shown)


# ---- Style -----------------------------------------------------------------------------------------------------------
# Texts have a contrast of at least 4.5 to what they are on, shapes of at least 3 to the panel; a test measures both.

LIGHT = {
    "page": "#f4f5f7",
    "panel": "#ffffff",
    "ink": "#1b2230",
    "soft": "#535d70",
    "edge": "#dde1e8",
    "track": "#e9ecf1",
    "accent": "#2a5bd7",
    "code": "#f1f3f7",
    "warn": "#96500a",
    "warn-back": "#fdf3e3",
    "append": "#3069e0",
    "overwrite": "#c2570c",
    "compact": "#0f8a6d",
    "analyze": "#8a5bd1",
    "level-0": "#c2570c",
    "level-1": "#8a7fe0",
    "level-2": "#6a78dd",
    "level-3": "#4c70d8",
    "level-4": "#3566c9",
    "level-5": "#2456a8",
    "small": "#c2570c",
    "good": "#0f8a6d",
    "lost": "#c23b4a",
}
DARK = {
    "page": "#10141b",
    "panel": "#181e28",
    "ink": "#e8ecf3",
    "soft": "#a3aec0",
    "edge": "#2c3543",
    "track": "#273040",
    "accent": "#8db0ff",
    "code": "#11161e",
    "warn": "#f3b562",
    "warn-back": "#2d2414",
    "append": "#6d9bff",
    "overwrite": "#f0954a",
    "compact": "#3fc29f",
    "analyze": "#b692f0",
    "level-0": "#f0954a",
    "level-1": "#b9b0ff",
    "level-2": "#9aa5ff",
    "level-3": "#83a0ff",
    "level-4": "#6d94f5",
    "level-5": "#5c86e6",
    "small": "#f0954a",
    "good": "#3fc29f",
    "lost": "#f0717f",
}
SHAPES = (
    "append", "overwrite", "compact", "analyze", "level-0", "level-1", "level-2", "level-3", "level-4", "level-5",
    "small", "good", "lost",
)  # fmt: skip

_RULES = """
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,
"Helvetica Neue",Arial,sans-serif}
main,header.top,footer{max-width:1120px;margin:0 auto;padding:0 20px}
header.top{padding-top:36px;padding-bottom:8px}
h1{font-size:30px;line-height:1.2;margin:0;letter-spacing:-.02em;overflow-wrap:anywhere}
h2{font-size:17px;margin:0 0 4px;letter-spacing:-.01em}
h3{font-size:15px;margin:0 0 4px}
p{margin:0 0 10px}
.eyebrow{color:var(--soft);font-size:13px;margin:0 0 6px}
.comment{font-size:16px;margin:8px 0 0;max-width:70ch;overflow-wrap:anywhere}
.chips{list-style:none;display:flex;flex-wrap:wrap;gap:6px;padding:0;margin:14px 0 0}
.chips li{border:1px solid var(--edge);background:var(--panel);border-radius:999px;padding:2px 11px;font-size:13px;
overflow-wrap:anywhere}
.tiles{display:grid;grid-template-columns:repeat(6,1fr);gap:12px;margin:22px 0;padding:0}
.tiles div{background:var(--panel);border:1px solid var(--edge);border-radius:12px;padding:12px 14px;min-width:0}
.tiles dt{color:var(--soft);font-size:13px}
.tiles dd{margin:0;font-size:22px;font-weight:650;letter-spacing:-.02em;font-variant-numeric:tabular-nums}
.tiles dd small{display:block;font-size:12.5px;font-weight:400;color:var(--soft);letter-spacing:0}
.two{columns:2;column-gap:16px;margin-bottom:16px}
.two .panel{break-inside:avoid}
.panel{background:var(--panel);border:1px solid var(--edge);border-radius:14px;padding:20px 22px;min-width:0;
margin:0 0 16px}
.lead{color:var(--soft);margin:0 0 14px;max-width:75ch}
.lead b,.lead strong{color:var(--ink);font-weight:600}
figure{margin:0 0 12px}
figcaption{font-size:13px;font-weight:600;margin:0 0 2px}
.chart{display:block;overflow:visible;font-size:12px}
.chart text{fill:var(--ink)}
.chart .tick{fill:var(--soft);font-variant-numeric:tabular-nums}
.chart .strong{fill:var(--ink);font-weight:600}
.chart .label{font-size:13px}
.chart .value{font-size:12.5px;fill:var(--soft);font-variant-numeric:tabular-nums}
.grid{stroke:var(--edge);stroke-width:1;stroke-dasharray:2 4}
.axis{stroke:var(--soft);stroke-width:1}
.mark{stroke:var(--ink);stroke-width:1.5;stroke-dasharray:4 3}
.track{fill:var(--track)}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:4px 16px;padding:0;margin:0 0 8px;font-size:13px;
color:var(--soft)}
.legend li{display:flex;align-items:center;gap:6px}
details{border-top:1px solid var(--edge);margin-top:12px;padding-top:8px}
summary{cursor:pointer;color:var(--accent);font-size:13.5px;border-radius:4px}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
.scroll{overflow-x:auto;margin:8px 0 0}
table{border-collapse:collapse;width:100%;font-size:13.5px}
caption{text-align:left;color:var(--soft);font-size:13px;padding-bottom:4px}
th,td{text-align:left;padding:5px 14px 5px 0;border-bottom:1px solid var(--edge);vertical-align:top;
overflow-wrap:break-word;max-width:420px}
th{color:var(--soft);font-weight:600;white-space:nowrap}
.number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.more{color:var(--soft);font-size:13px;margin:6px 0 0}
code,pre{font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
.advice{list-style:none;padding:0;margin:0;display:grid;gap:14px}
.advice>li{border-left:4px solid var(--accent);padding:2px 0 2px 16px;min-width:0}
.advice>li.urgent{border-left-color:var(--warn)}
.badge{display:inline-block;font-size:12px;font-weight:600;color:var(--warn);background:var(--warn-back);
border-radius:6px;padding:0 7px;margin-left:8px;vertical-align:1px}
.calls{display:grid;grid-template-columns:auto 1fr;gap:4px 12px;margin:8px 0 0;align-items:baseline}
.calls dt{color:var(--soft);font-size:13px}
.calls dd{margin:0;min-width:0}
.calls code{display:block;background:var(--code);border-radius:7px;padding:4px 10px;overflow-wrap:anywhere}
.problems{background:var(--warn-back);color:var(--ink);border:1px solid var(--warn);border-radius:12px;
padding:14px 18px;margin:0 0 16px;overflow-wrap:anywhere}
.facts{display:grid;grid-template-columns:auto 1fr;gap:4px 18px;margin:0}
.facts dt{color:var(--soft)}
.facts dd{margin:0;overflow-wrap:anywhere}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(240px,1fr));gap:26px}
.cards>div{min-width:0}
footer{color:var(--soft);font-size:13px;padding-top:10px;padding-bottom:40px}
@media (max-width:900px){.two{columns:1}.tiles{grid-template-columns:repeat(3,1fr)}}
@media (max-width:520px){table{min-width:420px}
main,header.top,footer{padding-left:12px;padding-right:12px}header.top{padding-top:22px}
h1{font-size:24px}.panel{padding:16px 14px}.tiles{grid-template-columns:1fr 1fr;gap:8px}.tiles dd{font-size:19px}
.calls{grid-template-columns:minmax(0,1fr)}.calls dd{margin-bottom:6px}}
@media print{body{background:#fff;font-size:12px}.panel,.tiles div{break-inside:avoid}
details::details-content{content-visibility:visible;block-size:auto}summary{display:none}.two{columns:1}}
"""


def style() -> str:
    """Return the style sheet of the page."""
    light, dark = (";".join(f"--{name}:{colour}" for name, colour in colours.items()) for colours in (LIGHT, DARK))
    shapes = "".join(f".{name}{{fill:var(--{name})}}" for name in SHAPES)
    return (
        f":root{{color-scheme:light dark;{light}}}\n"
        f"@media (prefers-color-scheme:dark){{:root{{{dark}}}}}\n"
        f"@media print{{:root{{{light}}}}}{_RULES}{shapes}"
    )


# ---- The page --------------------------------------------------------------------------------------------------------

_OPEN_COLUMNS_MAX = 12
# The page may load nothing at all: a name with markup in it could do no harm even if it were not escaped.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def page(facts: TableFacts) -> str:
    """Return the report as a whole document."""
    title = f"{facts.head.name} · table report"
    head = (
        SafeHtml('<meta charset="utf-8">'),
        html_element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        html_element("meta", name="color-scheme", content="light dark"),
        html_element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        html_element("meta", name="generator", content=f"lakewright {facts.version}"),
        html_element("title", title),
        SafeHtml(f"<style>{style()}</style>"),
    )
    two = (
        partitions_panel(facts),
        sizes_panel(facts),
        levels_panel(facts),
        reading_panel(facts),
        deleted_panel(facts),
        references_panel(facts),
        schemas_panel(facts),
    )
    body = (
        _top(facts),
        html_element(
            "main",
            _tiles(facts),
            _problems(facts),
            _advice_panel(facts),
            history_panel(facts),
            upkeep_panel(facts),
            html_element("div", *two, class_="two"),
            _about_panel(facts),
        ),
        _foot(facts),
    )
    page = html_element("html", html_element("head", *head), html_element("body", *body), lang="en")
    return f"<!DOCTYPE html>\n{page}\n"


def write_report(facts: TableFacts, path: str | None) -> str:
    """Return the page; with a path, write it to that file of this machine, all of it or nothing."""
    text = page(facts)
    if path is None:
        return text
    target = Path(path).resolve()
    if "://" in path or target.is_dir() or not target.absolute().parent.is_dir():
        raise InvalidInputError(
            f"a report is written to a file of this machine in a directory that exists, not to {path!r}; for other "
            "places take the text that report() returns",
            path=path,
        )
    partial = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}")
    try:
        if target.exists() and not target.is_file():  # a device or a pipe: a file in its place would destroy it
            target.write_text(text, encoding="utf-8")
            return text
        partial.write_text(text, encoding="utf-8")
        partial.replace(target)
    except OSError as error:
        raise InvalidInputError(f"the report cannot be written to {path!r}: {error}", path=path) from error
    finally:
        partial.unlink(missing_ok=True)
    return text


def _top(facts: TableFacts) -> SafeHtml:
    head, snapshot = facts.head, facts.snapshot
    state = (
        "nothing was written yet" if snapshot is None else f"snapshot {snapshot.id} of {instant(snapshot.time_millis)}"
    )
    branch = "" if head.branch == "main" else f" · branch {head.branch}"
    chips = join_html(html_element("li", text) for text in chips_of(facts))
    return html_element(
        "header",
        html_element("p", f"Table report · {state}{branch}", class_="eyebrow"),
        html_name(head.name, "h1"),
        html_element("p", head.comment, class_="comment", dir="auto") if head.comment else SafeHtml(),
        html_element("ul", chips, class_="chips"),
        class_="top",
    )


def chips_of(facts: TableFacts) -> Iterator[str]:
    """Yield what kind of table it is, in a few words each."""
    head = facts.head
    yield head.kind
    if head.primary_keys:
        yield f"key {', '.join(head.primary_keys)}"
    if head.partition_keys:
        yield f"by {', '.join(head.partition_keys)}"
    if head.buckets != "none":
        yield f"buckets: {head.buckets}"
    yield from head.details


def _tiles(facts: TableFacts) -> SafeHtml:
    totals, buckets = facts.totals, facts.buckets
    deleted = (buckets.deleted_rows + buckets.delete_rows) / totals.rows if totals.rows else 0.0
    mean = f"{format_bytes(totals.bytes / totals.files)} on average" if totals.files else ""
    tiles = (
        ("Rows stored", format_count(totals.rows), f"about {format_count(buckets.answered_rows)} in a read"),
        ("Size", format_bytes(totals.bytes), f"{totals.bytes:,} bytes"),
        ("Data files", format_count(totals.files), mean),
        ("Partitions", format_count(totals.partitions), pluralize(totals.buckets, "bucket")),
        (
            "Snapshots",
            format_count(facts.history.total),
            f"{pluralize(totals.manifests, 'manifest')}, {format_bytes(totals.manifest_bytes)}",
        ),
        ("Deleted rows", in_share(deleted), f"{buckets.deleted_rows + buckets.delete_rows:,} rows"),
    )
    shown = (
        html_element("div", html_element("dt", what), html_element("dd", number, html_element("small", more)))
        for what, number, more in tiles
    )
    return html_element("dl", join_html(shown), class_="tiles", id="tiles")


def _problems(facts: TableFacts) -> SafeHtml:
    if not facts.problems:
        return SafeHtml()
    items = join_html(html_element("li", text, dir="auto") for text in facts.problems)
    return html_element(
        "section",
        html_element("h2", "What could not be found out"),
        html_element("ul", items),
        class_="problems",
        id="problems",
    )


def _advice_panel(facts: TableFacts) -> SafeHtml:
    if not facts.advice:
        return panel("advice", "Advice", lead("The table is in good shape: there is nothing to do."))
    items = join_html(map(_advice, facts.advice))
    return panel("advice", "Advice", html_element("ul", items, class_="advice"))


def _advice(advice: Advice) -> SafeHtml:
    calls = (("Python", advice.python), ("Command line", advice.command), ("SQL", advice.sql))
    shown = join_html(
        join_html((html_element("dt", where), html_element("dd", html_element("code", call))))
        for where, call in calls
        if call
    )
    badge = html_element("span", "first", class_="badge") if advice.urgent else SafeHtml()
    return html_element(
        "li",
        html_element("h3", advice.title, badge),
        html_element("p", advice.why),
        html_element("dl", shown, class_="calls") if shown else SafeHtml(),
        class_="urgent" if advice.urgent else None,
    )


def _about_panel(facts: TableFacts) -> SafeHtml:
    head = facts.head
    pairs = [
        ("Place", html_name(head.path)),
        ("Kind", f"{head.kind}: {', '.join(head.details)}"),
        ("Primary key", join_html(_list_names(head.primary_keys))),
        ("Partitions", join_html(_list_names(head.partition_keys))),
        ("Buckets", head.buckets),
        ("Schema", f"{head.schema_id}"),
        ("Index files", f"{facts.totals.index_files:,}, {format_bytes(facts.totals.index_bytes)}"),
    ]
    listed = html_element(
        "dl", join_html(join_html((html_element("dt", k), html_element("dd", v))) for k, v in pairs), class_="facts"
    )
    columns = (
        (html_name(c.name), c.type, c.role, html_element("span", c.comment, dir="auto")) for c in head.columns.shown
    )
    more = render_remainder(head.columns.left_out, "columns")
    of_columns = table(pluralize(head.columns.total, "column"), ("Column", "Type", "Part of", "Comment"), columns, more)
    if head.columns.total > _OPEN_COLUMNS_MAX:
        of_columns = details(pluralize(head.columns.total, "column"), of_columns)
    options = (
        (html_element("code", o.key), html_element("span", o.value, dir="auto"), o.default) for o in head.options.shown
    )
    set_here = "Options that differ from their defaults"
    of_options = table(
        set_here, ("Option", "Value", "Default"), options, render_remainder(head.options.left_out, "options")
    )
    no_options = html_element("p", "All options have their defaults.", class_="more")
    inside = (listed, of_columns, of_options if head.options.total else no_options)
    return panel("about", "What it is", *inside)


def _list_names(names: tuple[str, ...]) -> Iterator[str]:
    if not names:
        yield "none"
    for at, one in enumerate(names):
        yield join_html((", " if at else "", html_name(one)))


def _foot(facts: TableFacts) -> SafeHtml:
    words = (
        f"Made by lakewright {facts.version} at {instant(facts.made_millis)} from the table's metadata alone. Rows "
        "stored count every version of a key; sizes are those of the files."
    )
    return html_element("footer", html_element("p", escape_html(words)))
