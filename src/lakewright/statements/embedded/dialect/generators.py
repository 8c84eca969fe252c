"""Functions that make rows: explode and its kin, and table functions such as range."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from lakewright.errors import InvalidInputError
from lakewright.statements.embedded.dialect.scope import Bound, Column
from lakewright.statements.embedded.dialect.types import INT, LONG, spark_type
from lakewright.statements.embedded.dialect.values import Binder

_NAMES = {f"{name}{outer}" for name in ("explode", "posexplode", "inline") for outer in ("", "_outer")}


def is_generator(node: exp.Expr) -> bool:
    """Return whether a call makes rows."""
    return isinstance(node, exp.Anonymous) and node.name.lower() in _NAMES


def generated(binder: Binder, call: exp.Expr) -> tuple[str, list[Column], bool]:
    """Return the query of a generator, its columns, and whether a row without elements gives one row of nulls."""
    if not is_generator(call):
        raise binder.refused(call, f"{call.sql('spark')} makes no rows here; {', '.join(sorted(_NAMES))} do")
    name = call.name.lower()
    value = binder.bind(call.expressions[0])
    kind, columns = value.type, []
    if pa.types.is_map(kind) and not name.startswith("inline"):
        rows = f"map_entries({value.sql})"
        columns = [
            ("key", "unnest(map_keys({0}))", kind.key_type),
            ("value", "unnest(map_values({0}))", kind.item_type),
        ]
        columns = [(column, text.format(value.sql), one) for column, text, one in columns]
    elif pa.types.is_list(kind) and name.startswith("inline") and pa.types.is_struct(kind.value_type):
        rows = value.sql
        columns = [
            (one.name, f"struct_extract(unnest({value.sql}), '{one.name}')", one.type) for one in kind.value_type
        ]
    elif pa.types.is_list(kind) and not name.startswith("inline"):
        rows = value.sql
        columns = [("col", f"unnest({value.sql})", kind.value_type)]
    else:
        raise InvalidInputError(f"{name} takes an array or a map, not {spark_type(kind)}")
    if name.startswith("pos"):
        columns.insert(0, ("pos", f"CAST(unnest(range(len({rows}))) AS INTEGER)", INT))
    text = ", ".join(f'{sql} AS "c{number}"' for number, (_, sql, _) in enumerate(columns))
    made = [Column(column, f'"c{number}"', one) for number, (column, _, one) in enumerate(columns)]
    return f"SELECT {text}", made, name.endswith("_outer")


def table_function(binder: Binder, call: exp.Anonymous) -> Bound:
    """Return the rows of a table function."""
    if call.name.lower() == "range":
        values = [binder.cast(binder.bind(one), LONG).sql for one in call.expressions[:3]]
        sql = f'SELECT range AS "c0" FROM range({", ".join(values)})'  # noqa: S608 - numbers
        return Bound(sql, [Column("id", '"c0"', LONG)])
    if is_generator(call):
        sql, columns, _ = generated(binder, call)
        return Bound(sql, columns)
    raise binder.refused(call, f"the table function {call.name} does not run here; range and explode do")
