"""Commands that change the history of a table: branches, tags, rollback, consumers. No engine is needed."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from lakewright.cli.command import Command, dry_run, one_table, table_of
from lakewright.cli.output import Output
from lakewright.cli.tables import instant
from lakewright.errors import InvalidInputError, counted
from lakewright.table.table import FileStoreTable


def _actions(parser: argparse.ArgumentParser, *actions: str) -> None:
    one_table(parser)
    parser.add_argument("action", nargs="?", default="list", choices=["list", *actions], help="what to do (list)")
    parser.add_argument("name", nargs="?", metavar="NAME", help="of what; not for list")
    parser.add_argument("new_name", nargs="?", metavar="NEW", help="the other name, for rename")


def _name(args: argparse.Namespace) -> str:
    if args.name is None:
        raise InvalidInputError(f"{args.action} needs a name: lakewright {args.command.name} DB.T {args.action} NAME")
    return str(args.name)


def _new_name(args: argparse.Namespace) -> str:
    if args.new_name is None:
        raise InvalidInputError(f"rename needs two names: lakewright {args.command.name} DB.T rename NAME NEW")
    return str(args.new_name)


def _branch_arguments(parser: argparse.ArgumentParser) -> None:
    _actions(parser, "create", "drop", "rename", "fast-forward")
    parser.add_argument("--tag", metavar="TAG", help="create: at the state of this tag")
    parser.add_argument("--snapshot", type=int, metavar="N", help="create: at the state of this snapshot")


def _branch(args: argparse.Namespace, output: Output) -> None:
    table = table_of(args)
    match args.action:
        case "create":
            table.create_branch(_name(args), args.tag, snapshot_id=args.snapshot)
        case "drop":
            table.drop_branch(_name(args))
        case "rename":
            table.rename_branch(_name(args), _new_name(args))
        case "fast-forward":
            table.fast_forward(_name(args))
        case _:
            output.table([{"branch": one} for one in table.list_branches()], empty=f"{table.name} has no branches")
            return
    _done(args, output, table)


def _tag_arguments(parser: argparse.ArgumentParser) -> None:
    _actions(parser, "create", "delete", "rename")
    parser.add_argument("--snapshot", type=int, metavar="N", help="create: of this snapshot (the newest)")
    parser.add_argument("--retain", metavar="AGE", help="create: how long it stays, such as 7d (for ever)")


def _tag(args: argparse.Namespace, output: Output) -> None:
    table = table_of(args)
    match args.action:
        case "create":
            table.create_tag(_name(args), args.snapshot, time_retained=args.retain)
        case "delete":
            table.delete_tag(_name(args))
        case "rename":
            table.rename_tag(_name(args), _new_name(args))
        case _:
            rows = [
                {"tag": tag.name, "snapshot": tag.snapshot.id, "committed": instant(tag.snapshot.time_millis)}
                for tag in table.store.tags.all()
            ]
            output.table(rows, empty=f"{table.name} has no tags")
            return
    _done(args, output, table)


def _done(args: argparse.Namespace, output: Output, table: FileStoreTable) -> None:
    names = [name for name in (args.name, args.new_name) if name is not None]
    facts = {"table": table.name, "action": args.action, "names": names}
    output.result(facts, f"{table.name}: {args.command.name} {args.action} {' '.join(names)}: done")


def _rollback_arguments(parser: argparse.ArgumentParser) -> None:
    one_table(parser)
    parser.add_argument("target", nargs="?", metavar="TARGET", help="the id of a snapshot, or the name of a tag")
    parser.add_argument("--timestamp", metavar="TIME", help="to the last snapshot that is not later: an ISO time")
    parser.add_argument("--watermark", type=int, metavar="N", help="to the last snapshot with no higher watermark")
    parser.add_argument("--as-latest", action="store_true", help="publish that state as a new snapshot, remove nothing")
    dry_run(parser, "remove nothing, say what would go")


def _rollback(args: argparse.Namespace, output: Output) -> None:
    table = table_of(args)
    target = _target(args, table)
    if args.as_latest and not args.dry_run:
        snapshot = table.rollback_to_as_latest(target)
        output.result({"snapshot_id": snapshot.id}, f"snapshot {snapshot.id} has the state of {target}")
        return
    result = table.rollback_to(target, dry_run=args.dry_run)
    verb = "would remove" if result.dry_run else "removed"
    for what, names in (("snapshot", result.snapshot_ids), ("tag", result.tags)):
        for name in () if args.as_latest else names:
            output.say(f"{verb} {what} {name}")
    gone = f"{counted(len(result.snapshot_ids), 'snapshot')} and {counted(len(result.tags), 'tag')}"
    text = "nothing would go" if args.as_latest else f"{verb} {gone} after snapshot {result.snapshot_id}"
    output.result(asdict(result), text)


def _target(args: argparse.Namespace, table: FileStoreTable) -> int | str:
    given = [one for one in (args.target, args.timestamp, args.watermark) if one is not None]
    if len(given) != 1:
        raise InvalidInputError("rollback takes one of TARGET, --timestamp and --watermark")
    if args.watermark is not None:
        return table.store.snapshots.up_to_watermark(args.watermark).id
    if args.timestamp is not None:
        found = table.snapshot(timestamp=args.timestamp)
        return 0 if found is None else found.id
    return int(args.target) if args.target.isdecimal() else str(args.target)


def _consumer_arguments(parser: argparse.ArgumentParser) -> None:
    one_table(parser)
    parser.add_argument("action", nargs="?", default="list", choices=["list", "reset", "clear"], help="what to do")
    parser.add_argument("name", nargs="?", metavar="NAME", help="reset: the consumer; clear: a regular expression")
    parser.add_argument("--next", type=int, metavar="N", help="reset: the snapshot to go on at; without it, forget it")


def _consumer(args: argparse.Namespace, output: Output) -> None:
    table = table_of(args)
    match args.action:
        case "reset":
            table.reset_consumer(_name(args), args.next)
            output.result({"consumer": args.name, "next_snapshot": args.next}, f"consumer {args.name}: done")
        case "clear":
            cleared = table.clear_consumers(args.name)
            output.result({"cleared": cleared}, f"forgot {counted(len(cleared), 'consumer')}")
        case _:
            rows = [{"consumer": name, "next_snapshot": number} for name, number in table.list_consumers().items()]
            output.table(rows, empty=f"{table.name} has no consumers")


BRANCH = Command("branch", "list, create, drop, rename or fast-forward to branches", _branch_arguments, _branch)
TAG = Command("tag", "list, create, delete or rename tags", _tag_arguments, _tag)
ROLLBACK = Command("rollback", "bring a table back to a snapshot, tag or time", _rollback_arguments, _rollback)
CONSUMER = Command("consumer", "list, reset or forget readers of streams", _consumer_arguments, _consumer)
