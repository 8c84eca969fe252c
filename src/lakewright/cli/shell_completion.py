"""`lakewright completion`: what makes a shell complete commands."""

from __future__ import annotations

import sys

import click
from click.shell_completion import get_completion_class

from lakewright.cli.cli_options import Arguments, CliArgument, CliCommand
from lakewright.cli.cli_output import CommandOutput
from lakewright.cli.program import COMPLETE, NAME, PROGRAM

_SHELLS = ("bash", "zsh", "fish")
_HOW = """\\b
bash:  eval "$(lakewright completion bash)"      in ~/.bashrc
zsh:   eval "$(lakewright completion zsh)"       in ~/.zshrc
fish:  lakewright completion fish > ~/.config/fish/completions/lakewright.fish
"""
_BASH = """    if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *. ]]; then
        compopt -o nospace
    fi
"""
_ZSH = """    local -a begun
    begun=(${(M)completions:#*.})
    completions=(${completions:#*.})
    if [ -n "$begun" ]; then
        compadd -U -V unsorted -S '' -a begun
    fi
"""


def _completion(args: Arguments, output: CommandOutput) -> None:
    kind = get_completion_class(args.shell)
    if kind is None:
        raise click.UsageError(f"{args.shell} is none of {', '.join(_SHELLS)}")
    script = _without_space(kind(PROGRAM, {}, NAME, COMPLETE).source(), args.shell)
    if output.as_json:
        output.result({"shell": args.shell, "script": script}, "")
        return
    sys.stdout.write(f"{script}\n")


def _without_space(script: str, shell: str) -> str:
    """Return the script of a shell so that no space follows `sales.`, after which the name of a table comes.

    Click's scripts have no such choice. Fish adds no space after a dot by itself.
    """
    if shell == "bash":
        end = "    return 0\n"
        return script.replace(end, f"{_BASH}\n{end}", 1)
    if shell == "zsh":
        start = '    if [ -n "$completions" ]; then\n'
        return script.replace(start, f"{_ZSH}\n{start}", 1)
    return script


COMMANDS = (
    CliCommand(
        "completion",
        _completion,
        CliArgument("shell", "SHELL", "bash, zsh or fish", type=click.Choice(_SHELLS)),
        more=_HOW,
    ),
)
