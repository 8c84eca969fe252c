"""Partitions: `PARTITION (day = '2026-01-31')` in, those of the table that fit out; shown, dropped, truncated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakewright.catalog.listing import entries_by_partition
from lakewright.errors import InvalidInputError, NotFoundError
from lakewright.spec.arguments import did_you_mean
from lakewright.spec.types import Value
from lakewright.spec.values import cast_text, to_python
from lakewright.statements.definitions.alter import changeable
from lakewright.statements.definitions.placing import NOTHING, folded, placing, shown
from lakewright.statements.literals import literal_text
from lakewright.statements.model import Command
from lakewright.statements.session import Session
from lakewright.statements.text import Args, Fragment, Name
from lakewright.storage.layout import partition_text
from lakewright.table.table import FileStoreTable


@dataclass(frozen=True, slots=True)
class PartitionSpec:
    """PARTITION (column = value, ...); a column may stand there without a value."""

    values: Mapping[str, Fragment | None]
    place: Fragment

    def of(self, table: FileStoreTable, args: Args) -> dict[str, Value]:
        """Return the values by the names of the partition columns; columns without a value are left out."""
        keys = table.partition_keys
        if not keys:
            raise self.place.error(f"the table {table.name} has no partitions", kind=InvalidInputError)
        found: dict[str, Value] = {}
        for written, value in self.values.items():
            name = folded(written, keys)
            if name not in keys:
                message = f"{written!r} is no partition column of {table.name}; {did_you_mean(written, keys)}"
                raise self.place.error(message, kind=InvalidInputError, column=written)
            if value is not None:
                found[name] = self._value(table, name, value, args)
        return found

    def _value(self, table: FileStoreTable, name: str, value: Fragment, args: Args) -> Value:
        text = literal_text(value, args, what=f"the value of {name}")
        with placing(value):
            return None if text is None else cast_text(text, table.schema.field(name).type)


@dataclass(frozen=True, slots=True)
class ShowPartitions(Command):
    """SHOW PARTITIONS name [PARTITION (...)]."""

    name: Name
    partition: PartitionSpec | None = None

    def run(self, session: Session, args: Args) -> pa.Table:
        """Show the names of the partitions, in order."""
        table = session.changeable(self.name)
        if not table.partition_keys:
            raise self.name.place.error(f"the table {table.name} has no partitions", kind=InvalidInputError)
        wanted = {} if self.partition is None else self.partition.of(table, args)
        return shown({"partition": False}, [(name,) for name in partition_names(table, wanted)])


@dataclass(frozen=True, slots=True)
class DropPartitions(Command):
    """ALTER TABLE name DROP [IF EXISTS] PARTITION (...), ...; a spec may leave columns out."""

    name: Name
    partitions: tuple[PartitionSpec, ...]
    if_exists: bool = False

    def run(self, session: Session, args: Args) -> pa.Table:
        """Remove all rows of the partitions in one snapshot."""
        catalog, identifier, table = changeable(session, self.name)
        specs: list[dict[str, object]] = []
        for partition in self.partitions:
            spec = partition.of(table, args)
            if not spec:
                raise partition.place.error("name the value of at least one partition column", kind=InvalidInputError)
            if partition_names(table, spec):
                specs.append({name: to_python(v, table.schema.field(name).type) for name, v in spec.items()})
            elif not self.if_exists:
                known = partition_names(table, {})
                message = f"{table.name} has no such partition; there are {', '.join(known[:10]) or 'none'}"
                raise partition.place.error(f"{message}; or write DROP IF EXISTS", kind=NotFoundError)
        with placing(self.name.place):
            if specs:
                catalog.drop_partitions(identifier, specs)
        return NOTHING


@dataclass(frozen=True, slots=True)
class Truncate(Command):
    """TRUNCATE TABLE name [PARTITION (...)]."""

    name: Name
    partition: PartitionSpec | None = None

    def run(self, session: Session, args: Args) -> pa.Table:
        """Remove all rows of the table, or of the partitions that fit, in one snapshot."""
        _, _, table = changeable(session, self.name)
        spec = None if self.partition is None else self.partition.of(table, args)
        with placing(self.name.place), table.new_batch_write_builder().new_commit() as commit:
            if spec:
                commit.truncate_partitions({n: to_python(v, table.schema.field(n).type) for n, v in spec.items()})
            else:
                commit.truncate_table()
        return NOTHING


def partition_names(table: FileStoreTable, wanted: Mapping[str, Value]) -> list[str]:
    """Return the names of the partitions with these values, such as `day=2026-01-31/hour=7`, in order."""
    fields = table.schema.partition_fields
    found = [table.store.partition_values(row) for row in entries_by_partition(table.store)]
    return sorted(
        partition_text(values, fields, default_name="null", legacy=False)
        for values in found
        if _fits(values, [one.name for one in fields], wanted)
    )


def _fits(values: Sequence[Value], names: Sequence[str], wanted: Mapping[str, Value]) -> bool:
    return all(value == wanted[name] for name, value in zip(names, values, strict=True) if name in wanted)
