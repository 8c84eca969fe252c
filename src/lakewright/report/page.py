"""The page: the facts of a table in, one HTML document out that needs no network and no script."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

from lakewright.display.markup import Markup, and_more, element, escaped, joined, name, table
from lakewright.display.words import in_count, in_share, in_size, instant
from lakewright.errors import InvalidInputError, counted
from lakewright.report.facts import Advice, TableFacts
from lakewright.report.history import history_panel, references_panel, schemas_panel
from lakewright.report.panels import (
    deleted_panel,
    details,
    lead,
    levels_panel,
    panel,
    partitions_panel,
    reading_panel,
    sizes_panel,
    upkeep_panel,
)
from lakewright.report.style import style

_OPEN_COLUMNS_MAX = 12
# The page may load nothing at all: a name with markup in it could do no harm even if it were not escaped.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def page(facts: TableFacts) -> str:
    """Return the report as a whole document."""
    title = f"{facts.head.name} · table report"
    head = (
        Markup('<meta charset="utf-8">'),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="generator", content=f"lakewright {facts.version}"),
        element("title", title),
        Markup(f"<style>{style()}</style>"),
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
        element(
            "main",
            _tiles(facts),
            _problems(facts),
            _advice_panel(facts),
            history_panel(facts),
            upkeep_panel(facts),
            element("div", *two, class_="two"),
            _about_panel(facts),
        ),
        _foot(facts),
    )
    return f"<!DOCTYPE html>\n{element('html', element('head', *head), element('body', *body), lang='en')}\n"


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


def _top(facts: TableFacts) -> Markup:
    head, snapshot = facts.head, facts.snapshot
    state = (
        "nothing was written yet" if snapshot is None else f"snapshot {snapshot.id} of {instant(snapshot.time_millis)}"
    )
    branch = "" if head.branch == "main" else f" · branch {head.branch}"
    chips = joined(element("li", text) for text in chips_of(facts))
    return element(
        "header",
        element("p", f"Table report · {state}{branch}", class_="eyebrow"),
        name(head.name, "h1"),
        element("p", head.comment, class_="comment", dir="auto") if head.comment else Markup(),
        element("ul", chips, class_="chips"),
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


def _tiles(facts: TableFacts) -> Markup:
    totals, buckets = facts.totals, facts.buckets
    deleted = (buckets.deleted_rows + buckets.delete_rows) / totals.rows if totals.rows else 0.0
    mean = f"{in_size(totals.bytes / totals.files)} on average" if totals.files else ""
    tiles = (
        ("Rows stored", in_count(totals.rows), f"about {in_count(buckets.answered_rows)} in a read"),
        ("Size", in_size(totals.bytes), f"{totals.bytes:,} bytes"),
        ("Data files", in_count(totals.files), mean),
        ("Partitions", in_count(totals.partitions), counted(totals.buckets, "bucket")),
        (
            "Snapshots",
            in_count(facts.history.total),
            f"{counted(totals.manifests, 'manifest')}, {in_size(totals.manifest_bytes)}",
        ),
        ("Deleted rows", in_share(deleted), f"{buckets.deleted_rows + buckets.delete_rows:,} rows"),
    )
    shown = (
        element("div", element("dt", what), element("dd", number, element("small", more)))
        for what, number, more in tiles
    )
    return element("dl", joined(shown), class_="tiles", id="tiles")


def _problems(facts: TableFacts) -> Markup:
    if not facts.problems:
        return Markup()
    items = joined(element("li", text, dir="auto") for text in facts.problems)
    return element(
        "section", element("h2", "What could not be found out"), element("ul", items), class_="problems", id="problems"
    )


def _advice_panel(facts: TableFacts) -> Markup:
    if not facts.advice:
        return panel("advice", "Advice", lead("The table is in good shape: there is nothing to do."))
    items = joined(map(_advice, facts.advice))
    return panel("advice", "Advice", element("ul", items, class_="advice"))


def _advice(advice: Advice) -> Markup:
    calls = (("Python", advice.python), ("Command line", advice.command), ("SQL", advice.sql))
    shown = joined(
        joined((element("dt", where), element("dd", element("code", call)))) for where, call in calls if call
    )
    badge = element("span", "first", class_="badge") if advice.urgent else Markup()
    return element(
        "li",
        element("h3", advice.title, badge),
        element("p", advice.why),
        element("dl", shown, class_="calls") if shown else Markup(),
        class_="urgent" if advice.urgent else None,
    )


def _about_panel(facts: TableFacts) -> Markup:
    head = facts.head
    pairs = [
        ("Place", name(head.path)),
        ("Kind", f"{head.kind}: {', '.join(head.details)}"),
        ("Primary key", joined(_listed(head.primary_keys))),
        ("Partitions", joined(_listed(head.partition_keys))),
        ("Buckets", head.buckets),
        ("Schema", f"{head.schema_id}"),
        ("Index files", f"{facts.totals.index_files:,}, {in_size(facts.totals.index_bytes)}"),
    ]
    listed = element("dl", joined(joined((element("dt", k), element("dd", v))) for k, v in pairs), class_="facts")
    columns = ((name(c.name), c.type, c.role, element("span", c.comment, dir="auto")) for c in head.columns.shown)
    more = and_more(head.columns.left_out, "columns")
    of_columns = table(counted(head.columns.total, "column"), ("Column", "Type", "Part of", "Comment"), columns, more)
    if head.columns.total > _OPEN_COLUMNS_MAX:
        of_columns = details(counted(head.columns.total, "column"), of_columns)
    options = ((element("code", o.key), element("span", o.value, dir="auto"), o.default) for o in head.options.shown)
    set_here = "Options that differ from their defaults"
    of_options = table(set_here, ("Option", "Value", "Default"), options, and_more(head.options.left_out, "options"))
    no_options = element("p", "All options have their defaults.", class_="more")
    inside = (listed, of_columns, of_options if head.options.total else no_options)
    return panel("about", "What it is", *inside)


def _listed(names: tuple[str, ...]) -> Iterator[str]:
    if not names:
        yield "none"
    for at, one in enumerate(names):
        yield joined((", " if at else "", name(one)))


def _foot(facts: TableFacts) -> Markup:
    words = (
        f"Made by lakewright {facts.version} at {instant(facts.made_millis)} from the table's metadata alone. Rows "
        "stored count every version of a key; sizes are those of the files."
    )
    return element("footer", element("p", escaped(words)))
