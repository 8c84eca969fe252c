"""The binary form of VARIANT: the bytes of Java, JSON and Python objects both ways, and damaged bytes."""

from __future__ import annotations

import json
import uuid
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewright import variant
from lakewright.errors import CorruptTableError, InvalidInputError, UnsupportedError
from lakewright.spec.variant_encoding import VARIANT_TYPE
from support.golden import expected_multimodal

TABLES = expected_multimodal()
OF_JAVA = [cell for name in sorted(TABLES) for cell in TABLES[name].get("variantBinary", ())]
# JSON in the order in which it was written, metadata and value, of section 3.6 of the format.
FROM_JSON = [
    ('{"a":1,"b":"x","c":null,"d":true}', "0104000102030461626364", "02040001020300020405060c0105780004"),
    ('[1,"two",3.5,null,{"k":[]}]', "010100016b", "03050002060c0d150c010d74776f200123000000000201000003030000"),
    ("-128", "010000", "0c80"),
    ("128", "010000", "108000"),
    ("32768", "010000", "1400800000"),
    ("1e10", "010000", "1c000000205fa00242"),
    ("123456789012345678.25", "010000", "2802910a1feb8ca954ab0000000000000000"),
    ("1.0", "010000", "20010a000000"),
    ('{"b":1,"a":2,"B":3,"":4}', "01040001020303626142", "02040302010006040200080c010c020c030c04"),
    ('{"😀":1,"￮":2,"z":3}', "010300040708f09f9880efbfae7a", "0203020001040002060c010c020c03"),
    (
        '{"z":{"y":{"x":[1,2,{"w":"deep"}]}},"a":"é漢"}',
        "01050001020304057a79787761",
        "020204001e00240201010019020102001403030002040e0c010c020201030005116465657015c3a9e6bca2",
    ),
]


def cells(binaries: list[tuple[str, str]]) -> pa.Array:
    """Return a column of metadata and values in hexadecimal digits."""
    values = [{"metadata": bytes.fromhex(metadata), "value": bytes.fromhex(value)} for metadata, value in binaries]
    return pa.array(values, VARIANT_TYPE)


def test_values_of_java_become_its_json() -> None:
    texts = variant.to_json(cells([(metadata, value) for _, metadata, value in OF_JAVA]))
    assert texts.to_pylist() == [text for text, _, _ in OF_JAVA]
    assert len(OF_JAVA) > 500


def test_json_becomes_the_bytes_of_java() -> None:
    found = variant.from_json([text for text, _, _ in FROM_JSON])
    assert [(c["metadata"].hex(), c["value"].hex()) for c in found.to_pylist()] == [case[1:] for case in FROM_JSON]


def test_wide_objects_and_long_arrays_become_the_bytes_of_java() -> None:
    cases = [cell for cell in TABLES["variant.big_object_j200"]["variantBinary"] if len(cell[0]) > 1000]
    numbered, longest = sorted(cases, key=lambda cell: cell[0][0] == "[")
    text = json.dumps({f"key{number}": number for number in range(300)})
    found = variant.from_json([text, longest[0]]).to_pylist()
    assert [c["value"].hex() for c in found] == [numbered[2], longest[2]]
    assert [c["metadata"].hex() for c in found] == [numbered[1], longest[1]]


def test_timestamps_are_in_the_zone_of_the_caller() -> None:
    moment = variant.from_python([datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)])
    assert variant.to_json(moment, timezone="Asia/Kolkata").to_pylist() == ['"2023-11-15 03:43:20+05:30"']


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.text(max_size=80)
    | st.floats(allow_nan=False)
    | st.binary(max_size=5)
    | st.dates(date(1, 1, 2), date(9999, 12, 30))
    | st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.sampled_from([None, UTC]))  # noqa: DTZ001
    | st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**20), max_value=10**20)
    | st.uuids()
)
OBJECTS = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=3), inner), max_leaves=20
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.text() | st.decimals(-100, 100, places=2),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=20,
)


def same(found: object, value: object) -> bool:
    """Compare classes too, because True equals 1."""
    if isinstance(value, dict):
        return isinstance(found, dict) and found.keys() == value.keys() and all(same(found[k], value[k]) for k in value)
    if isinstance(value, list):
        return isinstance(found, list) and len(found) == len(value) and all(map(same, found, value))
    return type(found) is type(value) and found == value


@given(st.lists(OBJECTS))
def test_python_objects_come_back(values: list[object]) -> None:
    column = variant.from_python(values)
    column.validate(full=True)
    assert same(variant.to_python(column), values)


@given(st.lists(JSON), st.sampled_from([None, 1]), st.booleans())
def test_json_comes_back(values: list[object], indent: int | None, ascii_only: bool) -> None:
    texts = [json.dumps(value, indent=indent, ensure_ascii=ascii_only, default=float) for value in values]
    column = variant.from_json(pa.chunked_array([texts, [None]], pa.string()))
    for text, found in zip(texts, variant.to_json(column).to_pylist(), strict=False):
        assert json.loads(found, parse_int=Decimal, parse_float=Decimal) == json.loads(
            text, parse_int=Decimal, parse_float=Decimal
        )
    assert variant.to_python(column)[len(values) :] == [None]


@given(st.text(alphabet='{}[]":,1.-eE \\ntrufals\n', max_size=12))
def test_what_is_not_json_is_refused(text: str) -> None:
    def pairs(items: list[tuple[str, object]]) -> dict[str, object]:
        if len(dict(items)) < len(items):
            raise ValueError("a key appears twice")
        return dict(items)

    def refuse(name: str) -> None:
        raise ValueError(name)

    try:
        json.loads(text, object_pairs_hook=pairs, parse_constant=refuse)
    except ValueError:
        with pytest.raises(InvalidInputError, match="row 1 is not JSON"):
            variant.from_json(["{}", text])
    else:
        variant.from_json(["{}", text])


@given(st.data())
def test_damaged_bytes_are_noticed_or_read(data: st.DataObject) -> None:
    _, metadata, value = data.draw(st.sampled_from([cell for cell in OF_JAVA if len(cell[2]) < 400]))
    damaged = [bytearray.fromhex(metadata), bytearray.fromhex(value)]
    for _ in range(data.draw(st.integers(1, 3))):
        part = data.draw(st.sampled_from(damaged))
        part[data.draw(st.integers(0, len(part) - 1))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del damaged[1][data.draw(st.integers(0, len(damaged[1]))) :]
    column = cells([(damaged[0].hex(), damaged[1].hex()), ("010000", "0c2a")])
    with suppress(CorruptTableError, UnsupportedError):  # nothing else, and no crash
        texts = variant.to_json(column)
        texts.validate(full=True)
        assert texts[1].as_py() == "42"


@pytest.mark.parametrize(
    "value", [{1: "a"}, object(), Decimal("NaN"), 10**40, Decimal(1).scaleb(-50)], ids=lambda v: type(v).__name__
)
def test_objects_without_a_counterpart_are_refused(value: object) -> None:
    with pytest.raises(InvalidInputError, match="row 1 cannot become a variant"):
        variant.from_python([uuid.UUID(int=1), [value]])


def test_other_columns_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="struct of value and metadata"):
        variant.to_json(pa.array([1]))
    with pytest.raises(InvalidInputError, match="JSON is text"):
        variant.from_json(pa.array([1]))
