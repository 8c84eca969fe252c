"""Marks that a partition is complete: specs in; a file in each partition's directory out, or what the options name.

What always holds: all actions and partitions are checked before anything is written, and marking twice is harmless.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakewright.commit.plan import partition_selector, select_partitions
from lakewright.errors import InvalidInputError, NotFoundError, UnsupportedError
from lakewright.maintenance.partitions import live_partitions
from lakewright.maintenance.tags import mark_success
from lakewright.metadata.store import TableStore, spec_name
from lakewright.spec.options import CoreOptions

_SUCCESS_FILE = "success-file"
_REFUSED = {
    "done-partition": "it registers a partition in a metastore, which no catalog here has",
    "mark-event": "it tells a metastore, which no catalog here has",
    "http-report": "nothing is sent to a server: send the report after the call",
    "custom": "it calls a class of Java",
}


def mark_done(
    store: TableStore, specs: Sequence[Mapping[str, object]], *, now_millis: int | None = None
) -> list[dict[str, str]]:
    """Mark each partition that agrees with a spec as done; each spec must agree with one. Return the partitions."""
    _check_actions(store)
    if not store.schema.partition_keys or not specs:
        raise InvalidInputError(f"{store.name}: name at least one partition that is done", table=store.name)
    live = list(live_partitions(store))
    chosen: dict[bytes, None] = {}
    for spec in specs:
        selects = partition_selector(store, select_partitions(store, [spec]))
        found = [partition for partition in live if selects(partition)]
        if not found:
            shown = spec_name({key: str(value) for key, value in spec.items()})
            raise NotFoundError(f"{store.name} has no partition {shown}", table=store.name)
        chosen |= dict.fromkeys(found)
    store.check_same_table()
    for partition in chosen:
        mark_success(store, f"{store.layout.root}/{store.partition_directory(partition)}/_SUCCESS", now_millis)
    return [store.partition_spec(partition) for partition in chosen]


def _check_actions(store: TableStore) -> None:
    option = CoreOptions.PARTITION_MARK_DONE_ACTION
    for action in store.options.get(option).split(","):
        word = action.strip().lower()
        if word != _SUCCESS_FILE:
            reason = _REFUSED.get(word, f"the actions are {', '.join((_SUCCESS_FILE, *_REFUSED))}")
            raise UnsupportedError(
                f"{store.name}: the action {action.strip()!r} of {option.key()!r} is not built: {reason}; set the "
                f"option to {_SUCCESS_FILE!r}",
                table=store.name,
                option=option.key(),
            )
