"""Row-level changes that meet, the long form: all pairs of verbs, the first one stopped at every storage call."""

from __future__ import annotations

import pytest

from support.races import TABLES, VERBS, Scene, Verb

pytestmark = pytest.mark.filterwarnings("ignore::lakewright.LakewrightWarning")


@pytest.mark.parametrize("first", VERBS, ids=lambda verb: verb.name)
@pytest.mark.parametrize("kind", TABLES)
def test_all_pairs_stopped_everywhere(kind: str, first: Verb) -> None:
    scene = Scene(kind)
    if not first.fits(kind):
        pytest.skip("the table knows no row ids")
    calls, _ = scene.calls(first)
    for second in VERBS:
        if second.fits(kind):
            for stop in range(1, calls + 1):
                scene.check(first, second, stop)
    scene.memory.clear()
