"""`lakewright rollback` and `lakewright consumer`. No engine is needed."""

from __future__ import annotations

from dataclasses import asdict

import click

from lakewright.cli.base.ask import confirm, yes_option
from lakewright.cli.base.command import Argument, Arguments, Command, dry_run, flag, option, table_argument
from lakewright.cli.base.output import Output
from lakewright.cli.base.place import table_of
from lakewright.cli.base.values import moment
from lakewright.errors import counted
from lakewright.table.table import FileStoreTable

_ACTIONS = ("list", "reset", "clear")


def _rollback(args: Arguments, output: Output) -> None:
    table = table_of(args)
    target = _target(args, table)
    if args.as_latest and not args.dry_run:
        snapshot = table.rollback_to_as_latest(target)
        output.result({"snapshot_id": snapshot.id}, f"snapshot {snapshot.id} has the state of {target}")
        return
    if not args.dry_run:
        plan = table.rollback_to(target, dry_run=True)
        lost = f"{counted(len(plan.snapshot_ids), 'snapshot')} and {counted(len(plan.tags), 'tag')}"
        confirm(args, f"Remove {lost} of {table.name} after snapshot {plan.snapshot_id}?")
    result = table.rollback_to(target, dry_run=args.dry_run)
    verb = "would remove" if result.dry_run else "removed"
    for what, names in (("snapshot", result.snapshot_ids), ("tag", result.tags)):
        for name in () if args.as_latest else names:
            output.say(f"{verb} {what} {name}")
    gone = f"{counted(len(result.snapshot_ids), 'snapshot')} and {counted(len(result.tags), 'tag')}"
    text = "nothing would go" if args.as_latest else f"{verb} {gone} after snapshot {result.snapshot_id}"
    output.result(asdict(result), text)


def _target(args: Arguments, table: FileStoreTable) -> int | str:
    given = [one for one in (args.target, args.timestamp, args.watermark) if one is not None]
    if len(given) != 1:
        raise click.UsageError("rollback takes one of TARGET, --timestamp and --watermark")
    if args.watermark is not None:
        return table.store.snapshots.up_to_watermark(args.watermark).id
    if args.timestamp is not None:
        found = table.snapshot(timestamp=args.timestamp)
        return 0 if found is None else found.id
    return int(args.target) if args.target.isdecimal() else str(args.target)


def _consumer(args: Arguments, output: Output) -> None:
    table = table_of(args)
    match args.action:
        case "reset":
            if args.name is None:
                raise click.UsageError("reset needs the name of a consumer")
            table.reset_consumer(args.name, args.next)
            output.result({"consumer": args.name, "next_snapshot": args.next}, f"consumer {args.name}: done")
        case "clear":
            cleared = table.clear_consumers(args.name)
            output.result({"cleared": cleared}, f"forgot {counted(len(cleared), 'consumer')}")
        case _:
            rows = [{"consumer": name, "next_snapshot": number} for name, number in table.list_consumers().items()]
            output.table(rows, empty=f"{table.name} has no consumers")


_ACTION = "list, reset (on to another snapshot) or clear"
COMMANDS = (
    Command(
        "rollback",
        _rollback,
        table_argument(),
        Argument("target", "[TARGET]", "the id of a snapshot, or the name of a tag", required=False),
        option(
            "--timestamp",
            type=moment,
            metavar="TIME",
            help="to the state at a time: 2026-01-31T12:00:00+01:00, UTC without a zone, or an age such as 2h",
        ),
        option("--watermark", type=int, metavar="N", help="to the last snapshot with no higher watermark"),
        flag("--as-latest", help="publish that state as a new snapshot, remove nothing"),
        dry_run("remove nothing, say what would go"),
        yes_option(),
        more="Asks before it removes snapshots, unless --yes is given.",
    ),
    Command(
        "consumer",
        _consumer,
        table_argument(),
        Argument("action", "[ACTION]", _ACTION, type=click.Choice(_ACTIONS), default="list"),
        Argument("name", "[NAME]", "reset: the consumer; clear: a regular expression", required=False),
        option("--next", type=int, metavar="N", help="reset: the snapshot to go on at; without it, forget it"),
    ),
)
