"""Row-level changes that meet, the long form: all pairs of verbs, the first one stopped at many of its storage calls.

`LAKEWRIGHT_RACE_STOPS` says at how many, spread evenly; 0 means at every call.
"""

from __future__ import annotations

import os

import pytest

from support.races import TABLES, VERBS, Scene, Verb

STOPS = int(os.environ.get("LAKEWRIGHT_RACE_STOPS", "10"))
pytestmark = pytest.mark.filterwarnings("ignore::lakewright.LakewrightWarning")


@pytest.mark.parametrize("first", VERBS, ids=lambda verb: verb.name)
@pytest.mark.parametrize("kind", TABLES)
def test_all_pairs_stopped_everywhere(kind: str, first: Verb) -> None:
    scene = Scene(kind)
    if not first.fits(kind):
        pytest.skip("the table knows no row ids")
    calls, published = scene.calls(first)
    step = max(1, calls // STOPS) if STOPS else 1
    for second in VERBS:
        if second.fits(kind):
            for stop in sorted({*range(1, calls + 1, step), published}):
                scene.check(first, second, stop)
    scene.memory.clear()
