"""The options that name an older state of a table: a snapshot, a tag or a time."""

from __future__ import annotations

from lakewright.cli.base.command import Option, option, section
from lakewright.cli.base.values import moment

STATES = (("--snapshot", "--tag"), ("--snapshot", "--at"), ("--tag", "--at"))  # that exclude each other


def older_states() -> tuple[Option, ...]:
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
