"""Long proofs have a limit of their own: the 45 minutes of a part of `make nightly`, less what ends it in order."""

from __future__ import annotations

from pathlib import Path

import pytest

_HERE = Path(__file__).parent
_SECONDS_MAX = 40 * 60


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give every test of this folder the limit."""
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.timeout(_SECONDS_MAX))
