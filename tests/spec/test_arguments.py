"""What callers may hand in, and what it becomes."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lakewright.errors import InvalidInputError
from lakewright.spec import argument_checks

NOON = datetime(2026, 1, 9, 12, tzinfo=UTC)
MILLIS = 1_767_960_000_000


@pytest.mark.parametrize(
    "value",
    [
        MILLIS,
        np.int64(MILLIS),
        NOON,
        NOON.astimezone(timezone(timedelta(hours=5))),
        pd.Timestamp(NOON),
        "2026-01-09T12:00:00Z",
        "2026-01-09 13:00:00+01:00",
        NOON.astimezone().replace(tzinfo=None),  # a local time
        f"{NOON.astimezone().replace(tzinfo=None)}",
    ],
)
def test_times_are_read_from_every_kind_of_value(value: object) -> None:
    assert argument_checks.to_epoch_millis("timestamp", value) == MILLIS
    assert argument_checks.to_past_epoch_millis("older_than", value, 0) == MILLIS


def test_a_time_is_rounded_down() -> None:
    assert argument_checks.to_epoch_millis("timestamp", NOON + timedelta(microseconds=999)) == MILLIS


def test_a_date_is_its_local_midnight() -> None:
    midnight = datetime(2026, 1, 9).astimezone()
    assert argument_checks.to_epoch_millis("timestamp", date(2026, 1, 9)) == midnight.timestamp() * 1000


@pytest.mark.parametrize("value", [True, 1.5, "20260109", "5", "soon", "", pd.NaT, b"x", -1, 2**70, [1], object()])
def test_values_that_are_not_times_are_refused(value: object) -> None:
    with pytest.raises(InvalidInputError, match="timestamp takes"):
        argument_checks.to_epoch_millis("timestamp", value)


@pytest.mark.parametrize("value", ["7 days", "7d", "P7D", timedelta(days=7), 604_800_000])
def test_ages_are_durations_timedeltas_or_milliseconds(value: object) -> None:
    assert argument_checks.to_duration_millis("time_retained", value) == 604_800_000
    if not isinstance(value, int):
        assert argument_checks.to_past_epoch_millis("older_than", value, MILLIS) == MILLIS - 604_800_000


@pytest.mark.parametrize("value", ["1ns", "0 d", "-1 d", 0, -1, timedelta(0), timedelta(days=-1), pd.NaT, "x", True])
def test_values_that_are_not_ages_are_refused(value: object) -> None:
    with pytest.raises(InvalidInputError, match="time_retained takes"):
        argument_checks.to_duration_millis("time_retained", value)


@pytest.mark.parametrize("value", [True, np.True_, 1.0, "3", None, np.array([1, 2]), 2**70, -1])
def test_values_that_are_not_counts_are_refused(value: object) -> None:
    with pytest.raises(InvalidInputError, match="limit takes a whole number"):
        argument_checks.check_non_negative("limit", value)


def test_a_single_name_or_partition_is_a_list_of_one() -> None:
    assert argument_checks.check_names("columns", "ab") == ("ab",)
    assert argument_checks.check_names("columns", np.array(["a", "b"])) == ("a", "b")
    assert argument_checks.check_names("columns", (name for name in "ab")) == ("a", "b")
    assert argument_checks.check_partition_specs("partitions", {"day": 1}) == argument_checks.check_partition_specs(
        "partitions", [{"day": 1}]
    )
    for wrong in ({"a", "b"}, {"a": 1}, 5, [5], b"ab", [["a"]], np.array(5)):
        with pytest.raises(InvalidInputError, match="columns takes a name or a list of names"):
            argument_checks.check_names("columns", wrong)


def test_paths_flags_and_maps_take_values_of_other_libraries() -> None:
    assert argument_checks.check_path("path", Path("/lake")) == "/lake"
    assert argument_checks.check_bool("full", np.False_) is False
    assert argument_checks.check_text_mapping("options", {"warehouse": Path("/lake"), "bucket": 2, "x": True}) == {
        "warehouse": "/lake",
        "bucket": "2",
        "x": "true",
    }
    for wrong in ("false", 1, None):
        with pytest.raises(InvalidInputError, match="True or False"):
            argument_checks.check_bool("full", wrong)


def test_nearest_names() -> None:
    assert argument_checks.suggest_name("ID", ["name", "id"]) == "did you mean 'id'?"
    assert argument_checks.suggest_name("nmae", ["name", "id"]) == "did you mean 'name'?"
    assert argument_checks.suggest_name("x", []) == "there are none"
