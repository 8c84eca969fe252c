"""Commands, options and arguments that several commands share."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from types import SimpleNamespace
from typing import Any, Literal, TypeAlias

import click
from click.shell_completion import CompletionItem

from lakewright.cli.cli_output import CommandOutput
from lakewright.errors import InvalidInputError
from lakewright.spec.option_values import parse_duration_millis

# ---- Values of options -----------------------------------------------------------------------------------------------

_ONE = r"\s*(?:`((?:[^`]|``)+)`|([^,`]*[^,`\s]))\s*"
_NAME, _NAMES = re.compile(_ONE), re.compile(rf"{_ONE}(?:,{_ONE})*")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def pair(text: str) -> tuple[str, str]:
    """Parse `key=value`."""
    key, sign, value = text.partition("=")
    if not sign or not key.strip():
        raise click.BadParameter(f"{text!r} is not key=value")
    return key.strip(), value


def option_of_catalog(text: str) -> tuple[str, str]:
    """Parse `key=value` of a catalog, which may be a secret: an error does not repeat it."""
    try:
        return pair(text)
    except click.BadParameter:
        raise click.BadParameter("what was given is not key=value") from None


def split_names(text: str | Sequence[str]) -> list[str]:
    """Parse `a,b`; a name with a comma stands in back-quotes. A default is a list already.

    >>> split_names("id, `a,b`,`it``s`")
    ['id', 'a,b', 'it`s']
    """
    if not isinstance(text, str):
        return list(text)
    if not _NAMES.fullmatch(text):
        raise click.BadParameter(f"{text!r} is not a list of names such as a,b")
    found = (match[1] if match[1] is not None else match[2].strip() for match in _NAME.finditer(text))
    return [name.replace("``", "`") for name in found]


def count(text: str | int) -> int:
    """Parse a number of rows."""
    if isinstance(text, int):
        return text
    if not text.isdecimal():
        raise click.BadParameter(f"{text!r} is not a number of rows")
    return int(text)


def past(text: str) -> int:
    """Return the time that `moment` says, unless it is in the future."""
    millis = moment(text)
    if millis > time.time_ns() // 1_000_000:
        raise click.BadParameter(f"{text!r} is in the future")
    return millis


def moment(text: str) -> int:
    """Return the time, in epoch milliseconds, that an age (`7d`) or an ISO time says; without a zone it is UTC.

    >>> moment("1970-01-02"), moment("1970-01-01T01:00:00+01:00")
    (86400000, 0)
    """
    now = time.time_ns() // 1_000_000
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None and text.strip().isdigit():
        raise click.BadParameter(f"{text!r} has no unit: write an age such as 7d or '12 hours'")
    if found is None:
        try:
            return now - parse_duration_millis(text)
        except InvalidInputError:
            message = (
                f"{text!r} is neither an age such as 7d or '12 hours' nor an ISO time such as 2026-01-31T12:00:00Z"
            )
            raise click.BadParameter(message) from None
    return ((found if found.tzinfo else found.replace(tzinfo=UTC)) - _EPOCH) // timedelta(milliseconds=1)


# ---- The commands by name --------------------------------------------------------------------------------------------
# A new command is a module below this folder with a tuple `COMMANDS` (see `base/command.py`), and one line here.


@dataclass(frozen=True, slots=True)
class Entry:
    """One command: its name, its module below `lakewright.cli`, and what it does in a few words."""

    name: str
    module: str
    help: str


# In the order in which help shows them.
SECTIONS: dict[str, tuple[Entry, ...]] = {
    "Read and write": (
        Entry("read", "read_commands", "write rows of a table to the terminal or a file"),
        Entry("import", "load_commands", "write files or stdin into a table, in one commit"),
        Entry("write", "load_commands", "the same as import"),
        Entry("ingest", "load_commands", "load files or tables into a table, in one commit"),
        Entry("sql", "sql_command", "run SQL statements or a script, or open a prompt"),
        Entry("migrate", "load_commands", "make a table of data files without copying them"),
        Entry("copy", "load_commands", "copy a snapshot of a table to a new table"),
    ),
    "Look": (
        Entry("tables", "inspect_commands", "list the tables of a catalog"),
        Entry("describe", "inspect_commands", "show the columns, keys and options of a table"),
        Entry("snapshots", "inspect_commands", "list the snapshots of a table, newest first"),
        Entry("files", "inspect_commands", "list the data files of a table"),
        Entry("schemas", "inspect_commands", "list the schemas that a table has had"),
        Entry("partitions", "inspect_commands", "list the partitions of a table with their sizes"),
        Entry("explain", "read_commands", "show what a read would do, without doing it"),
        Entry("diff", "read_commands", "show the rows that changed between two snapshots"),
        Entry("report", "inspect_commands", "draw a table: one page with its history, files and what to do"),
        Entry("verify", "inspect_commands", "prove that a table's files hold what its metadata says"),
        Entry("doctor", "inspect_commands", "check this environment, a storage and Spark, and say what to do"),
        Entry("analyze", "maintain_commands", "count rows and values, for planners of queries"),
    ),
    "Make and change": (
        Entry("db", "object_commands", "list, create, describe, alter or drop databases"),
        Entry("table", "object_commands", "list, create, describe, alter, rename or drop tables"),
    ),
    "Change history": (
        Entry("branch", "object_commands", "list, create, describe, rename or drop branches, or go on at one"),
        Entry("tag", "object_commands", "list, create, describe, alter, rename or drop tags"),
        Entry("rollback", "maintain_commands", "bring a table back to a snapshot, tag or time"),
        Entry("consumer", "maintain_commands", "list, reset or forget readers of streams"),
    ),
    "Keep files in order": (
        Entry("compact", "maintain_commands", "merge small files, and drop deleted rows"),
        Entry("compact-manifests", "maintain_commands", "merge the manifests of a table into few full ones"),
        Entry(
            "materialize-deletion-vectors",
            "maintain_commands",
            "rewrite the files that have deleted rows, without these",
        ),
        Entry("rescale", "maintain_commands", "rewrite a table with another number of buckets"),
        Entry("remove-orphans", "maintain_commands", "find files that nothing names; remove them if asked"),
        Entry("repair", "load_commands", "repair hints, lost tags and left-overs of branches"),
        Entry("remove-unexisting", "load_commands", "find data files that do not exist; remove them from the table"),
    ),
    "Let data grow old": (
        Entry("expire", "maintain_commands", "remove old snapshots and the files that only they name"),
        Entry("expire-changelogs", "maintain_commands", "remove changelogs of expired snapshots"),
        Entry("expire-partitions", "maintain_commands", "remove the rows of old partitions"),
        Entry("expire-tags", "maintain_commands", "delete the tags whose time is over"),
        Entry("create-tags", "maintain_commands", "create the tags that tag.automatic-creation asks for"),
        Entry("mark-done", "maintain_commands", "mark a partition as complete"),
        Entry("purge", "maintain_commands", "remove all rows of a table with their history and files"),
    ),
}

SECTIONS["Shell"] = (Entry("completion", "shell_completion", "print what makes a shell complete commands"),)
ENTRIES = {entry.name: entry for entries in SECTIONS.values() for entry in entries}


# ---- Commands on top of click ----------------------------------------------------------------------------------------
# Every command has the options of `shared_options`, which may also stand before its name. A module of commands has a
# tuple `COMMANDS`; `registry.py` says in which module a command is.

WAREHOUSE = "LAKEWRIGHT_WAREHOUSE"  # the variable that stands for --warehouse
CATALOG = "LAKEWRIGHT_CATALOG"  # the variable that stands for --catalog
SHARED_SECTION = "Where and how"


class Arguments(SimpleNamespace):
    """What was given to a command, by the names of its parameters."""


Run: TypeAlias = Callable[[Arguments, CommandOutput], "int | None"]  # the exit code; None stands for 0


@dataclass(slots=True)
class CliSession:
    """What one run of the program knows about itself before its command does."""

    debug: bool = False


# ---- parameters ------------------------------------------------------------------------------------------------------


class CliOption(click.Option):
    """An option, and the heading under which help shows it."""

    section: str | None = None


class CliArgument(click.Argument):
    """An argument without a name, with a help text."""

    def __init__(self, name: str, metavar: str, about: str, **settings: Any) -> None:  # noqa: ANN401 - those of click
        super().__init__([name], metavar=metavar, **settings)
        self.about = about


def option(*names: str, **settings: Any) -> CliOption:  # noqa: ANN401 - those of click
    """Return an option; `settings` are those of click."""
    return CliOption(list(names), **settings)


def flag(*names: str, help: str) -> CliOption:  # noqa: A002 - as click calls it
    """Return an option without a value."""
    return CliOption(list(names), is_flag=True, default=False, help=help)


def pairs(*names: str, help: str, metavar: str = "K=V", required: bool = False) -> CliOption:  # noqa: A002
    """Return an option `key=value` that may be repeated."""
    return CliOption(list(names), type=pair, multiple=True, metavar=metavar, help=help, required=required)


def section(heading: str, *options: CliOption) -> tuple[CliOption, ...]:
    """Return options that help shows under a heading of their own."""
    for one in options:
        one.section = heading
    return options


def table_argument(about: str = "db.t, or CATALOG.db.t, or the path of a table") -> CliArgument:
    """Return the argument of commands that work on one table."""
    return CliArgument("table", "TABLE", about, shell_complete=names_of("table"))


def names_of(what: Literal["table", "database", "catalog"]) -> Callable[..., list[str]]:
    """Return the function that tells a shell which names begin with a text."""

    def complete(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
        from lakewright.cli.catalog_options import names_like  # noqa: PLC0415 - lazy: only a shell that asks needs it

        given = Arguments(catalog=None, warehouse=None, catalog_option=())
        vars(given).update({name: value for name, value in ctx.params.items() if name in vars(given) and value})
        _take_over(given, ctx.parent)
        try:
            return names_like(given, what, incomplete)
        except Exception:  # noqa: BLE001 - a shell that completes shows no errors
            return []

    return complete


def _directories(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(incomplete, type="dir")]


def dry_run(text: str) -> CliOption:
    """Return `--dry-run`."""
    return flag("--dry-run", help=text)


def delete_or_list(text: str) -> tuple[CliOption, ...]:
    """Return `--delete`, without which a command that removes what nothing brings back only says what would go."""
    return (
        flag("--delete", help=f"{text}; without this it is only said what would go"),
        flag("--dry-run", help="only say what would go, which is the default"),
    )


def limit(text: str, default: int | None = None) -> CliOption:
    """Return `--limit`."""
    return option("--limit", "-n", type=count, default=default, metavar="N", help=text)


def shared_options() -> tuple[CliOption, ...]:
    """Return the options that every command has."""
    return section(
        SHARED_SECTION,
        option(
            "--catalog",
            "-c",
            metavar="NAME",
            help=f"a catalog that lakewright.toml names (or ${CATALOG})",
            shell_complete=names_of("catalog"),
        ),
        option(
            "--warehouse",
            "-w",
            metavar="W",
            help=f"directory of the databases, or the name that a server knows it by (or ${WAREHOUSE})",
            shell_complete=_directories,
        ),
        option(
            "--catalog-option",
            type=option_of_catalog,
            multiple=True,
            metavar="K=V",
            help="option of the catalog or its storage, such as metastore=rest, uri=http://... or s3.endpoint=...; "
            "may be repeated",
        ),
        flag("--json", help="write the result as JSON"),
        flag("--quiet", "-q", help="write nothing but the result and errors"),
        flag("--debug", help="show where in the program an error arose"),
    )


# ---- commands --------------------------------------------------------------------------------------------------------


class CliCommand(click.Command):
    """A command: its parameters, and the function that gets their values."""

    def __init__(
        self,
        name: str,
        run: Run,
        *params: click.Parameter,
        help: str | None = None,  # noqa: A002 - as click calls it
        more: str = "",
        exclusive: Sequence[tuple[str, str]] = (),
    ) -> None:
        """`help` is that of the registry for a command of the first level, `more` further text for its own page."""
        short = ENTRIES[name].help if help is None else help
        super().__init__(
            name,
            params=[*params, *shared_options()],
            help=f"{short[0].upper()}{short[1:]}.\n\n{more}".strip(),
            short_help=short,
        )
        self.run = run
        self._exclusive = exclusive

    def invoke(self, ctx: click.Context) -> int:
        """Run the command and return its exit code."""
        given = Arguments(**ctx.params, command_path=ctx.command_path, name_of_command=self.name)
        _take_over(given, ctx.parent)
        session = ctx.find_object(CliSession)
        if session is not None:
            session.debug = given.debug
        for one, other in self._exclusive:
            if _is_given(given, one) and _is_given(given, other):
                raise click.UsageError(f"{one} and {other} exclude each other: give one of them", ctx)
        try:
            return int(self.run(given, CommandOutput(given.json, given.quiet)) or 0)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the arguments, then the options under their headings."""
        arguments = [(str(one.metavar), one.about) for one in self.params if isinstance(one, CliArgument)]
        if arguments:
            with formatter.section("Arguments"):
                formatter.write_dl(arguments)
        write_options(self, ctx, formatter)


class Group(click.Group):
    """Commands that belong together, such as `tag create` and `tag list`.

    The words may be turned around: `tag db.t create v1` is `tag create db.t v1`, and `tag db.t` lists.
    """

    def __init__(self, name: str, *commands: CliCommand, default: str | None = None) -> None:
        """`default` is the command that a table alone asks for."""
        short = ENTRIES[name].help
        super().__init__(
            name,
            {str(one.name): one for one in commands},
            params=list(shared_options()),
            help=f"{short[0].upper()}{short[1:]}.",
            short_help=short,
            callback=lambda **_: self._refuse_nothing(),
            no_args_is_help=False,
            invoke_without_command=True,
        )
        self._default = default

    def _refuse_nothing(self) -> None:
        ctx = click.get_current_context()
        if ctx.invoked_subcommand is None:
            raise click.UsageError(f"{ctx.command_path} needs one of {', '.join(self.commands)}", ctx)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Bring the name of the command to the front."""
        at = next((at for at, word in enumerate(args) if word in self.commands), None)
        if at is not None:
            args = [args[at], *args[:at], *args[at + 1 :]]
        elif self._default is not None and _begin_with_a_table(args):
            args = [self._default, *args]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or name the nearest one."""
        check_known(ctx, args[0], self.commands)
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, then the options."""
        self.format_commands(ctx, formatter)
        write_options(self, ctx, formatter)


def check_known(ctx: click.Context, name: str, known: Collection[str]) -> None:
    """Raise a usage error with the nearest name if there is no such command."""
    if name not in known and not name.startswith("-") and not ctx.resilient_parsing:  # a shell that completes sees none
        near = get_close_matches(name, known, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise click.UsageError(f"there is no command {name!r}{hint}", ctx)


def write_options(command: click.Command, ctx: click.Context, formatter: click.HelpFormatter) -> None:
    """Write the options of a command under their headings, those that every command has at the end."""
    headings: dict[str, list[tuple[str, str]]] = {}
    for param in command.get_params(ctx):
        record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
        if record is not None:
            heading = getattr(param, "section", None) or (SHARED_SECTION if "--help" in param.opts else "Options")
            headings.setdefault(heading, []).append(record)
    for heading, records in headings.items():
        with formatter.section(heading):
            formatter.write_dl(records)


def _begin_with_a_table(words: Sequence[str]) -> bool:
    """Return whether the first word that may be a name, and no option, is that of a table."""
    first = words[:1] if words and not words[0].startswith("-") else words
    return any(not word.startswith("-") and ("." in word or "/" in word) for word in first)


def _is_given(given: Arguments, name: str) -> bool:
    return vars(given)[name.lstrip("-").replace("-", "_")] not in (None, False, ())


def _take_over(given: Arguments, parent: click.Context | None) -> None:
    """Take shared options from before the name of the command, unless they stand behind it too."""
    while parent is not None:
        for name, value in parent.params.items():
            own = vars(given).get(name)
            if name == "catalog_option":
                setattr(given, name, (*value, *(own or ())))
            elif name in vars(given) and own in (None, False):
                setattr(given, name, value)
        parent = parent.parent


# ---- Confirmation of removals ----------------------------------------------------------------------------------------


def yes_option() -> CliOption:
    """Return `--yes`."""
    return flag("--yes", "-y", help="do it without asking")


def confirm(args: Arguments, question: str) -> None:
    """Ask unless `--yes` was given; raise InvalidInputError if the answer is not yes, or if there is no answer."""
    if args.yes:
        return
    if sys.stdin.isatty():
        sys.stderr.write(f"{question} [y/N] ")
        sys.stderr.flush()
    try:
        answer = sys.stdin.readline()
    except OSError:  # there is no stdin
        answer = ""
    if answer.strip().lower() not in {"y", "yes"}:
        asked = "" if sys.stdin.isatty() else f"{question} "
        raise InvalidInputError(
            f"{asked}Nothing was changed, because it was not confirmed; --yes does it without asking"
        )


# ---- Options that name an older state --------------------------------------------------------------------------------

STATES = (("--snapshot", "--tag"), ("--snapshot", "--at"), ("--tag", "--at"))  # that exclude each other


def older_states() -> tuple[CliOption, ...]:
    """Return `--snapshot`, `--tag` and `--at`."""
    return section(
        "An older state",
        option("--snapshot", type=int, metavar="N", help="the state of this snapshot"),
        option("--tag", metavar="TAG", help="the state of this tag"),
        option(
            "--at",
            type=moment,
            metavar="TIME",
            help="the state at a time: 2026-01-31T12:00:00+01:00, UTC without a zone, or an age such as 2h",
        ),
    )
