"""BLOB and VECTOR columns beside a model: inserts, updates, deletes, new columns, compaction, in any order."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakewright as lw

OPTIONS = {
    "row-tracking.enabled": "true",
    "data-evolution.enabled": "true",
    "deletion-vectors.enabled": "true",
    "compaction.min.file-num": "2",
    "vector.file.format": "parquet",
    "blob.target-file-size": "60 b",
    "target-file-row-num": "6",
}
VECTOR = pa.list_(pa.field("element", pa.float32()), 2)


class Model:
    """A table, and the rows that it should have, by their ids."""

    def __init__(self, root: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.catalog = lw.CatalogFactory.create({"warehouse": str(root)})
        self.catalog.create_database("d")
        columns = pa.schema({"id": pa.int64(), "s": pa.string(), "b": pa.large_binary(), "v": VECTOR})
        self.catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(columns, options=OPTIONS))
        self.rows: dict[int, dict[str, Any]] = {}
        self.types = {"s": pa.string(), "b": pa.large_binary(), "v": VECTOR}

    @property
    def table(self) -> lw.FileStoreTable:
        return self.catalog.get_table("d.t")

    def value(self, name: str) -> Any:  # noqa: ANN401 - of any column
        if self.random.random() < 0.3:
            return None
        if self.types[name] == VECTOR:
            return [float(self.random.randrange(9)) for _ in range(2)]
        text = "x" * self.random.randrange(12) + str(self.random.randrange(99))
        return text if self.types[name] == pa.string() else text.encode()

    def insert(self) -> None:
        first = max(self.rows, default=0) + 1
        new = {first + n: {name: self.value(name) for name in self.types} for n in range(self.random.randrange(1, 15))}
        data = {"id": pa.array(list(new))}
        data |= {name: pa.array([row[name] for row in new.values()], kind) for name, kind in self.types.items()}
        lw.write_table(pa.table(data), self.table)
        self.rows |= new

    def chosen(self) -> list[int]:
        return self.random.sample(sorted(self.rows), min(len(self.rows), self.random.randrange(1, 5)))

    def update(self) -> None:
        ids = self.chosen()
        if not ids:
            return
        names = self.random.sample(sorted(self.types), self.random.randrange(1, len(self.types) + 1))
        new = {name: self.value(name) for name in names}
        self.table.update(new, where=f"id in ({', '.join(map(str, ids))})")
        for number in ids:
            self.rows[number] |= new

    def delete(self) -> None:
        ids = self.chosen()
        if ids:
            self.table.delete(f"id in ({', '.join(map(str, ids))})")
            self.rows = {number: row for number, row in self.rows.items() if number not in ids}

    def add_column(self) -> None:
        if len(self.types) < 5:
            name = f"b{len(self.types)}"
            self.catalog.alter_table("d.t", [lw.SchemaChange.add_column(name, lw.AtomicType("BLOB"))])
            self.types[name] = pa.large_binary()
            for row in self.rows.values():
                row[name] = None

    def compact(self) -> None:
        self.table.compact(full=True)

    def step(self) -> None:
        names = ["insert", "update", "update", "update", "delete", "compact", "add_column"]
        getattr(self, self.random.choice(names))()

    def check(self) -> None:
        wanted = [{"id": number, **row} for number, row in sorted(self.rows.items())]
        table = self.table
        read = lw.read_table(table).sort_by("id")
        assert read.to_pylist() == wanted
        lazy = lw.read_table(table, blobs="lazy", filter="id > 3").sort_by("id")
        values = [None if blob is None else blob.read() for blob in lazy["b"].to_pylist()]
        assert values == [row["b"] for row in wanted if row["id"] > 3]
        chosen = lw.read_table(table, columns=["id", "b"], filter="b IS NOT NULL AND id < 20").sort_by("id")
        assert chosen.to_pylist() == [
            {"id": row["id"], "b": row["b"]} for row in wanted if row["id"] < 20 and row["b"] is not None
        ]
        assert not table.verify(full=True).findings


@pytest.mark.parametrize("seed", range(4))
def test_any_order_of_changes_leaves_the_rows_of_the_model(tmp_path: Path, seed: int) -> None:
    model = Model(tmp_path, seed)
    model.insert()
    for _ in range(12):
        model.step()
        model.check()
