"""Row-level changes that meet: every pair ends as if one came after the other (`support.races`).

Here the pairs that touch the same rows are stopped just before their snapshot, when all is written; the long form, all
pairs stopped everywhere, is a soak.
"""

from __future__ import annotations

import pytest

from support.effort import is_thin
from support.races import TABLES, VERB, Scene

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore::lakewright.LakewrightWarning")]
PAIRS = [
    ("delete", "delete"),
    ("delete", "delete-2"),
    ("delete", "update"),
    ("update", "delete"),
    ("update", "update"),
    ("update-b", "update"),
    ("update", "compact"),
    ("compact", "update"),
    ("delete", "overwrite"),
    ("overwrite", "delete"),
    ("delete", "append"),
    ("upsert", "upsert"),
    ("upsert-a", "upsert-b"),
    ("upsert-b", "upsert-a"),
    ("upsert-b", "update"),
    ("upsert-a", "delete"),
    ("upsert-a", "overwrite"),
    ("merge", "merge"),
    ("row-id-a", "row-id-a"),
    ("row-id-a", "row-id-b"),
]


@pytest.mark.parametrize("kind", TABLES)
def test_two_changes_are_one_after_the_other(kind: str) -> None:
    scene = Scene(kind)
    own = list(TABLES).index(kind) % 4
    for first, second in PAIRS[own::4] if is_thin() else PAIRS:
        if VERB[first].fits(kind) and VERB[second].fits(kind):
            _, published = scene.calls(VERB[first])
            scene.check(VERB[first], VERB[second], published)
    scene.memory.clear()
