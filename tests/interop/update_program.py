"""A program as users of pypaimon write it; a test runs it with pypaimon, and with ours after changing the import."""

from __future__ import annotations

import sys
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pypaimon import CatalogFactory, Schema  # type: ignore[import-not-found]
from pypaimon.ray import WhenMatched, WhenNotMatched, lit, source_col, target_col  # type: ignore[import-not-found]

COLUMNS = pa.schema([("id", pa.int32()), ("name", pa.string()), ("age", pa.int64()), ("pt", pa.string())])
SYSTEM = ["_ROW_ID", "_SEQUENCE_NUMBER"]


def rows_of(ids: list[int], mark: str, pt: str = "p") -> pa.Table:
    """Return rows with these ids."""
    names = [f"{mark}{i}" for i in ids]
    return pa.table([ids, names, [10 * i for i in ids], [pt] * len(ids)], schema=COLUMNS)


def with_ids(ids: list[int], **columns: list[object]) -> pa.Table:
    """Return values for rows by their ids."""
    fields = [COLUMNS.field(name) for name in columns]
    return pa.table([ids, *columns.values()], schema=pa.schema([("_ROW_ID", pa.int64()), *fields]))


class Tables:
    """Makes tables, each with six rows in two files, and remembers what they hold after every step."""

    def __init__(self, warehouse: str) -> None:
        self.catalog = CatalogFactory.create({"warehouse": warehouse})
        self.catalog.create_database("d", True)  # noqa: FBT003 - the peer's signature
        self.log: list[object] = []
        self.count = 0

    def make(self, *, vectors: bool = True, partitioned: bool = False) -> Any:  # noqa: ANN401
        options = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
        if vectors:
            options["deletion-vectors.enabled"] = "true"
        name = f"d.t{self.count}"
        self.count += 1
        keys = ["pt"] if partitioned else None
        schema = Schema.from_pyarrow_schema(COLUMNS, partition_keys=keys, options=options)
        self.catalog.create_table(name, schema, False)  # noqa: FBT003 - the peer's signature
        table = self.catalog.get_table(name)
        for ids in ([0, 1, 2], [3, 4, 5]):
            builder = table.new_batch_write_builder()
            write, commit = builder.new_write(), builder.new_commit()
            write.write_arrow(rows_of(ids, "n", "p" if ids[0] == 0 else "q"))
            commit.commit(write.prepare_commit())
            write.close()
            commit.close()
        return table

    def note(self, what: str, table: Any) -> None:  # noqa: ANN401
        """Remember the rows of a table."""
        builder = table.new_read_builder().with_projection([*COLUMNS.names, *SYSTEM])
        read = builder.new_read().to_arrow(builder.new_scan().plan().splits())
        self.log.append([what, sorted(read.to_pylist(), key=lambda row: row["_ROW_ID"])])

    def step(self, what: str, table: Any, work: Any) -> None:  # noqa: ANN401
        """Do one change and commit it; remember the rows, or that it was refused as a wrong value."""
        builder = table.new_batch_write_builder()
        try:
            messages = work(builder.new_update())
        except (ValueError, KeyError, TypeError):
            self.log.append([what, "refused"])
            return
        if messages:
            commit = builder.new_commit()
            commit.commit(messages)
            commit.close()
        self.note(what, table)


def by_row_id(made: Tables) -> None:
    """Update and delete rows by their ids."""
    t = made.make()
    made.step(
        "one column",
        t,
        lambda u: u.with_update_type(["age"]).update_by_arrow_with_row_id(with_ids([4, 1], age=[44, 11])),
    )
    made.step("two columns", t, lambda u: u.update_by_arrow_with_row_id(with_ids([1], age=[12], name=["x"])))
    made.step(
        "some of them",
        t,
        lambda u: u.with_update_type(["age"]).update_by_arrow_with_row_id(with_ids([1], age=[13], name=["y"])),
    )
    made.step("a null", t, lambda u: u.update_by_arrow_with_row_id(with_ids([5], name=[None])))
    made.step("no rows", t, lambda u: u.update_by_arrow_with_row_id(with_ids([], age=[])))
    made.step(
        "narrow integers",
        t,
        lambda u: u.update_by_arrow_with_row_id(
            pa.table({"_ROW_ID": pa.array([0], pa.int32()), "age": pa.array([1], pa.int16())})
        ),
    )
    made.step("no such column", t, lambda u: u.with_update_type(["nothing"]))
    made.step("no ids", t, lambda u: u.update_by_arrow_with_row_id(pa.table({"age": [1]})))
    made.step("an id twice", t, lambda u: u.update_by_arrow_with_row_id(with_ids([1, 1], age=[1, 2])))
    made.step("an unknown id", t, lambda u: u.update_by_arrow_with_row_id(with_ids([99], age=[1])))
    made.step("a null id", t, lambda u: u.update_by_arrow_with_row_id(with_ids([None], age=[1])))  # type: ignore[list-item]
    made.step("delete", t, lambda u: u.delete_by_row_id([1, 3]))
    made.step("delete again", t, lambda u: u.delete_by_row_id([1, 1, 4]))
    made.step("delete nothing", t, lambda u: u.delete_by_row_id([]))
    made.step("delete an unknown id", t, lambda u: u.delete_by_row_id([99]))
    made.step("delete a null id", t, lambda u: u.delete_by_row_id([None]))
    made.step("update beside deleted rows", t, lambda u: u.update_by_arrow_with_row_id(with_ids([0, 5], age=[7, 8])))


def by_predicate(made: Tables) -> None:
    """Update and delete rows that fulfil a predicate."""
    t = made.make()
    made.step(
        "literals",
        t,
        lambda u: u.update_by_predicate(u.new_predicate_builder().greater_than("id", 3), {"name": "lit", "age": 7}),
    )
    made.step("a null", t, lambda u: u.update_by_predicate(u.new_predicate_builder().equal("id", 5), {"name": None}))
    made.step(
        "an Arrow scalar",
        t,
        lambda u: u.update_by_predicate(u.new_predicate_builder().equal("id", 5), {"age": pa.scalar(9)}),
    )
    made.step(
        "a function",
        t,
        lambda u: u.update_by_predicate(
            u.new_predicate_builder().less_than("id", 3),
            {"age": lambda b: pc.add(pc.cast(b["id"], pa.int64()), b["_ROW_ID"])},
            read_columns=["id"],
        ),
    )
    made.step("every row", t, lambda u: u.update_by_predicate(None, {"name": "all"}))
    made.step(
        "no row", t, lambda u: u.update_by_predicate(u.new_predicate_builder().greater_than("id", 300), {"age": 5})
    )
    made.step("no assignments", t, lambda u: u.update_by_predicate(None, {}))
    made.step("a wrong type", t, lambda u: u.update_by_predicate(None, {"age": "text"}))
    made.step("no such column", t, lambda u: u.update_by_predicate(None, {"nothing": 1}))
    made.step("delete", t, lambda u: u.delete_by_predicate(u.new_predicate_builder().is_in("id", [0, 4])))
    made.step("delete none", t, lambda u: u.delete_by_predicate(u.new_predicate_builder().equal("id", 4)))
    made.step("delete all", t, lambda u: u.delete_by_predicate(u.new_predicate_builder().is_not_null("id")))


def upserts(made: Tables) -> None:
    """Update rows by a key, and insert the rest."""
    t = made.make()
    made.step("one of each", t, lambda u: u.upsert_by_arrow_with_key(rows_of([1, 9], "u"), ["id"]))
    made.step(
        "the last counts",
        t,
        lambda u: u.upsert_by_arrow_with_key(pa.concat_tables([rows_of([1], "v"), rows_of([1], "w")]), ["id"]),
    )
    made.step(
        "some columns", t, lambda u: u.with_update_type(["age"]).upsert_by_arrow_with_key(rows_of([2, 10], "z"), ["id"])
    )
    made.step(
        "only some columns",
        t,
        lambda u: u.with_update_type(["age"]).upsert_by_arrow_with_key(
            pa.table({"id": pa.array([1], pa.int32()), "age": [6]}), ["id"]
        ),
    )
    made.step("an unknown key", t, lambda u: u.upsert_by_arrow_with_key(rows_of([1], "v"), ["nothing"]))
    made.step("no key", t, lambda u: u.upsert_by_arrow_with_key(rows_of([1], "v"), []))
    t = made.make(partitioned=True)
    made.step("per partition", t, lambda u: u.upsert_by_arrow_with_key(rows_of([1, 4], "u", "p"), ["id"]))


def merges(made: Tables) -> None:
    """Merge sources into tables."""
    t = made.make()
    source = rows_of([1, 4, 9], "m")
    made.step("update all", t, lambda u: u.merge_into(source, on=["id"], when_matched=[WhenMatched.update()]))
    made.step(
        "both",
        t,
        lambda u: u.merge_into(
            rows_of([2, 8], "b"),
            on=["id"],
            when_matched=[WhenMatched.update({"age": source_col("age")})],
            when_not_matched=[WhenNotMatched("*")],
        ),
    )
    made.step(
        "values",
        t,
        lambda u: u.merge_into(
            source, on=["id"], when_matched=[WhenMatched.update({"age": lit(77), "name": target_col("pt")})]
        ),
    )
    made.step(
        "texts",
        t,
        lambda u: u.merge_into(source, on=["id"], when_matched=[WhenMatched.update({"name": "plain", "age": 5})]),
    )
    made.step(
        "columns as texts",
        t,
        lambda u: u.merge_into(
            source, on=["id"], when_matched=[WhenMatched.update({"name": "s.name", "pt": "t.name"})]
        ),
    )
    made.step(
        "other names",
        t,
        lambda u: u.merge_into(
            source.rename_columns(["k", "name", "age", "pt"]),
            on={"id": "k"},
            when_matched=[WhenMatched.update({"age": source_col("k")})],
        ),
    )
    made.step(
        "insert some columns",
        t,
        lambda u: u.merge_into(
            rows_of([30], "i"), on=["id"], when_not_matched=[WhenNotMatched({"id": source_col("id"), "age": lit(5)})]
        ),
    )
    made.step(
        "two for one",
        t,
        lambda u: u.merge_into(
            pa.concat_tables([source, source]), on=["id"], when_matched=[WhenMatched.update({"age": lit(1)})]
        ),
    )
    made.step("no clause", t, lambda u: u.merge_into(source, on=["id"]))
    made.step(
        "a source that lacks columns",
        t,
        lambda u: u.merge_into(source.select(["id"]), on=["id"], when_matched=[WhenMatched.update()]),
    )
    made.step("delete", t, lambda u: u.merge_into(source, on=["id"], when_matched=[WhenMatched.delete()]))


def shards(made: Tables) -> None:
    """Read and update a table in shares."""
    t = made.make(vectors=False)
    for shard in (0, 1):
        builder = t.new_batch_write_builder()
        update = builder.new_update()
        update.with_read_projection(["id", "age"])
        updator = update.with_update_type(["age"]).new_shard_updator(shard, 2)
        for batch in updator.arrow_reader():
            ages = pc.add(batch.column("age"), pc.cast(batch.column("id"), pa.int64()))
            updator.update_by_arrow_batch(pa.record_batch({"age": ages}))
        builder.new_commit().commit(updator.prepare_commit())
        made.note(f"shard {shard}", t)


def streams(made: Tables) -> None:
    """Commit changes under identifiers."""
    t = made.make()
    builder = t.new_stream_write_builder()
    update, commit = builder.new_update(), builder.new_commit()
    works: list[Any] = [
        lambda n: update.update_by_predicate(update.new_predicate_builder().equal("id", 0), {"age": 100}, n),
        lambda n: update.update_by_arrow_with_row_id(with_ids([2], age=[22]), n),
        lambda n: update.delete_by_predicate(update.new_predicate_builder().equal("id", 5), n),
        lambda n: update.delete_by_row_id([4], n),
        lambda n: update.upsert_by_arrow_with_key(rows_of([3, 50], "s"), ["id"], n),
    ]
    for identifier, work in enumerate(works, 1):
        commit.commit(work(identifier), identifier)
        made.note(f"identifier {identifier}", t)


def main(warehouse: str) -> list[object]:
    """Run everything and return what was seen."""
    made = Tables(warehouse)
    for part in (by_row_id, by_predicate, upserts, merges, shards, streams):
        part(made)
    return made.log


if __name__ == "__main__":
    import json

    print(json.dumps(main(sys.argv[1])))
