"""MAP columns with shared shredding: files of a small writer made for this test are read as the maps they stand for."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewright.errors import CorruptTableError, UnsupportedError
from lakewright.spec.types import AtomicType, DataField, MapType
from support.data_files import read
from support.effort import examples

KEY = AtomicType("STRING", nullable=False)
FIELDS = [DataField(0, "m", MapType(True, KEY, AtomicType("BIGINT"))), DataField(1, "n", AtomicType("INT"))]  # noqa: FBT003
MAPS = st.none() | st.dictionaries(st.sampled_from(["a", "b", "c", "é", "x y", ""]), st.none() | st.integers(-9, 9))


def written(maps: Sequence[Mapping[str, int | None] | None], width: int, codec: str, version: str = "1") -> bytes:
    """Return a parquet file with the first keys of each row in columns, and the others in the overflow."""
    numbers: dict[str, int] = {}
    rows: list[dict[str, object] | None] = []
    for one in maps:
        if one is None:
            rows.append(None)
            continue
        pairs = [(numbers.setdefault(key, len(numbers)), value) for key, value in one.items()]
        row: dict[str, object] = {f"__col_{at}": value for at, (_, value) in enumerate(pairs[:width])}
        mapping = [number for number, _ in pairs[:width]]
        row["__field_mapping"] = mapping + [-1] * (width - len(mapping))
        row["__overflow"] = pairs[width:] or None
        rows.append(row)
    parts = [("__field_mapping", pa.list_(pa.int32())), *((f"__col_{at}", pa.int64()) for at in range(width))]
    kind = pa.struct([*parts, ("__overflow", pa.map_(pa.int32(), pa.int64()))])
    text = json.dumps(numbers, ensure_ascii=False, sort_keys=True).encode()
    packed = text
    if codec == "zstd":
        packed = zstandard.compress(text)
    elif codec == "lz4":
        packed = bytes(8) + bytes(pa.compress(text, codec="lz4_raw"))
    facts = {"version": version, "field-dict-compression": codec, "field-dict-original-size": str(len(text))}
    metadata = {f"paimon.map.shared-shredding.{key}": value for key, value in facts.items()}
    metadata["paimon.map.shared-shredding.field-dict"] = packed.decode("latin-1")
    metadata["paimon.map.storage-layout"] = "shared-shredding"
    table = pa.table([pa.array(rows, kind), pa.array(range(len(rows)), pa.int32())], names=["m", "n"])
    schema = pa.schema([table.schema.field("m").with_metadata(metadata), table.schema.field("n")])
    sink = io.BytesIO()
    pq.write_table(table.cast(schema), sink, row_group_size=4)
    return sink.getvalue()


@settings(max_examples=examples(60))
@given(st.lists(MAPS, min_size=1, max_size=12), st.integers(1, 4), st.sampled_from(["zstd", "lz4", "none"]))
def test_maps_are_read_as_they_were_written(maps: list[dict[str, int | None] | None], width: int, codec: str) -> None:
    data = written(maps, width, codec)
    rows, _ = read("parquet", data, FIELDS)
    found = [None if one is None else dict(one) for one in rows["m"].to_pylist()]
    assert found == maps
    assert rows["n"].to_pylist() == list(range(len(maps)))
    rows, _ = read("parquet", data, FIELDS[1:])
    assert rows["n"].to_pylist() == list(range(len(maps)))


def test_other_versions_are_refused_by_column() -> None:
    with pytest.raises(UnsupportedError, match=r"'m' of the file .* version '2'"):
        read("parquet", written([{"a": 1}], 1, "zstd", version="2"), FIELDS)


def test_a_mapping_of_another_width_is_damage() -> None:
    table = pq.read_table(io.BytesIO(written([{"a": 1}], 2, "none")))
    struct = table["m"].combine_chunks()
    short = pa.array([[0]], pa.list_(pa.int32()))
    children = [short, *(struct.field(at) for at in range(1, struct.type.num_fields))]
    broken = pa.StructArray.from_arrays(children, names=[field.name for field in struct.type])
    sink = io.BytesIO()
    pq.write_table(table.set_column(0, table.schema.field("m"), broken.cast(struct.type)), sink)
    with pytest.raises(CorruptTableError):
        read("parquet", sink.getvalue(), FIELDS)
