"""Columns that a write adds to its table: what SET says and the columns of the rows in, the columns to merge out."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lakewright.errors import UnsupportedError
from lakewright.spec.arrow import from_arrow_type, to_arrow_type
from lakewright.spec.schema.merging import new_parts
from lakewright.statements.query.tables import MERGE_SCHEMA, SETTING, Lookup, set_options
from lakewright.statements.session import Session
from lakewright.statements.text import Name
from lakewright.table.table import FileStoreTable

_WHOLE = 3  # parts of a name with a catalog
_CAST, _WIDEN = f"{MERGE_SCHEMA}.explicit-cast", f"{MERGE_SCHEMA}.type-widening"


@dataclass(frozen=True, slots=True)
class SchemaMerge:
    """What a write may do to the columns of its table."""

    adds: bool
    widens: bool

    @classmethod
    def of(cls, session: Session, lookup: Lookup, name: Name, *, always: bool = False) -> SchemaMerge:
        """Return what SET says about a table; `always`: the statement itself says that columns are added."""
        settings = {key.removeprefix(SETTING): value for key, value in lookup.table_settings().items()}
        _, identifier = session.resolve(name)
        catalog = session.catalog_name if len(name.parts) < _WHOLE else name.parts[0]
        own = set_options(settings, (catalog, identifier.get_database_name(), identifier.get_object_name()))
        asked = {key for key, value in own.items() if value.strip().lower() == "true"}
        if _CAST in asked:
            message = f"{_CAST} is not supported: types of columns are never narrowed; cast the values in the query"
            raise name.place.error(message, kind=UnsupportedError, option=_CAST)
        adds = always or MERGE_SCHEMA in asked
        return cls(adds, adds and _WIDEN in asked)

    def columns(self, table: FileStoreTable, given: pa.Schema) -> pa.Schema:
        """Return the columns of rows to add or to widen, with the names of the table in whichever case they are.

        Of a column that the table has, these are the fields inside it that the table lacks, or with `widens` all.
        """
        known = {field.name.casefold(): field for field in table.schema.fields}
        fields: list[tuple[str, pa.DataType]] = []
        for one in given if self.adds else ():
            own = known.get(one.name.casefold())
            if own is None:
                fields.append((one.name, one.type))
            elif self.widens:
                fields.append((own.name, one.type))
            elif pa.types.is_nested(one.type) and (part := new_parts(from_arrow_type(one.type), own.type)) is not None:
                fields.append((own.name, to_arrow_type(part)))
        return pa.schema(fields)
