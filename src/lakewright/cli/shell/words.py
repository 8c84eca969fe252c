"""`lakewright completion`: prints the script that makes a shell complete commands, options and names of tables."""

from __future__ import annotations

import sys

import click
from click.shell_completion import get_completion_class

from lakewright.cli.base.command import Argument, Arguments, Command
from lakewright.cli.base.output import Output
from lakewright.cli.program import COMPLETE, NAME, PROGRAM

_SHELLS = ("bash", "zsh", "fish")
_HOW = """\\b
bash:  eval "$(lakewright completion bash)"      in ~/.bashrc
zsh:   eval "$(lakewright completion zsh)"       in ~/.zshrc
fish:  lakewright completion fish > ~/.config/fish/completions/lakewright.fish
"""


def _completion(args: Arguments, output: Output) -> None:
    kind = get_completion_class(args.shell)
    if kind is None:
        raise click.UsageError(f"{args.shell} is none of {', '.join(_SHELLS)}")
    script = kind(PROGRAM, {}, NAME, COMPLETE).source()
    if output.as_json:
        output.result({"shell": args.shell, "script": script}, "")
        return
    sys.stdout.write(f"{script}\n")


COMMANDS = (
    Command(
        "completion",
        _completion,
        Argument("shell", "SHELL", "bash, zsh or fish", type=click.Choice(_SHELLS)),
        more=_HOW,
    ),
)
