"""The arguments of a verification: what callers give in, a depth and which states out, or InvalidInputError."""

from __future__ import annotations

from lakewright.errors import InvalidInputError
from lakewright.spec import arguments
from lakewright.verify.run import ALL, LATEST
from lakewright.verify.tasks import FAST, FOOTERS, FULL


def check_depth(full: object, *, fast: object, snapshots: object) -> tuple[str, str]:
    """Return the depth and the states that the arguments of `table.verify` name."""
    wants_all, wants_fast = arguments.flag("full", full), arguments.flag("fast", fast)
    if wants_all and wants_fast:
        raise InvalidInputError("give one of full and fast: all rows are read, or no data file is opened")
    states = arguments.one_of("snapshots", snapshots, (LATEST, ALL))
    return FULL if wants_all else FAST if wants_fast else FOOTERS, states
