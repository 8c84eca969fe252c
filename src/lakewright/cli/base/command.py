"""Commands of the command line on top of click: arguments in, a namespace for the function that runs the command out.

Every command has the options of `shared_options`, which may also stand before its name. A module of commands has a
tuple `COMMANDS`; `registry.py` says in which module a command is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from types import SimpleNamespace
from typing import Any, Literal, TypeAlias

import click
from click.shell_completion import CompletionItem

from lakewright.cli.base.output import Output
from lakewright.cli.base.values import count, option_of_catalog, pair
from lakewright.cli.registry import ENTRIES

WAREHOUSE = "LAKEWRIGHT_WAREHOUSE"  # the variable that stands for --warehouse
CATALOG = "LAKEWRIGHT_CATALOG"  # the variable that stands for --catalog
SHARED_SECTION = "Where and how"


class Arguments(SimpleNamespace):
    """What was given to a command, by the names of its parameters."""


Run: TypeAlias = Callable[[Arguments, Output], "int | None"]  # the exit code; None stands for 0


@dataclass(slots=True)
class Session:
    """What one run of the program knows about itself before its command does."""

    debug: bool = False


# ---- parameters ------------------------------------------------------------------------------------------------------


class Option(click.Option):
    """An option, and the heading under which help shows it."""

    section: str | None = None


class Argument(click.Argument):
    """An argument without a name, with a help text."""

    def __init__(self, name: str, metavar: str, about: str, **settings: Any) -> None:  # noqa: ANN401 - those of click
        super().__init__([name], metavar=metavar, **settings)
        self.about = about


def option(*names: str, **settings: Any) -> Option:  # noqa: ANN401 - those of click
    """Return an option; `settings` are those of click."""
    return Option(list(names), **settings)


def flag(*names: str, help: str) -> Option:  # noqa: A002 - as click calls it
    """Return an option without a value."""
    return Option(list(names), is_flag=True, default=False, help=help)


def pairs(*names: str, help: str, metavar: str = "K=V", required: bool = False) -> Option:  # noqa: A002
    """Return an option `key=value` that may be repeated."""
    return Option(list(names), type=pair, multiple=True, metavar=metavar, help=help, required=required)


def section(heading: str, *options: Option) -> tuple[Option, ...]:
    """Return options that help shows under a heading of their own."""
    for one in options:
        one.section = heading
    return options


def table_argument(about: str = "db.t, or CATALOG.db.t, or the path of a table") -> Argument:
    """Return the argument of commands that work on one table."""
    return Argument("table", "TABLE", about, shell_complete=names_of("table"))


def names_of(what: Literal["table", "database", "catalog"]) -> Callable[..., list[str]]:
    """Return the function that tells a shell which names begin with a text."""

    def complete(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
        from lakewright.cli.base.place import names_like  # noqa: PLC0415 - a door: only a shell that asks needs it

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


def dry_run(text: str) -> Option:
    """Return `--dry-run`."""
    return flag("--dry-run", help=text)


def delete_or_list(text: str) -> tuple[Option, ...]:
    """Return `--delete`, without which a command that removes what nothing brings back only says what would go."""
    return (
        flag("--delete", help=f"{text}; without this it is only said what would go"),
        flag("--dry-run", help="only say what would go, which is the default"),
    )


def limit(text: str, default: int | None = None) -> Option:
    """Return `--limit`."""
    return option("--limit", "-n", type=count, default=default, metavar="N", help=text)


def shared_options() -> tuple[Option, ...]:
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


class Command(click.Command):
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
        session = ctx.find_object(Session)
        if session is not None:
            session.debug = given.debug
        for one, other in self._exclusive:
            if _is_given(given, one) and _is_given(given, other):
                raise click.UsageError(f"{one} and {other} exclude each other: give one of them", ctx)
        try:
            return int(self.run(given, Output(given.json, given.quiet)) or 0)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the arguments, then the options under their headings."""
        arguments = [(str(one.metavar), one.about) for one in self.params if isinstance(one, Argument)]
        if arguments:
            with formatter.section("Arguments"):
                formatter.write_dl(arguments)
        write_options(self, ctx, formatter)


class Group(click.Group):
    """Commands that belong together, such as `tag create` and `tag list`.

    The words may be turned around: `tag db.t create v1` is `tag create db.t v1`, and `tag db.t` lists.
    """

    def __init__(self, name: str, *commands: Command, default: str | None = None) -> None:
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
