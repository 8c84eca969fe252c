"""What users give a verb to record is in the snapshot that the verb publishes, and in no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakewright as lw

COLUMNS = pa.schema({"id": pa.int64(), "n": pa.int64()})
GIVEN = {"pipeline": "daily", "run": "7"}
KINDS: dict[str, dict[str, Any]] = {
    "append": {},
    "keyed": {"primary_keys": ["id"], "options": {"bucket": 1}},
    "tracked": {"options": {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}},
}


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "n": list(ids)}, COLUMNS)


@pytest.mark.parametrize("kind", KINDS)
def test_every_verb_records_what_it_is_given(tmp_path: Path, kind: str) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(COLUMNS, **KINDS[kind]))
    table = catalog.get_table("d.t")

    def recorded() -> dict[str, str]:
        snapshot = table.snapshot()
        assert snapshot is not None
        return {key: value for key, value in snapshot.properties.items() if not key.startswith("lakewright.")}

    lw.write_table(rows(1, 2, 3), table, snapshot_properties=GIVEN)
    assert recorded() == GIVEN
    lw.write_table(rows(4), table)
    assert recorded() == {}
    table.update({"n": 5}, "id = 1", snapshot_properties=GIVEN)
    assert recorded() == GIVEN
    table.upsert(rows(1, 9), ["id"], snapshot_properties={"run": "8"}, job_id="job")
    assert recorded() == {"run": "8"}
    merge = table.merge(pa.table({"id": [1], "n": [7]}), "id").when_matched_update()
    merge.execute(snapshot_properties=GIVEN)
    assert recorded() == GIVEN
    if kind == "tracked":
        ids = lw.read_table(table, columns=["_ROW_ID"], filter="id = 9")
        table.update_by_row_id(ids.append_column("n", pa.array([1])), snapshot_properties={"run": "9"})
        assert recorded() == {"run": "9"}
    else:
        table.delete("id = 9", snapshot_properties={"run": "9"})
        assert recorded() == {"run": "9"}
    lw.write_table(rows(20), table, mode="overwrite", snapshot_properties=GIVEN)
    assert recorded() == GIVEN
    lw.write_table(rows(21), table)
    table.compact(full=True, snapshot_properties={"run": "10"})
    assert recorded() == {"run": "10"}


def test_properties_are_text(tmp_path: Path) -> None:
    table = lw.create_table_from(rows(1), "d.t", catalog=str(tmp_path))
    with pytest.raises(lw.InvalidInputError, match=r"d\.t.* snapshot property 'run' takes a text, not 7"):
        table.delete("id = 1", snapshot_properties={"run": 7})  # type: ignore[dict-item]
    with pytest.raises(lw.InvalidInputError, match="snapshot_properties"):
        lw.write_table(rows(1), table, snapshot_properties="run")  # type: ignore[arg-type]
    assert lw.read_table(table).num_rows == 1
