"""Procedures on tags, branches, rollback, consumers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from lakewright.errors import InvalidInputError, NotFoundError
from lakewright.spec import argument_checks
from lakewright.spec.snapshot import Snapshot, Tag
from lakewright.statements.procedure import ProcedureArguments, Rows, procedure
from lakewright.table.file_store_table import FileStoreTable

DONE: Rows = [(True,)]
_TAGGED = "tagName STRING, snapshot BIGINT, commit_time BIGINT, watermark STRING"


def _names(text: str) -> list[str]:
    """Return the names of `a,b`."""
    return [name.strip() for name in text.split(",") if name.strip()]


def _check_known(names: Iterable[str], check: Callable[[str], object]) -> None:
    """Raise an error before anything is done if one of the names is unknown."""
    for name in names:
        check(name)


# ---- tags ------------------------------------------------------------------------------------------------------------


@procedure(
    "create_tag(table STRING, tag STRING, snapshot? BIGINT, time_retained? STRING) -> result BOOLEAN",
    "Give a snapshot, the newest unless one is named, a name that keeps its files from expiring.",
)
def create_tag(given: ProcedureArguments) -> Rows:
    """See the declaration."""
    given.table().create_tag(given.text("tag"), given.number("snapshot"), time_retained=_time_retained(given))
    return DONE


@procedure(
    f"create_tag_from_timestamp(table STRING, tag STRING, timestamp? MOMENT, time_retained? STRING) -> {_TAGGED}",
    "Give the first snapshot, retained or tagged, that was committed at a time or later a name.",
)
def create_tag_from_timestamp(given: ProcedureArguments) -> Rows:
    """See the declaration."""
    table, millis = given.table(), given.number("timestamp") or 0
    found = min((one for one in _known_snapshots(table) if one.time_millis >= millis), key=_age, default=None)
    if found is None:
        raise NotFoundError(f"{table.name}: no snapshot was committed at {millis} ms or later", table=table.name)
    return _create_tag(given, table, found)


@procedure(
    f"create_tag_from_watermark(table STRING, tag STRING, watermark BIGINT, time_retained? STRING) -> {_TAGGED}",
    "Give the first snapshot, retained or tagged, whose watermark has reached a value a name.",
)
def create_tag_from_watermark(given: ProcedureArguments) -> Rows:
    """See the declaration."""
    table, least = given.table(), given.number("watermark") or 0
    reached = (one for one in _known_snapshots(table) if one.watermark is not None and one.watermark >= least)
    found = min(reached, key=_age, default=None)
    if found is None:
        raise NotFoundError(f"{table.name}: the watermark of no snapshot has reached {least}", table=table.name)
    return _create_tag(given, table, found)


def _known_snapshots(table: FileStoreTable) -> list[Snapshot]:
    """Return the snapshots that exist, and those that tags keep."""
    found = (table.store.snapshots.find(snapshot_id) for snapshot_id in table.store.snapshots.ids())
    return [*(one for one in found if one is not None), *(tag.snapshot for tag in table.store.tags.all())]


def _age(snapshot: Snapshot) -> tuple[int, int]:
    return snapshot.time_millis, snapshot.id


def _create_tag(given: ProcedureArguments, table: FileStoreTable, snapshot: Snapshot) -> Rows:
    table.store.check_same_table()
    kept = _time_retained(given)
    if kept is None:
        kept = table.store.options.tag_default_time_retained
    tag: Tag = table.store.tags.create(given.text("tag"), snapshot, time_retained_millis=kept)
    return [(tag.name, snapshot.id, snapshot.time_millis, _watermark(snapshot))]


def _watermark(snapshot: Snapshot) -> str:
    return "null" if snapshot.watermark is None else str(snapshot.watermark)


def _time_retained(given: ProcedureArguments) -> int | None:
    return given.convert_value("time_retained", argument_checks.to_duration_millis)


@procedure(
    "rename_tag(table STRING, tag STRING, target_tag STRING) -> result BOOLEAN",
    "Give a tag another name.",
)
def rename_tag(given: ProcedureArguments) -> Rows:
    """See the declaration."""
    given.table().rename_tag(given.text("tag"), given.text("target_tag"))
    return DONE


@procedure(
    "replace_tag(table STRING, tag STRING, snapshot? BIGINT, time_retained? STRING) -> result BOOLEAN",
    "Let a tag name another snapshot, the newest unless one is named.",
)
def replace_tag(given: ProcedureArguments) -> Rows:
    """See the declaration."""
    given.table().replace_tag(given.text("tag"), given.number("snapshot"), _time_retained(given))
    return DONE


@procedure(
    "delete_tag(table STRING, tag STRING) -> result BOOLEAN",
    "Delete a tag, or several: 'a,b'.",
)
def delete_tag(given: ProcedureArguments) -> Rows:
    """See the declaration."""
    table, names = given.table(), _names(given.text("tag"))
    _check_known(names, table.store.tags.get)
    for name in names:
        table.delete_tag(name)
    return DONE


@procedure(
    "expire_tags(table STRING, older_than? STRING) -> expired_tags STRING NOT NULL",
    "Delete the tags whose time is over, and with older_than all that were created before.",
)
def expire_tags(given: ProcedureArguments) -> Rows:
    """See the declaration."""
    expired = given.table().expire_tags(given.convert_value("older_than", argument_checks.to_epoch_millis))
    return [(name,) for name in expired] or [("No expired tags.",)]


@procedure(
    "trigger_tag_automatic_creation(table STRING) -> result BOOLEAN",
    "Create the tags that are due by 'tag.automatic-creation'.",
)
def trigger_tag_automatic_creation(given: ProcedureArguments) -> Rows:
    """See the declaration."""
    given.table().create_due_tags()
    return DONE


# ---- branches --------------------------------------------------------------------------------------------------------


@procedure(
    "create_branch(table STRING, branch STRING, tag? STRING, ignoreIfExists? BOOLEAN) -> result BOOLEAN",
    "Make a branch at the state of a tag; without a tag, an empty one.",
)
def create_branch(given: ProcedureArguments) -> Rows:
    """See the declaration."""
    table, name = given.table(), given.text("branch")
    if not (given.flag("ignoreIfExists") and name in table.list_branches()):
        table.create_branch(name, given.optional_text("tag"))
    return DONE


@procedure(
    "delete_branch(table STRING, branch STRING) -> result BOOLEAN",
    "Drop a branch, or several: 'a,b'.",
)
def delete_branch(given: ProcedureArguments) -> Rows:
    """See the declaration."""
    table, names = given.table(), _names(given.text("branch"))
    known = table.list_branches()
    # The first unknown name is dropped first: the table's own error says which branches there are.
    for name in sorted(names, key=lambda one: one in known):
        table.drop_branch(name)
    return DONE


@procedure(
    "rename_branch(table STRING, from_branch STRING, to_branch STRING) -> result BOOLEAN",
    "Give a branch another name.",
)
def rename_branch(given: ProcedureArguments) -> Rows:
    """See the declaration."""
    given.table().rename_branch(given.text("from_branch"), given.text("to_branch"))
    return DONE


@procedure(
    "fast_forward(table STRING, branch STRING, allow_loss? BOOLEAN) -> result BOOLEAN",
    "Bring the table to the state of a branch; rows or tags that it does not have are lost only with allow_loss.",
)
def fast_forward(given: ProcedureArguments) -> Rows:
    """See the declaration."""
    given.table().fast_forward(given.text("branch"), allow_loss=given.flag("allow_loss"))
    return DONE


# ---- going back ------------------------------------------------------------------------------------------------------


@procedure(
    "rollback(table STRING, version? STRING, snapshot? BIGINT, tag? STRING) -> result BOOLEAN",
    "Bring the table back to a snapshot or a tag; version is the id of a snapshot or the name of a tag.",
)
def rollback(given: ProcedureArguments) -> Rows:
    """See the declaration."""
    named = [name for name in ("version", "snapshot", "tag") if name in given.values]
    if len(named) != 1:
        raise given.error("table", f"rollback takes one of version, snapshot and tag, not {len(named)} of them")
    text = given.text(named[0]).strip()
    is_id = named[0] != "tag" and text.isdecimal()
    given.table().rollback_to(int(text) if is_id else text)
    return DONE


@procedure(
    "rollback_to_timestamp(table STRING, timestamp MOMENT) -> result STRING",
    "Bring the table back to the last snapshot that was committed at a time or before.",
)
def rollback_to_timestamp(given: ProcedureArguments) -> Rows:
    """See the declaration."""
    table = given.table()
    return _rolled_back(table, table.store.snapshots.at_timestamp(given.number("timestamp") or 0))


@procedure(
    "rollback_to_watermark(table STRING, watermark BIGINT) -> result STRING",
    "Bring the table back to the last snapshot whose watermark is not above a value.",
)
def rollback_to_watermark(given: ProcedureArguments) -> Rows:
    """See the declaration."""
    table = given.table()
    return _rolled_back(table, table.store.snapshots.up_to_watermark(given.number("watermark") or 0))


@procedure(
    "rollback_to_as_latest(table STRING, snapshot_id? BIGINT, tag? STRING) -> result BOOLEAN",
    "Publish the state of a snapshot or a tag as a new snapshot on top; nothing is removed.",
)
def rollback_to_as_latest(given: ProcedureArguments) -> Rows:
    """See the declaration."""
    snapshot_id, tag = given.number("snapshot_id"), given.optional_text("tag")
    target = tag if snapshot_id is None else snapshot_id
    if target is None or (tag is not None and snapshot_id is not None):
        raise given.error("table", "rollback_to_as_latest takes one of snapshot_id and tag")
    given.table().rollback_to_as_latest(target)
    return DONE


def _rolled_back(table: FileStoreTable, snapshot: Snapshot) -> Rows:
    table.rollback_to(snapshot.id)
    return [(f"Success roll back to snapshot: {snapshot.id} .",)]


# ---- consumers -------------------------------------------------------------------------------------------------------


@procedure(
    "reset_consumer(table STRING, consumerId STRING, nextSnapshotId? BIGINT) -> result BOOLEAN",
    "Let a consumer go on at a snapshot; without one, delete the consumer.",
)
def reset_consumer(given: ProcedureArguments) -> Rows:
    """See the declaration."""
    given.table().reset_consumer(given.text("consumerId"), given.number("nextSnapshotId"))
    return DONE


@procedure(
    "clear_consumers(table STRING, includingConsumers? STRING, excludingConsumers? STRING) -> result BOOLEAN",
    "Delete the consumers whose names match a regular expression and do not match another one.",
)
def clear_consumers(given: ProcedureArguments) -> Rows:
    """See the declaration."""
    patterns = (pattern(given, name) for name in ("includingConsumers", "excludingConsumers"))
    given.table().clear_consumers(*(None if one is None else one.pattern for one in patterns))
    return DONE


def pattern(given: ProcedureArguments, name: str) -> re.Pattern[str] | None:
    """Return a regular expression that whole names have to match; None if it was left out or is empty."""

    def compile_pattern(argument: str, value: object) -> re.Pattern[str] | None:
        try:
            return re.compile(str(value)) if value else None
        except re.error as error:
            raise InvalidInputError(f"{argument} takes a regular expression: {error}") from None

    return given.convert_value(name, compile_pattern)


PROCEDURES = (
    create_tag,
    create_tag_from_timestamp,
    create_tag_from_watermark,
    rename_tag,
    replace_tag,
    delete_tag,
    expire_tags,
    trigger_tag_automatic_creation,
    create_branch,
    delete_branch,
    rename_branch,
    fast_forward,
    rollback,
    rollback_to_timestamp,
    rollback_to_watermark,
    rollback_to_as_latest,
    reset_consumer,
    clear_consumers,
)
