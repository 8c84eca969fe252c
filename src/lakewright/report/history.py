"""The panels of the page about the past: snapshots over time, tags, branches, consumers, schemas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from lakewright.display.markup import Markup, and_more, element, joined, name, table
from lakewright.display.words import in_count, in_size, instant
from lakewright.errors import counted
from lakewright.report.charts import Part, columns, legend
from lakewright.report.facts import Commit, TableFacts
from lakewright.report.panels import details, figure, lead, panel

KINDS = ("APPEND", "OVERWRITE", "COMPACT", "ANALYZE")
BINS_MAX = 60
ROWS_MAX = 50


def history_panel(facts: TableFacts) -> Markup:
    """Return the snapshots over time by kind, and how rows and bytes grew with them."""
    commits = facts.history.shown[::-1]
    if not commits:
        return panel("history", "Snapshots over time", lead("There is no snapshot."))
    kinds = Counter(commit.kind for commit in commits)
    by_kind = ", ".join(f"{kinds[kind]:,} {kind.lower()}" for kind in KINDS if kinds[kind])
    words = f"{counted(facts.history.total, 'snapshot')} from {instant(commits[0].time_millis)} to "
    words += f"{instant(commits[-1].time_millis)}: {by_kind}."
    if facts.history.left_out:
        words += f" The {facts.history.left_out:,} oldest are not drawn."
    bins = _bins(commits)
    charts = [figure(_kinds_chart(bins, commits, words), "Snapshots")]
    charts += _sums(bins, commits)
    cells = (
        (f"{one.id}", instant(one.time_millis), one.kind.lower(), _number(one.total_rows), _number(one.delta_rows),
         _size(one.total_bytes), _size(one.added_bytes), _size(one.removed_bytes), name(one.user))
        for one in facts.history.shown[:ROWS_MAX]
    )  # fmt: skip
    heads = ("Snapshot", "Time", "Kind", "Rows", "Change", "Size", "Added", "Removed", "User")
    more = and_more(facts.history.total - min(ROWS_MAX, len(commits)), "snapshots")
    as_table = table("The newest snapshots", heads, cells, more)
    colours = legend((kind.lower(), kind.lower()) for kind in KINDS if kinds[kind])
    grid = element("div", joined(charts), class_="cards")
    sections = (lead(words), colours, grid, details("As a table", as_table))
    return panel("history", "Snapshots over time", *sections)


def _number(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def _size(size: int | None) -> str:
    return "-" if size is None else in_size(size)


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


def _kinds_chart(bins: Sequence[Sequence[Commit]], commits: Sequence[Commit], words: str) -> Markup:
    stacks = []
    for some in bins:
        counts = Counter(one.kind for one in some)
        stacks.append(
            [Part(kind.lower(), counts[kind], f"{counts[kind]:,} {kind.lower()}") for kind in KINDS if counts[kind]]
        )
    top = counted(max(len(some) for some in bins), "snapshot")
    return columns("Snapshots over time by kind", words, stacks, ticks=_ends(commits), top=top)


def _sums(bins: Sequence[Sequence[Commit]], commits: Sequence[Commit]) -> list[Markup]:
    """Return rows and bytes over time."""
    rows = _carried([[one.total_rows for one in some] for some in bins])
    sizes = _carried([[one.total_bytes for one in some] for some in bins])
    ends = _ends(commits)
    of_rows = [[Part("append", number, in_count(number))] for number in rows]
    of_bytes = [[Part("compact", size, in_size(size))] for size in sizes]
    grown = f"{in_count(rows[0])} rows at first and {in_count(rows[-1])} at last"
    by_bytes = f"{in_size(sizes[0])} at first and {in_size(sizes[-1])} at last"
    return [
        figure(columns("Rows over time", grown, of_rows, ticks=ends, top=in_count(max(rows))), "Rows"),
        figure(columns("Bytes over time", by_bytes, of_bytes, ticks=ends, top=in_size(max(sizes))), "Size"),
    ]


def _carried(bins: Sequence[Sequence[int | None]]) -> list[int]:
    """Return the last known number of each piece of time; one without any has that of the piece before it.

    >>> _carried([[1, 2], [], [None], [5, None]])
    [2, 2, 2, 5]
    """
    values, known = [], 0
    for some in bins:
        known = next((value for value in reversed(some) if value is not None), known)
        values.append(known)
    return values


def references_panel(facts: TableFacts) -> Markup:
    """Return tags, branches and consumers, which keep old states."""
    tags, branches, consumers = facts.references.tags, facts.references.branches, facts.references.consumers
    parts = []
    if tags.total:
        cells = (
            (name(tag.name), f"{tag.snapshot_id}", instant(tag.time_millis), _number(tag.rows), tag.kept)
            for tag in tags.shown
        )
        heads = ("Tag", "Snapshot", "Of", "Rows", "Kept")
        parts.append(table(counted(tags.total, "tag"), heads, cells, and_more(tags.left_out, "tags")))
    if branches.total:
        title = f"{branches.total:,} branch{'es' if branches.total > 1 else ''}"
        parts.append(
            table(title, ("Branch",), ((name(one),) for one in branches.shown), and_more(branches.left_out, "branches"))
        )
    if consumers.total:
        positions = ((name(one.name), f"{one.next_snapshot}", f"{one.behind:,}") for one in consumers.shown)
        more = and_more(consumers.left_out, "consumers")
        parts.append(table(counted(consumers.total, "consumer"), ("Consumer", "Reads next", "Behind"), positions, more))
    shown = parts or [lead("There are none: only snapshots keep old states.")]
    return panel("references", "Tags, branches and consumers", *shown)


def schemas_panel(facts: TableFacts) -> Markup:
    """Return the history of the schema."""
    versions = facts.schemas
    cells = (
        (f"{one.id}", instant(one.time_millis, date_only=True), f"{one.columns:,}",
         element("span", joined(element("div", change, dir="auto") for change in one.changes)))
        for one in versions.shown
    )  # fmt: skip
    more = and_more(versions.left_out, "schemas")
    heads = ("Schema", "Made", "Columns", "Changes")
    shown = table(counted(versions.total, "schema"), heads, cells, more)
    return panel("schemas", "Schema history", shown)
