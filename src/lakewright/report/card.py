"""A table in a notebook: a store in, a small piece of markup out. The small sister of the page.

Always holds: it never raises and never takes long. It reads the newest snapshot and a bounded number of manifests, and
shows the columns alone where these cannot be read. Its styles are inline and take the colours of the notebook.
"""

from __future__ import annotations

from collections.abc import Iterator

from lakewright.display.markup import Markup, and_more, element, joined, name
from lakewright.display.words import in_count, in_size, instant
from lakewright.errors import LakewrightError, counted
from lakewright.metadata.store import TableStore
from lakewright.report.facts import Head
from lakewright.report.head import head_of

MANIFESTS_MAX = 20
ENTRIES_MAX = 20_000
COLUMNS_MAX = 12
_SOFT = "opacity:.75"
_CELL = "text-align:left;padding:2px 16px 2px 0"


def card(store: TableStore) -> str:
    """Return the table as a notebook shows it."""
    head = head_of(store)
    try:
        state = " · ".join(_state(store))
    except (LakewrightError, OSError, ValueError) as error:
        state = f"its snapshot could not be read: {type(error).__name__}"
    rows = joined(
        element(
            "tr",
            element("td", name(column.name), style=_CELL),
            element("td", element("code", column.type), style=_CELL),
            element("td", column.role, style=f"{_CELL};{_SOFT}"),
        )
        for column in head.columns.shown[:COLUMNS_MAX]
    )
    more = and_more(head.columns.total - min(COLUMNS_MAX, len(head.columns.shown)), "columns")
    return element(
        "div",
        element("div", element("strong", name(head.name)), element("span", f" · {_kind(head)}", style=_SOFT)),
        element("div", head.comment, dir="auto") if head.comment else Markup(),
        element("div", state, style=_SOFT),
        element("table", element("tbody", rows), style="border-collapse:collapse;margin:6px 0"),
        element("div", more, style=_SOFT) if more else Markup(),
        style="border-left:4px solid #4c7fe0;padding:4px 14px;color:inherit;background:transparent;max-width:60em",
    )


def _kind(head: Head) -> str:
    return " · ".join((head.kind, *(() if head.buckets == "none" else (head.buckets,))))


def _state(store: TableStore) -> Iterator[str]:
    """Yield the newest snapshot and, where few manifests say so, the number and size of its files."""
    snapshot = store.snapshots.latest()
    if snapshot is None:
        yield "nothing was written yet"
        return
    yield f"snapshot {snapshot.id} of {instant(snapshot.time_millis)}"
    if snapshot.total_record_count is not None:
        yield f"{in_count(snapshot.total_record_count)} rows stored"
    manifests = store.manifests.files_of(snapshot)
    entries = sum(file.num_added_files + file.num_deleted_files for file in manifests)
    if len(manifests) <= MANIFESTS_MAX and entries <= ENTRIES_MAX:
        files = [entry.file for entry in store.manifests.live(snapshot)]
        yield f"{counted(len(files), 'file')}, {in_size(sum(file.file_size for file in files))}"
