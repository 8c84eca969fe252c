"""Times without a zone, compared with columns WITH LOCAL TIME ZONE."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.spec.filter_text import parse_predicate
from lakewright.spec.predicate import PredicateBuilder
from lakewright.spec.types import AtomicType, DataField

FIELDS = [
    DataField(0, "z", AtomicType("TIMESTAMP(6) WITH LOCAL TIME ZONE")),
    DataField(1, "n", AtomicType("TIMESTAMP(6)")),
]
BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("text", "zone", "moment"),
    [
        ("2026-01-09", "UTC", datetime(2026, 1, 9, tzinfo=UTC)),
        ("2026-01-09", "Europe/Berlin", datetime(2026, 1, 9, tzinfo=BERLIN)),
        ("2026-07-09 12:00:00", "Europe/Berlin", datetime(2026, 7, 9, 10, tzinfo=UTC)),
        ("2026-01-09", "+05:30", datetime(2026, 1, 8, 18, 30, tzinfo=UTC)),
        ("2026-01-09", "GMT-8", datetime(2026, 1, 9, 8, tzinfo=UTC)),
        ("2026-01-09 00:00:00Z", "Europe/Berlin", datetime(2026, 1, 9, tzinfo=UTC)),
        ("2026-01-09 00:00:00+02:00", "Asia/Tokyo", datetime(2026, 1, 8, 22, tzinfo=UTC)),
        ("2026-03-29 02:30:00", "Europe/Berlin", datetime(2026, 3, 29, 1, 30, tzinfo=UTC)),  # skipped by the clocks
        ("2026-10-25 02:30:00", "Europe/Berlin", datetime(2026, 10, 25, 0, 30, tzinfo=UTC)),  # there twice
    ],
)
def test_a_time_without_a_zone_is_of_the_zone_that_is_said(text: str, zone: str, moment: datetime) -> None:
    expected = PredicateBuilder(FIELDS).equal("z", moment)
    assert parse_predicate(f"z = '{text}'", FIELDS, zone) == expected
    assert PredicateBuilder(FIELDS, zone).equal("z", text) == expected


@pytest.mark.parametrize("text", ["0001-01-01", "9999-12-31 23:59:59.999999"])
@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/Los_Angeles"])
def test_the_ends_of_the_calendar_have_zones(text: str, zone: str) -> None:
    there, utc = (parse_predicate(f"z = '{text}'", FIELDS, name).literals[0] for name in (zone, "UTC"))
    assert isinstance(there, int)
    assert isinstance(utc, int)
    assert (there < utc) == (zone == "Asia/Tokyo")


def test_times_of_columns_without_a_zone_know_none() -> None:
    asked = "n > '2026-01-09' AND n < TIMESTAMP '2026-01-10 00:00:00'"
    assert parse_predicate(asked, FIELDS, "Asia/Tokyo") == parse_predicate(asked, FIELDS)


def test_a_shown_filter_means_the_same_in_every_zone() -> None:
    asked = parse_predicate("z >= '2026-01-09' OR z IN ('2026-01-01 12:00:00')", FIELDS, "Europe/Berlin")
    assert parse_predicate(str(asked), FIELDS, "Asia/Tokyo") == asked


@pytest.mark.parametrize("zone", ["Mars/Base", "", "+2:3", "../etc/passwd"])
def test_an_unknown_zone_is_refused(zone: str) -> None:
    with pytest.raises(lw.InvalidInputError, match="no time zone"):
        parse_predicate("z = '2026-01-09'", FIELDS, zone)


def test_the_option_of_a_handle_says_the_zone_of_every_verb(tmp_path: Path) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    options = {"deletion-vectors.enabled": "true"}
    columns = [*FIELDS, DataField(2, "id", AtomicType("INT"))]
    catalog.create_table("d.t", lw.Schema(columns, options=options))
    table = catalog.get_table("d.t")
    moments = [datetime(2026, 1, 8, hour, tzinfo=UTC) for hour in (22, 23)]
    lw.write_table(pa.table({"z": moments, "id": pa.array([1, 2], pa.int32())}), table)
    there = table.copy({"lakewright.time-zone": "Europe/Berlin"})
    assert lw.read_table(there, filter="z >= '2026-01-09'").column("id").to_pylist() == [2]
    assert lw.read_table(table, filter="z >= '2026-01-09'").num_rows == 0
    builder = there.new_read_builder()
    found = builder.with_filter(builder.new_predicate_builder().equal("z", "2026-01-09")).new_read().to_arrow()
    assert found.column("id").to_pylist() == [2]
    assert there.update({"n": datetime(2000, 1, 1)}, "z >= '2026-01-09'").updated == 1  # noqa: DTZ001
    source = pa.table({"id": pa.array([1, 2], pa.int32())})
    merged = there.merge(source, on="t.id = s.id AND t.z < '2026-01-09'").when_matched_delete().execute()
    assert merged.deleted == 1
    assert there.delete("z = '2026-01-09'").deleted == 1
    with pytest.raises(lw.InvalidInputError, match=r"lakewright\.time-zone"):
        table.copy({"lakewright.time-zone": "Nowhere"})
