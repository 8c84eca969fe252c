"""Names of tables: database, table, branch, system table.

Parts may stand in back-quotes, and must where a name contains a dot.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lakewright.errors import InvalidInputError
from lakewright.spec import argument_checks

MAIN_BRANCH = "main"
_BRANCH_PREFIX = "branch_"
_PART = r"(`(?:[^`]|``)*`|[^.`]+)"
_put = object.__setattr__  # an argument below hides `object`
_FULL_NAME = re.compile(rf"\s*{_PART}\s*\.\s*{_PART}\s*")


@dataclass(frozen=True, slots=True, init=False)
class Identifier:
    """The name of a table, of a branch of it, or of one of its system tables.

    >>> Identifier.from_string("sales.orders$branch_dev$files")
    Identifier(database='sales', table='orders', branch='dev', system_table='files')
    """

    database: str
    table: str
    branch: str | None
    system_table: str | None

    def __init__(
        self,
        database: str,
        object: str | None = None,  # noqa: A002 - pypaimon's name
        branch: str | None = None,
        system_table: str | None = None,
    ) -> None:
        for argument, given in (("branch", branch), ("system_table", system_table)):
            argument_checks.check_optional(argument_checks.check_text, argument, given)
        if not isinstance(database, str) or not isinstance(object, str | None):
            raise argument_checks.argument_error(
                "an identifier", "a database and a table as texts", database if isinstance(object, str) else object
            )
        full_name = f"{database}.{object}"
        table, own_branch, own_system = _object_parts(object or "", full_name)
        if (branch and own_branch) or (system_table and own_system):
            raise InvalidInputError(
                f"{full_name!r} names a branch or system table already: give it once", name=full_name
            )
        if not database.strip() or not table.strip():
            raise InvalidInputError(f"a table is named database.table, not {full_name!r}", name=full_name)
        _put(self, "database", database)
        _put(self, "table", table)
        _put(self, "branch", branch or own_branch)
        _put(self, "system_table", system_table or own_system)

    @classmethod
    def create(
        cls, database: str, table: str, branch: str | None = None, system_table: str | None = None
    ) -> Identifier:
        """Name a table by its parts."""
        return cls(database, table, branch, system_table)

    @classmethod
    def from_string(cls, full_name: object) -> Identifier:
        """Read a name such as `db.table`, `db.table$snapshots` or `db.table$branch_b$files`."""
        match = _FULL_NAME.fullmatch(full_name) if isinstance(full_name, str) else None
        if match is None:
            raise InvalidInputError(
                f"a table is named database.table, not {argument_checks.describe_value(full_name)}; "
                "a name with a dot needs "
                "back-quotes",
                name=full_name,
            )
        return cls(_unquote_part(match[1]), _unquote_part(match[2]))

    def get_database_name(self) -> str:
        """Return the name of the database."""
        return self.database

    def get_table_name(self) -> str:
        """Return the name of the table itself."""
        return self.table

    def get_object_name(self) -> str:
        """Return the table with its branch and system table."""
        branch = "" if self.branch is None else f"${_BRANCH_PREFIX}{self.branch}"
        system = "" if self.system_table is None else f"${self.system_table}"
        return f"{self.table}{branch}{system}"

    def get_full_name(self) -> str:
        """Return the whole name; `from_string` reads it back."""
        return f"{_quote_if_needed(self.database)}.{_quote_if_needed(self.get_object_name())}"

    def get_branch_name(self) -> str | None:
        """Return the branch, None if the name has none."""
        return self.branch

    def get_branch_name_or_default(self) -> str:
        """Return the branch, `main` if the name has none."""
        return self.branch or MAIN_BRANCH

    def get_system_table_name(self) -> str | None:
        """Return the system table, None for the table itself."""
        return self.system_table

    def is_system_table(self) -> bool:
        """Return whether this is a system table."""
        return self.system_table is not None

    def __str__(self) -> str:
        return self.get_full_name()


def _object_parts(text: str, full_name: str) -> tuple[str, str | None, str | None]:
    """Split `table$branch_b$system` into its parts."""
    table, *rest = text.split("$")
    branch = rest.pop(0).removeprefix(_BRANCH_PREFIX) if rest and rest[0].startswith(_BRANCH_PREFIX) else None
    system = rest.pop(0) if rest else None
    if rest or branch == "" or system == "":
        raise InvalidInputError(
            f"{full_name!r} is not the name of a table, a branch ($branch_<name>) or a system table ($<name>)",
            name=full_name,
        )
    return table, branch, system


def quote_identifier(name: str) -> str:
    """Return a name in backticks, as Spark's SQL and filters quote it.

    >>> quote_identifier("unit`price")
    '`unit``price`'
    """
    return f"`{name.replace('`', '``')}`"


def _quote_if_needed(name: str) -> str:
    return quote_identifier(name) if "." in name or "`" in name or name != name.strip() else name


def _unquote_part(part: str) -> str:
    return part[1:-1].replace("``", "`") if part.startswith("`") else part.strip()
