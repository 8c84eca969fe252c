"""CALL and the registry of procedures; procedures that are refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakewright.errors import InvalidInputError, NotFoundError, SQLSyntaxError, UnsupportedError
from lakewright.spec import argument_checks
from lakewright.statements import history_procedures, maintenance_procedures
from lakewright.statements.procedure import ArgumentValue, Procedure, ProcedureArguments, fit
from lakewright.statements.sql_session import Session
from lakewright.statements.sql_text import Args, Fragment, Name
from lakewright.statements.statements import CatalogCommand

# ---- Procedures that are refused -------------------------------------------------------------------------------------

_LATER = "it is not built yet"
_VIEWS = "it is not built yet: the catalogs keep no views and functions"
_METASTORE = "it reads a Hive metastore, which needs a JVM; `lakewright migrate` makes a table of files"
_SERVER = "it asks a server for its rules of access: use the tools of the server"
_INDEX = "it is not built yet: such indexes are neither written nor used"

REFUSED = {
    "merge_branch": _LATER,
    "compact_chain_table": _LATER,
    "remove_unexisting_manifests": "it is not built yet: roll the table back to a snapshot whose files exist",
    "remove_orphan_blobs": _LATER,
    "repair": "it brings a Hive metastore in line with the files; `lakewright repair` mends a table",
    "repair_earliest_snapshot": "it is not needed: `lakewright repair` mends the hint, and reads do without",
    "migrate_database": _METASTORE,
    "migrate_table": _METASTORE,
    "migrate_file": _METASTORE,
    "import_files": "it is not built yet: COPY INTO and `lakewright ingest` load files",
    "rewrite_file_index": _INDEX,
    "create_global_index": _INDEX,
    "reassign_row_id": _LATER,
    "refresh_object_table": "it lists the files of an object table, which catalogs have no more",
    "alter_view_dialect": _VIEWS,
    "create_function": _VIEWS,
    "alter_function": _VIEWS,
    "drop_function": _VIEWS,
    "grant_permission": _SERVER,
    "revoke_permission": _SERVER,
    "list_permissions": _SERVER,
    "create_policy": _SERVER,
    "drop_policy": _SERVER,
    "list_policies": _SERVER,
}


# ---- The registry ----------------------------------------------------------------------------------------------------

PROCEDURES: dict[str, Procedure] = {
    one.name: one
    for one in sorted(
        (
            *history_procedures.PROCEDURES,
            *maintenance_procedures.UPKEEP_PROCEDURES,
            *maintenance_procedures.REPAIR_PROCEDURES,
        ),
        key=lambda one: one.name,
    )
}


def procedure_rows() -> list[tuple[str, str, str, str]]:
    """Return all procedures: name, signature, columns of the result, what it does.

    >>> for row in procedure_rows():
    ...     if row[1].startswith("rollback_to_watermark"):
    ...         print(*row[1:], sep=" | ")
    rollback_to_watermark(table STRING, watermark BIGINT) | result STRING | Bring the table back to the last snapshot \
whose watermark is not above a value.
    """
    return [(one.name, one.signature, one.result_text, one.help) for one in PROCEDURES.values()]


# ---- CALL, SHOW PROCEDURES, DESCRIBE PROCEDURE -----------------------------------------------------------------------
# Invariant: the name of a procedure and the names of its arguments are checked when the text is read, before
# any statement of a script runs; values are checked before the procedure does anything.

SCHEMA = "sys"  # the database that procedures seem to be in
_SHOWN = pa.schema(
    [
        pa.field("catalog", pa.string(), nullable=False),
        pa.field("namespace", pa.list_(pa.string())),
        pa.field("schema", pa.string()),
        pa.field("procedure_name", pa.string(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class Marker:
    """`:name`, or the n-th `?` of a statement, counted from 0."""

    key: str | int

    def value(self, args: Args, place: Fragment) -> object:
        """Return the value of the parameter."""
        if isinstance(args, Mapping) and isinstance(self.key, str) and self.key in args:
            return args[self.key]
        if isinstance(args, Sequence) and isinstance(self.key, int) and self.key < len(args):
            return args[self.key]
        form = '{"' + self.key + '": ...}' if isinstance(self.key, str) else "[...], one value for each ?"
        raise place.error(f"there is no value for {place.text}: give args={form}", kind=InvalidInputError)


@dataclass(frozen=True, slots=True)
class CallArgument:
    """One argument as it is written."""

    value: object  # a constant, or a Marker
    place: Fragment
    name: str | None = None  # None: by its position


@dataclass(frozen=True, slots=True)
class CallProcedure(CatalogCommand):
    """CALL [catalog.]sys.name(arguments)."""

    procedure: Procedure
    catalog: str | None
    arguments: Mapping[str, CallArgument]  # by the names of the parameters

    def run(self, session: Session, args: Args) -> pa.Table:
        """Run the procedure, and return its rows."""
        one = self.procedure
        if self.catalog is not None and self.catalog not in session.catalogs:
            near = argument_checks.suggest_name(self.catalog, session.catalogs)
            raise self.text.error(f"there is no catalog {self.catalog!r}; {near}", kind=NotFoundError)
        values = {name: _value(one, name, given, args) for name, given in self.arguments.items()}
        values = {name: value for name, value in values.items() if value.value is not None}
        _check_complete(one, values, self.text)
        rows = one.run(ProcedureArguments(session, self.catalog, values))
        columns = zip(*rows, strict=True) if rows else [[]] * len(one.result)
        return pa.table([pa.array(c, f.type) for c, f in zip(columns, one.result, strict=True)], schema=one.result)


def make_call(name: Name, given: Sequence[CallArgument], text: Fragment) -> CallProcedure:
    """Return a call, after looking up the procedure and its parameters."""
    *catalog, procedure_name = _parts(name)
    one = _procedure(procedure_name, name)
    bound: dict[str, CallArgument] = {}
    known = {parameter.name.casefold(): parameter.name for parameter in one.parameters}
    for number, argument in enumerate(given):
        if argument.name is None:
            if number >= len(one.parameters):
                raise argument.place.error(
                    f"{one.name} takes {len(one.parameters)} arguments, not {len(given)}: {one.signature}"
                )
            key = one.parameters[number].name
        elif argument.name.casefold() not in known:
            near = argument_checks.suggest_name(argument.name, known.values())
            raise argument.place.error(f"{one.name} has no argument {argument.name!r}; {near} {one.signature}")
        else:
            key = known[argument.name.casefold()]
        if key in bound:
            raise argument.place.error(f"the argument {key!r} is given twice: {one.signature}")
        bound[key] = argument
    _check_complete(one, bound, text)
    return CallProcedure(one, catalog[0] if catalog else None, bound, text=text)


def _parts(name: Name) -> tuple[str, ...]:
    """Return the catalog, if one is named, and the procedure."""
    match name.parts:
        case (schema, one) if schema.lower() == SCHEMA:
            return (one,)
        case (catalog, schema, one) if schema.lower() == SCHEMA:
            return (catalog, one)
    raise name.place.error(f"procedures are called as {SCHEMA}.name or catalog.{SCHEMA}.name, not {name}")


def _procedure(given: str, name: Name) -> Procedure:
    found = PROCEDURES.get(given.lower())
    if found is not None:
        return found
    if given.lower() in REFUSED:
        message = f"the procedure {given.lower()!r} cannot be called: {REFUSED[given.lower()]}"
        raise name.place.error(message, kind=UnsupportedError, procedure=given.lower())
    near = argument_checks.suggest_name(given, list(PROCEDURES))
    there = f"{near} There" if near.startswith("did") else "there"
    message = f"there is no procedure {given!r}; {there} are {', '.join(PROCEDURES)}"
    raise name.place.error(message, kind=NotFoundError, procedure=given)


def _check_complete(one: Procedure, bound: Mapping[str, object], text: Fragment) -> None:
    missing = [p.name for p in one.parameters if p.is_required and p.name not in bound]
    if missing:
        raise text.error(f"{one.name} needs {' and '.join(missing)}: {one.signature}", kind=SQLSyntaxError)


def _value(one: Procedure, name: str, given: CallArgument, args: Args) -> ArgumentValue:
    parameter = next(p for p in one.parameters if p.name == name)
    value = given.value.value(args, given.place) if isinstance(given.value, Marker) else given.value
    try:
        return ArgumentValue(None if value is None else fit(parameter, value), given.place)
    except InvalidInputError as error:
        raise given.place.error(f"{error.message}: {one.signature}", kind=InvalidInputError) from None


@dataclass(frozen=True, slots=True)
class ShowProcedures(CatalogCommand):
    """SHOW PROCEDURES [IN [catalog.]sys]."""

    namespace: Name | None = None

    def run(self, session: Session, args: Args) -> pa.Table:  # noqa: ARG002 - it has no parameters
        """Return the procedures that run."""
        match None if self.namespace is None else self.namespace.parts:
            case None | (_,):
                catalog = session.catalog_name
            case (catalog, _):
                pass
            case _:
                catalog = ""
        if catalog not in session.catalogs or (self.namespace and self.namespace.parts[-1].lower() != SCHEMA):
            place = self.text if self.namespace is None else self.namespace.place
            raise place.error(f"there are no procedures in {self.namespace}, but in {SCHEMA}", kind=NotFoundError)
        rows = [(catalog, [SCHEMA], SCHEMA, name) for name in PROCEDURES]
        return pa.Table.from_pylist([dict(zip(_SHOWN.names, row, strict=True)) for row in rows], _SHOWN)


@dataclass(frozen=True, slots=True)
class DescribeProcedure(CatalogCommand):
    """DESCRIBE PROCEDURE [catalog.]sys.name."""

    procedure: Procedure

    def run(self, session: Session, args: Args) -> pa.Table:  # noqa: ARG002 - it has no parameters
        """Return what the procedure does, its parameters and the columns of its rows, one line each."""
        one = self.procedure
        lines = [
            f"Procedure:   {session.catalog_name}.{SCHEMA}.{one.name}",
            f"Description: {one.help}",
            "Parameters:",
            *(f"  {parameter}" for parameter in one.parameters),
            f"Returns:     {one.result_text}",
        ]
        return pa.table({"procedure_description": pa.array(lines, pa.string())})


def make_description(name: Name, text: Fragment) -> DescribeProcedure:
    """Return a description, after looking up the procedure."""
    return DescribeProcedure(_procedure(_parts(name)[-1], name), text=text)
