"""What tests of the REST room share: a scripted server and calls that do not wait."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakewright.catalog.rest_api import RestApi
from support.scripted_http import QUICK, Answer, Script, scripted


@pytest.fixture
def script() -> Iterator[Script]:
    with scripted() as server:
        yield server


@pytest.fixture
def api(script: Script) -> RestApi:
    script.will(Answer(body={"defaults": {"prefix": "p"}, "overrides": None}))
    options = {"uri": script.uri, "warehouse": "wh", "token.provider": "bear", "token": "a-very-secret-token"}
    connected = RestApi.connect(options, QUICK)
    script.requests.clear()
    return connected
