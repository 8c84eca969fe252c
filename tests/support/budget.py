"""A budget for a run of tests, in minutes: tests in, those that still fit into the time out.

`LAKEWRIGHT_BUDGET_MINUTES` sets it. The modules of tests then run in an order that a seed decides, by default that of
the day, so that runs which do not get to the end leave out others each day; `LAKEWRIGHT_BUDGET_SEED` repeats an order.
Once the time is over no test begins any more: the rest is skipped, and counted in the last lines of the run. Tests that
are under way end as usual.
"""

from __future__ import annotations

import os
import random
import time

import pytest

MINUTES, SEED, UNTIL = "LAKEWRIGHT_BUDGET_MINUTES", "LAKEWRIGHT_BUDGET_SEED", "LAKEWRIGHT_BUDGET_UNTIL"
REASON = "the budget of this run is used up"
_DAY_SECONDS = 86_400


def begin() -> None:
    """Fix the end of the run and its seed, if there is a budget; the processes of xdist inherit both."""
    if MINUTES in os.environ and UNTIL not in os.environ:
        os.environ[UNTIL] = str(time.time() + 60 * float(os.environ[MINUTES]))
        os.environ.setdefault(SEED, str(int(time.time()) // _DAY_SECONDS))


def in_order(items: list[pytest.Item]) -> None:
    """Put the modules of tests into the order of the seed; the tests of one keep theirs."""
    if UNTIL in os.environ:
        modules = sorted({_module_of(item) for item in items})
        random.Random(int(os.environ[SEED])).shuffle(modules)
        place = {module: number for number, module in enumerate(modules)}
        items.sort(key=lambda item: place[_module_of(item)])


def skip_if_over() -> None:
    """Skip a test that would begin after the end."""
    if time.time() >= float(os.environ.get(UNTIL, "inf")):
        pytest.skip(REASON)


def summary(skipped: int) -> str | None:
    """Return a line about the budget; None where there is none."""
    if UNTIL not in os.environ:
        return None
    return f"budget: {os.environ[MINUTES]} minutes, {SEED}={os.environ[SEED]}, {skipped} tests left out"


def _module_of(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]
