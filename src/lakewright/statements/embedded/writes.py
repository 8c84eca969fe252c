"""INSERT and CREATE TABLE AS in this process: a query in, one snapshot out.

The rows of the query are cast to the types of the table by the rules of store assignment, and written batch by batch as
`lakewright.write_table` writes them. A query reads its tables at the snapshots of its start, so that a statement may
read the table that it writes. What always holds: a statement that fails changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from lakewright.calls import merged_table, write_table
from lakewright.commit.table_commit import CommitResult
from lakewright.spec.options import CoreOptions
from lakewright.statements.change.assign import Storing, quoted, sql_type
from lakewright.statements.change.evolve import SchemaMerge
from lakewright.statements.change.insert import insert_query, plan_insert
from lakewright.statements.embedded.changes import in_zone
from lakewright.statements.embedded.evaluate import Evaluation, Written
from lakewright.statements.model import CreateTableAs, Insert
from lakewright.statements.query.places import Kind
from lakewright.statements.text import Fragment
from lakewright.table.table import FileStoreTable

_MODE = "spark.sql.sources.partitionOverwriteMode"
_DYNAMIC = CoreOptions.DYNAMIC_PARTITION_OVERWRITE.key()


def insert(evaluation: Evaluation, statement: Insert) -> CommitResult:
    """Write the rows of a query into a table."""
    table = in_zone(evaluation, evaluation.session.changeable(statement.table))
    query = insert_query(table.store, statement)
    bound = evaluation.bind([(query, Kind.QUERY)])
    given = evaluation.ready(bound, lambda written: written(query)).columns
    by_name = pa.schema([(column.name, column.type) for column in given if statement.by_name])
    merge = SchemaMerge.of(evaluation.session, evaluation.lookup, statement.table)
    added = merge.columns(table, by_name)
    table, before = merged_table(table, added, stored=False), table
    dynamic = evaluation.session.settings().get(_MODE, "static").lower() == "dynamic"
    plan = plan_insert(table.store, statement, [column.name for column in given], dynamic=dynamic)
    storing = Storing(table.store.name, by_position=not statement.by_name)
    chosen = [
        f"{storing.value(f'c{at}', given[at].type, field, statement.query)} AS {quoted(field.name)}"
        for field, at in plan.columns
    ]
    static = _values(evaluation, table, plan.static)
    chosen += [f"{text} AS {quoted(name)}" for name, (text, _) in static.items()]
    names = ", ".join(f"c{at}" for at in range(len(given)))

    def compose(written: Written) -> str:
        return f"SELECT {', '.join(chosen)} FROM ({written(query)}\n) AS _lw_rows({names})"  # noqa: S608 - bound later

    ready = evaluation.ready(bound, compose)
    table = merged_table(before, added)
    with ready.rows() as rows:
        if statement.replace_where is None and not statement.overwrite:
            return write_table(rows, table, progress=False)
        if plan.replaced is None:
            return write_table(rows, table.copy({_DYNAMIC: "true"}), "overwrite", progress=False)
        spec = {name: found for name, (_, found) in _values(evaluation, table, plan.replaced).items()}
        return write_table(rows, table, "overwrite", partitions=spec, progress=False)


def create_as(evaluation: Evaluation, statement: CreateTableAs) -> CommitResult | None:
    """Create a table and write the rows of a query into it; None: it exists, and stays as it is."""
    query = evaluation.query(statement.query)
    with query.rows() as rows:
        name = statement.create.create_as(evaluation.session, rows.schema)
        if name is None:
            return None
        try:
            done = write_table(rows, evaluation.session.table(name), progress=False)
            statement.create.finish(evaluation.session)
        except BaseException:
            statement.create.undo(evaluation.session)
            raise
        return done


def _values(
    evaluation: Evaluation, table: FileStoreTable, given: Mapping[str, Fragment]
) -> dict[str, tuple[str, object]]:
    """Return the value of each partition column, as SQL text and as it is."""
    out: dict[str, tuple[str, object]] = {}
    for name, value in given.items():
        kind = sql_type(table.schema.field(name).type)
        bound = evaluation.bind([(value, Kind.EXPRESSION)])

        def compose(written: Written, value: Fragment = value, kind: str = kind) -> str:
            return f"SELECT CAST({written(value)} AS {kind}) AS value"

        with evaluation.ready(bound, compose).rows() as rows:
            found: pa.Table = rows.read_all()
        text = found["value"].cast(pa.string())[0].as_py()
        shown = "NULL" if text is None else "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
        out[name] = f"CAST({shown} AS {kind})", found["value"][0].as_py()
    return out
