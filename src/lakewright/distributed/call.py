"""The call of a user: its arguments in, an error or nothing out. What no engine can do is refused before tasks run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakewright.calls import check_mode, check_partitions
from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.table.table import FileStoreTable
from lakewright.update.merge.upsert import needs_lookup


def check_call(
    table: FileStoreTable,
    mode: str,
    *,
    partitions: Mapping[str, object] | None = None,
    schema_mode: str | None = None,
    concurrency: int | None = None,
    progress: object = None,
) -> None:
    """Refuse what no engine can do, before anything runs."""
    check_mode(table, mode, schema_mode)
    check_partitions(table, mode, partitions)
    check_concurrency(concurrency)
    check_progress(progress)


def check_concurrency(concurrency: int | None) -> None:
    """Raise InvalidInputError unless concurrency is a whole number of at least 1, or not given."""
    is_integer = isinstance(concurrency, int) and not isinstance(concurrency, bool)
    if concurrency is not None and (not is_integer or concurrency < 1):
        raise InvalidInputError(f"concurrency is a number of tasks, at least 1, not {concurrency!r}")


def check_progress(progress: object) -> None:
    """Raise InvalidInputError unless progress is a function, or says whether there is a bar."""
    if progress is not None and not isinstance(progress, bool) and not callable(progress):
        raise InvalidInputError(f"progress is a function that gets a Progress, True or False, not {progress!r}")


def refuse_lookup(table: FileStoreTable, columns: Sequence[str]) -> None:
    """Refuse an upsert whose data lacks columns, if this write would lose the values of existing rows in them."""
    if needs_lookup(table.store, columns):
        lacking = [name for name in table.field_names if name not in columns]
        raise UnsupportedError(
            f"{table.name}: the data lacks {', '.join(map(repr, lacking))}, which must be looked up to stay as "
            "they are, and this write cannot do that; give all columns, or use mode='append', which makes them null "
            "or their default",
            table=table.name,
        )
