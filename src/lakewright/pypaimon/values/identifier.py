"""pypaimon's names of tables: a database and an object, in which a branch and a system table are spelled out.

Invariant: equal to lakewright's identifier of the same table; the branch `main` equals none.
"""

from __future__ import annotations

from lakewright.errors import InvalidInputError
from lakewright.spec import identifier as core
from lakewright.spec.identifier import MAIN_BRANCH

SYSTEM_TABLE_SPLITTER = "$"
SYSTEM_BRANCH_PREFIX = "branch_"
DEFAULT_MAIN_BRANCH = MAIN_BRANCH
UNKNOWN_DATABASE = "unknown"
_PARTS_MAX = 3  # table$branch_b$snapshots


class Identifier(core.Identifier):
    """The name of a table, of a branch of it, or of one of its system tables.

    >>> Identifier("sales", "orders", branch="dev")
    Identifier(database='sales', object='orders$branch_dev')
    """

    def __init__(
        self,
        database: str,
        object: str | None = None,  # noqa: A002 - pypaimon's name
        branch: str | None = None,
        system_table: str | None = None,
    ) -> None:
        self.database = database  # type: ignore[misc]
        self.object = object
        self._parts: tuple[str, str | None, str | None] | None = None
        if branch is not None or system_table is not None:
            self._encode(object or "", branch, system_table)

    def _encode(self, table: str, branch: str | None, system_table: str | None) -> None:
        named = branch is not None and branch.lower() != DEFAULT_MAIN_BRANCH
        self.object = table + (f"${SYSTEM_BRANCH_PREFIX}{branch}" if named else "")
        self.object += f"${system_table}" if system_table is not None else ""
        self._parts = table, branch, system_table

    def __setattr__(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    @classmethod
    def from_string(cls, full_name: object) -> Identifier:
        """Read a name; the first dot outside back-quotes ends the database."""
        if not isinstance(full_name, str) or not full_name.strip():
            raise InvalidInputError("fullName cannot be null or empty: a table is named database.table")
        if full_name.count("`") % 2:
            raise InvalidInputError(f"Unclosed backtick in identifier: {full_name}")
        if "`" in full_name:
            if "." not in full_name:
                raise InvalidInputError(f"Invalid identifier format: {full_name}: a table is named database.table")
            parsed = core.Identifier.from_string(full_name)
            return cls(parsed.database, parsed.get_object_name())
        database, dot, name = full_name.partition(".")
        if not dot:
            raise InvalidInputError(
                f"Cannot get splits from '{full_name}' to get database and object: a table is named database.table"
            )
        return cls(database, name)

    @classmethod
    def of(cls, given: object) -> Identifier:
        """Return a name, which may be text or lakewright's identifier."""
        if isinstance(given, cls):
            return given
        return (
            cls(given.database, given.get_object_name())
            if isinstance(given, core.Identifier)
            else cls.from_string(given)
        )

    def _split(self) -> tuple[str, str | None, str | None]:
        if self._parts is None:
            parts = self.get_object_name().split("$")
            if len(parts) > _PARTS_MAX:
                raise InvalidInputError(
                    f"Invalid object name: {self.object}: it is a table, $branch_<name> and $<name>"
                )
            if len(parts) == _PARTS_MAX and not parts[1].startswith(SYSTEM_BRANCH_PREFIX):
                raise InvalidInputError(f"System table can only contain one '$' separator, but this is: {self.object}")
            parsed = core.Identifier(self.database, self.object)
            self._parts = parsed.table, parsed.branch, parsed.system_table
        return self._parts

    @property
    def table(self) -> str:
        """The table itself."""
        return self._split()[0]

    @property
    def branch(self) -> str | None:
        """The branch; it can be set."""
        return self._split()[1]

    @branch.setter
    def branch(self, value: str | None) -> None:
        table, _, system_table = self._split()
        self._encode(table, value, system_table)

    @property
    def system_table(self) -> str | None:
        """The system table, None for the table itself."""
        return self._split()[2]

    def get_object_name(self) -> str:
        """Return the table with its branch and system table."""
        return self.object or ""

    def get_full_name(self) -> str:
        """Return the whole name; the database `unknown` is left out."""
        return self.get_object_name() if self.database == UNKNOWN_DATABASE else f"{self.database}.{self.object}"

    def to_dict(self) -> dict[str, str | None]:
        """Return the name as JSON."""
        return {"database": self.database, "object": self.object}

    @classmethod
    def from_dict(cls, data: dict[str, str]) -> Identifier:
        """Read a name from JSON."""
        return cls(data["database"], data["object"])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, core.Identifier):
            return NotImplemented
        return (self.database, self.get_object_name()) == (other.database, other.get_object_name())

    def __hash__(self) -> int:
        table, branch, system_table = self._split()
        return hash((self.database, table, None if (branch or "").lower() == MAIN_BRANCH else branch, system_table))

    def __repr__(self) -> str:
        return f"Identifier(database={self.database!r}, object={self.object!r})"

    __str__ = __repr__

    def __reduce__(self) -> tuple[object, ...]:
        return Identifier, (self.database, self.object)
