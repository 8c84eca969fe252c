"""Tables of every kind under a short random mix of writes, history and upkeep, with kills; no kept state changes."""

from __future__ import annotations

import pytest

from support.effort import examples
from support.upkeep_mix import KINDS, Mix
from support.upkeep_verbs import UpkeepVerbs

pytestmark = pytest.mark.long


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_under_a_mix_of_operations(kind: str) -> None:
    count = examples(120)
    mix = Mix(kind, count)
    mix.run(iter(UpkeepVerbs(mix)), count, every=30)
    mix.memory.clear()
