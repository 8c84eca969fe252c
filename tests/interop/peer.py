"""A Python peer at work in its own environment: one JSON command a line in, one answer a line out, rows as Arrow files.

It is started with the peers' interpreter and imports nothing of lakewright.
"""

from __future__ import annotations

import importlib
import itertools
import json
import os
import sys
import traceback
from typing import Any

import pyarrow as pa


def load(path: str) -> pa.Table:
    """Read an Arrow file."""
    with pa.OSFile(path) as source:
        return pa.ipc.open_file(source).read_all()


def save(table: pa.Table, path: str) -> None:
    """Write an Arrow file."""
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def python_table(command: dict[str, Any]) -> Any:  # noqa: ANN401
    """Open a table with pypaimon, with dynamic options if there are any."""
    table = python_catalog(command).get_table(command["table"])
    return table.copy(command["options"]) if command.get("options") else table


def python_catalog(command: dict[str, Any]) -> Any:  # noqa: ANN401
    """Open a catalog with pypaimon; the warehouse may be all options of a catalog, `catalog` are those beside it."""
    peer = importlib.import_module("pypaimon")
    given = command["warehouse"]
    options = given if isinstance(given, dict) else {"warehouse": given}
    return peer.CatalogFactory.create({**options, **command.get("catalog", {})})


def rust_table(command: dict[str, Any]) -> Any:  # noqa: ANN401
    """Open a table with pypaimon-rust."""
    peer = importlib.import_module("pypaimon_rust.datafusion")
    return peer.PaimonCatalog({"warehouse": command["warehouse"]}).get_table(command["table"])


def read(command: dict[str, Any]) -> dict[str, Any]:
    """Read a whole table, or some of its columns, into an Arrow file."""
    table = python_table(command) if command["peer"] == "pypaimon" else rust_table(command)
    builder = table.new_read_builder()
    if command.get("columns"):
        builder = builder.with_projection(command["columns"])
    if command["peer"] == "pypaimon":
        table = builder.new_read().to_arrow(builder.new_scan().plan().splits())
    else:
        batches = builder.new_read().read(builder.new_scan().plan().splits())
        table = pa.Table.from_batches(batches) if batches else None
    if table is None:
        return {"rows": 0}
    save(table, command["out"])
    return {"rows": table.num_rows}


def describe(command: dict[str, Any]) -> dict[str, Any]:
    """Return the columns and keys that pypaimon gives a system table."""
    table = python_table(command)
    fields = table.row_type().fields
    return {"columns": [[f.id, f.name, f.type.to_dict()] for f in fields], "keys": table.primary_keys()}


def changes(command: dict[str, Any]) -> dict[str, Any]:
    """Read with the Rust peer what changed after one snapshot up to another, the kinds in a first column `rowkind`."""
    builder = rust_table(command).new_read_builder().with_include_row_kind(True)  # noqa: FBT003 - the peer's signature
    plan = builder.new_incremental_scan(command["after"], command["until"], mode=command["mode"]).plan()
    batches = builder.new_read().read(plan.splits())
    if not batches:
        return {"rows": 0}
    save(pa.Table.from_batches(batches), command["out"])
    return {"rows": sum(batch.num_rows for batch in batches)}


def follow(command: dict[str, Any]) -> dict[str, Any]:
    """Follow a table with pypaimon from where a consumer stands, the kinds in a first column `_row_kind`."""
    builder = python_table(command).new_stream_read_builder().with_include_row_kind().with_poll_interval_ms(10)
    scan, read = builder.with_consumer_id(command["consumer"]).new_streaming_scan(), builder.new_read()
    plans = itertools.islice(scan.stream_sync(), command["plans"])
    table = pa.concat_tables([read.to_arrow(plan.splits()) for plan in plans])
    save(table, command["out"])
    return {"rows": table.num_rows}


def append(command: dict[str, Any]) -> dict[str, Any]:
    """Append the rows of an Arrow file in one commit."""
    rows = load(command["data"])
    table = python_table(command) if command["peer"] == "pypaimon" else rust_table(command)
    builder = table.new_batch_write_builder()
    if command.get("overwrite") is not None:
        spec = command["overwrite"]
        builder = builder.overwrite(spec) if command["peer"] == "pypaimon" else builder.with_overwrite(spec)
    write, commit = builder.new_write(), builder.new_commit()
    for batch in rows.combine_chunks().to_batches():
        (write.write_arrow_batch if command["peer"] == "pypaimon" else write.write_arrow)(batch)
    messages = write.prepare_commit()
    if command["peer"] == "pypaimon-rust" and command.get("messages"):
        hexes = [message.serialize().hex() for message in messages]
        write.close()
        return {"messages": hexes}
    commit.commit(messages)
    write.close()
    commit.close()
    return {}


def delete_rows(command: dict[str, Any]) -> dict[str, Any]:
    """Delete rows by their ids, which both peers do on tables with data evolution alone."""
    table = python_table(command) if command["peer"] == "pypaimon" else rust_table(command)
    builder = table.new_batch_write_builder()
    builder.new_commit().commit(builder.new_update().delete_by_row_id(command["row_ids"]))
    return {}


def change_rows(command: dict[str, Any]) -> dict[str, Any]:
    """Update rows by the ids in an Arrow file, or delete them, in one commit."""
    rows = load(command["data"])
    table = python_table(command) if command["peer"] == "pypaimon" else rust_table(command)
    builder = table.new_batch_write_builder()
    update = builder.new_update()
    if command["delete"]:
        messages = update.delete_by_row_id(rows["_ROW_ID"].to_pylist())
    else:
        names = [name for name in rows.column_names if name != "_ROW_ID"]
        messages = update.with_update_type(names).update_by_arrow_with_row_id(rows)
    builder.new_commit().commit(messages)
    return {}


def commit_messages(command: dict[str, Any]) -> dict[str, Any]:
    """Commit Java message bodies with the Rust peer."""
    peer = importlib.import_module("pypaimon_rust.datafusion")
    messages = [peer.CommitMessage.deserialize(bytes.fromhex(text)) for text in command["messages"]]
    rust_table(command).new_batch_write_builder().new_commit().commit(messages)
    return {}


def create(command: dict[str, Any]) -> dict[str, Any]:
    """Create a table with pypaimon from the schema of an Arrow file."""
    peer = importlib.import_module("pypaimon")
    catalog = python_catalog(command)
    database = command["table"].split(".")[0]
    catalog.create_database(database, ignore_if_exists=True)
    schema = peer.Schema.from_pyarrow_schema(
        load(command["data"]).schema,
        partition_keys=command.get("partition_keys"),
        primary_keys=command.get("primary_keys"),
        options=command.get("options"),
    )
    catalog.create_table(command["table"], schema, False)  # noqa: FBT003 - the peer's signature
    return {}


def names(command: dict[str, Any]) -> dict[str, Any]:
    """Call one verb of a catalog of pypaimon that is about names."""
    catalog = python_catalog(command)
    if command["verb"] == "set_option":
        change = importlib.import_module("pypaimon.schema.schema_change").SchemaChange
        table, key, value = command["arguments"]
        catalog.alter_table(table, [change.set_option(key, value)])
        return {}
    answer = getattr(catalog, command["verb"])(*command["arguments"])
    return {"names": answer if isinstance(answer, list) else None}


def alter(command: dict[str, Any]) -> dict[str, Any]:
    """Change a schema with pypaimon: changes as `["rename_column", "a", "b"]`, types as text."""
    changes = importlib.import_module("pypaimon.schema.schema_change").SchemaChange
    atomic = importlib.import_module("pypaimon.schema.data_types").AtomicType
    made = [
        getattr(changes, verb)(*([words[0], atomic(words[1])] if verb == "add_column" else words))
        for verb, *words in command["changes"]
    ]
    python_catalog(command).alter_table(command["table"], made, False)  # noqa: FBT003 - the peer's signature
    return {}


def rollback(command: dict[str, Any]) -> dict[str, Any]:
    """Make a snapshot the newest one, by a call of pypaimon's catalog."""
    instant = importlib.import_module("pypaimon.table.instant").Instant
    python_catalog(command).rollback_to(command["table"], instant.snapshot(command["snapshot"]))
    return {}


COMMANDS = {
    "alter": alter,
    "rollback": rollback,
    "read": read,
    "changes": changes,
    "follow": follow,
    "describe": describe,
    "append": append,
    "change_rows": change_rows,
    "create": create,
    "names": names,
    "delete_rows": delete_rows,
    "commit_messages": commit_messages,
}


def main() -> None:
    """Answer until standard input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a peer prints goes to standard error
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = COMMANDS[command["op"]](command)
        except BaseException:  # noqa: BLE001 - a panic of the peer must reach the test as text
            answer = {"error": traceback.format_exc()}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
