"""Tests of the command line see no catalogs of the user who runs them."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def no_catalogs_of_the_user(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path_factory.mktemp("config")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(place))
    for name in ("LAKEWRIGHT_CATALOG", "LAKEWRIGHT_WAREHOUSE", "LAKEWRIGHT_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    return place
