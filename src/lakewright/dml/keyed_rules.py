"""What a merge engine allows a change to do.

A row is deleted by writing a row of kind -D with its key, and updated by writing a whole row of kind +U; the table's
merge function does the rest. A change that the merge function would undo is refused before anything is read, so every
row that is written takes effect. If the changelog producer is `input`, the old rows are written too.

Rows are read as a merge of all files, level 0 included even where batch reads leave it out, so that a change applies to
the newest version of a row. Rows that wait for a bucket (postpone bucket mode) get one first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.lsm.aggregation import Aggregation
from lakewright.lsm.column_functions import LAST, REPEATABLE, ColumnFunction
from lakewright.lsm.key_order import KeyOrder, sorted_rows
from lakewright.lsm.merge_rows import MergeRules
from lakewright.lsm.normalized_keys import Flags
from lakewright.lsm.partial_update import PartialUpdate
from lakewright.metadata.table_store import TableStore
from lakewright.spec.option_values import ChangelogProducer
from lakewright.spec.table_options import TableOptions
from lakewright.spec.types import DataField

_REPLACE = "write the rows again with mode='overwrite'"


@dataclass(frozen=True, slots=True)
class KeyedChangeRules:
    """Which changes the merge engine of a primary-key table allows, and which columns of a row they need.

    An update replaces values, so an engine that folds rows refuses it. An upsert (`upserts`) adds rows as a write does:
    the engine folds them in, and of two versions the one with the newer `sequence.field` wins.
    """

    store: TableStore
    spec: MergeRules
    upserts: bool = False

    @classmethod
    def of(cls, store: TableStore, *, upserts: bool = False) -> KeyedChangeRules:
        """Read the rules from the schema of a table."""
        return cls(store, MergeRules.of_schema(store.schema, table=store.name), upserts)

    @property
    def _keys(self) -> frozenset[str]:
        return frozenset((*self.store.schema.primary_keys, *self.store.schema.partition_keys))

    @property
    def _sequence(self) -> frozenset[str]:
        return frozenset(field.name for field in self.spec.sequence_fields)

    @property
    def _partial(self) -> PartialUpdate | None:
        return self.spec.function if isinstance(self.spec.function, PartialUpdate) else None

    @property
    def _removing(self) -> frozenset[str]:
        """The sequence fields of groups whose deletes remove the record."""
        groups = () if self._partial is None else self._partial.groups
        return frozenset(name for group in groups if group.removes for name in group.names)

    @property
    def writes_old_rows(self) -> bool:
        """Whether old rows are written too, because the rows that are written are the changelog."""
        producer = self.store.options.changelog_producer
        return producer is ChangelogProducer.INPUT and self.spec.engine.traits.keeps_last_row

    @property
    def writes_whole_rows(self) -> bool:
        """Whether an update writes all columns: not where functions or groups would fold unchanged values in again."""
        return self._partial is None or not (self._partial.groups or self._partial.functions)

    @property
    def kind_field(self) -> str | None:
        """The column of the table that holds row kinds; None: they are passed beside the columns."""
        return self.store.options.rowkind_field

    def columns_to_delete(self) -> tuple[str, ...]:
        """Return the columns that a row of kind -D needs: without its sequence fields the old row would win."""
        if self.writes_old_rows:
            return self.store.schema.field_names
        return self._in_order(self._keys | self._sequence | self._removing)

    @property
    def folds(self) -> bool:
        """Whether the engine computes a row from all rows of a key, so that none of them may be left out."""
        return self.spec.function is not None

    @property
    def _functions(self) -> Mapping[str, ColumnFunction]:
        function = self.spec.function
        return function.functions if isinstance(function, PartialUpdate | Aggregation) else {}

    def columns_to_keep(self, given: Collection[str]) -> frozenset[str]:
        """Return the columns, other than the given ones, that an upsert must write again so that they stay."""
        schema = self.store.schema
        known = {*given, *schema.primary_keys, self.kind_field}
        missing = [field for field in schema.fields if field.name not in known]
        if self.spec.engine.traits.keeps_first_row:
            return frozenset()
        if not self.folds:
            return frozenset(field.name for field in missing)
        kept = self._sequence | {*schema.partition_keys}
        return frozenset(f.name for f in missing if f.name in kept or not f.type.nullable or self._takes_null(f, given))

    def _takes_null(self, field: DataField, given: Collection[str]) -> bool:
        """Return whether an engine that folds rows would set a column to null, for a row of the given columns."""
        function = self._functions.get(field.name)
        if function is not None and function.name != LAST:
            return False
        if self._partial is None:
            return function is not None
        return any(
            field.name in group.columns and not {*given}.isdisjoint(group.names) for group in self._partial.groups
        )

    def needs_lookup(self, given: Collection[str]) -> bool:
        """Return whether an upsert of some columns must look up existing rows, to keep their other columns.

        An engine that folds rows keeps columns that a row lacks; but defaults must only be set in rows that are new.
        """
        if self.columns_to_keep(given):
            return True
        missing = (field for field in self.store.schema.fields if field.name not in given)
        return self.folds and any(field.default_value is not None for field in missing)

    def columns_to_read(self, assigned: Collection[str]) -> tuple[str, ...]:
        """Return the columns of a row that must be read to set some of them: not those that are set, if it can be."""
        written = self.columns_to_update(assigned)
        if self.writes_old_rows or self._partial is not None:
            return written  # the old row is written too, or is compared with the new values
        return self._in_order(({*written} - {*assigned}) | self._keys | self._sequence)

    def columns_to_update(self, assigned: Collection[str]) -> tuple[str, ...]:
        """Return the columns of the row that is written to set some of them; the others are null in it."""
        if self.upserts:
            return self._in_order(self._keys | self._sequence | self.columns_to_keep(assigned) | {*assigned})
        if self.writes_whole_rows:
            return self.store.schema.field_names
        required = {field.name for field in self.store.schema.fields if not field.type.nullable}
        return self._in_order(self._keys | self._sequence | required | {*assigned})

    def _in_order(self, names: Collection[str]) -> tuple[str, ...]:
        return tuple(name for name in self.store.schema.field_names if name in names)

    def check_delete(self) -> None:
        """Raise UnsupportedError if the table ignores or cannot express deletes."""
        options, needed = self.store.options, self.spec.engine.traits.delete_option
        if options.ignore_delete:
            raise self._refuse_change("delete", "ignore-delete", f"reset 'ignore-delete', or {_REPLACE}")
        if not options.deletes_remove_rows and not self._removing:
            remedy = _REPLACE if needed is None else f"set {needed!r} = 'true', or {_REPLACE}"
            raise self._refuse_change("delete", "merge-engine", remedy)

    def check_update(self, assigned: Collection[str]) -> None:
        """Refuse to assign columns that identify the row, or that the merge engine computes."""
        if self.upserts:
            self._check_upsert(assigned)
            return
        identifying = {*self._keys, self.kind_field}
        fixed = tuple(name for name in self.store.schema.field_names if name in identifying and name in assigned)
        if fixed:
            raise InvalidInputError(
                f"{self.store.name}: {', '.join(map(repr, fixed))} cannot be assigned: key and partition columns, and "
                "the one that 'rowkind.field' names, tell which row it is; delete the row and write the new one",
                table=self.store.name,
                columns=fixed,
            )
        if not self.spec.engine.traits.accepts_updates:
            raise self._refuse_change("update", "merge-engine", _REPLACE)
        for name in assigned:
            self._check_assignable(name)

    def _check_assignable(self, name: str) -> None:
        if self._partial is None:
            return
        group = next((g for g in self._partial.groups if name in {*g.names, *g.columns}), None)
        if group is not None:
            option = f"fields.{','.join(group.names)}.sequence-group"
            advice = f"write rows with {name!r} and a newer {group.names[0]!r}, which is how its group is changed"
            raise self._refuse_change(f"update {name!r} of", option, advice)
        function = self._partial.functions.get(name)
        if function is not None and function.name != "last_non_null_value":
            raise self._refuse_change(f"update {name!r} of", function.option, "write rows that the function folds in")

    def _check_upsert(self, given: Collection[str]) -> None:
        """Refuse to upsert some columns if the engine cannot keep the others."""
        for group in () if self._partial is None else self._partial.groups:
            missing = [name for name in group.names if name not in given]
            touched = [name for name in (*group.names, *sorted(group.columns)) if name in given]
            if touched and missing:
                option = f"fields.{','.join(group.names)}.sequence-group"
                advice = f"add {missing[0]!r} to the data, which says whether {touched[0]!r} is newer"
                raise self._refuse_change(f"upsert {touched[0]!r} without {missing[0]!r} into", option, advice)
        kept = self.columns_to_keep(given)
        for field in self.store.schema.fields:
            function = self._functions.get(field.name)
            if field.name in given or function is None or function.name in REPEATABLE:
                continue
            if field.name in kept or field.default_value is not None:
                advice = f"{function.name!r} would count a value of it once more; add the column to the data"
                raise self._refuse_change(f"upsert without {field.name!r} into", function.option, advice)

    def _refuse_change(self, verb: str, option: str, advice: str) -> UnsupportedError:
        value = self.store.schema.options.get(option, "true")
        return UnsupportedError(
            f"{self.store.name}: cannot {verb} a table with {option!r} = {value!r}, which would not do it; {advice}",
            table=self.store.name,
            option=option,
        )

    def check_deleted(self, old: pa.Table) -> None:
        """Refuse rows that a delete would not remove: those with null in the sequence fields of removing groups."""
        if not self._removing or self._partial is None or self._partial.remove_on_delete:
            return
        unset = np.ones(old.num_rows, np.bool_)
        for name in self._removing:
            unset &= old.column(name).is_null().to_numpy()
        if unset.any():
            option = TableOptions.partial_update_remove_record_on_sequence_group.key()
            raise self._refuse_change(f"delete rows without {', '.join(sorted(self._removing))} from", option, _REPLACE)

    def check_updated(self, old: pa.Table, values: pa.Table) -> None:
        """Refuse new values that would not take effect: a null that the engine ignores, or an older sequence field."""
        if self._partial is not None:
            for name in values.column_names:
                lost = pc.and_(pc.is_null(values.column(name)), pc.is_valid(old.column(name)))
                if pc.any(lost).as_py():
                    advice = f"'merge-engine' = 'partial-update' keeps the value that is there; {_REPLACE}"
                    raise UnsupportedError(
                        f"{self.store.name}: the column {name!r} cannot become null: {advice}",
                        table=self.store.name,
                        column=name,
                        option="merge-engine",
                    )
        if self.is_older(old, values).any():
            moved = [name for name in values.column_names if name in self._sequence]
            raise InvalidInputError(
                f"{self.store.name}: {', '.join(map(repr, moved))} would become older than it is, and of two rows with "
                "one key the one with the newer 'sequence.field' wins; assign a value that is not older",
                table=self.store.name,
                columns=tuple(moved),
                option="sequence.field",
            )

    def check_inserted(self, rows: pa.Table) -> None:
        """Refuse several new rows with one key, unless the engine folds them: only one of them would stay."""
        if self.folds or self.upserts or rows.num_rows <= 1:
            return
        fields = [self.store.schema.field(name) for name in self.store.schema.primary_keys]
        by_key = KeyOrder(fields).sort_rows(rows)
        again = np.flatnonzero(~by_key.new)
        if len(again):
            at = int(by_key.order[again[0]])
            key = {field.name: rows.column(field.name)[at].as_py() for field in fields}
            shown = ", ".join(f"{name} = {value!r}" for name, value in key.items())
            raise InvalidInputError(
                f"{self.store.name}: several rows with the key {shown} would be inserted, of which one would stay; "
                "keep one source row for each key, or use upsert. Nothing was changed.",
                table=self.store.name,
                key=key,
            )

    def is_older(self, old: pa.Table, values: pa.Table) -> Flags:
        """Return which rows would get older sequence fields than they have, so that the old row would win."""
        moved = [name for name in values.column_names if name in self._sequence]
        if not moved or not old.num_rows:
            return np.zeros(old.num_rows, np.bool_)
        names = [field.name for field in self.spec.sequence_fields]
        before = old.select(names)
        both = pa.concat_tables([before, _with_values(before, values.select(moved))])
        by_age = sorted_rows(both, self.spec.sequence)
        ranks = np.empty(len(both), np.int64)
        ranks[by_age.order] = np.cumsum(by_age.new)
        return ranks[old.num_rows :] < ranks[: old.num_rows]


def _with_values(rows: pa.Table, values: pa.Table) -> pa.Table:
    """Return rows with some columns replaced."""
    columns = [values.column(n) if n in values.column_names else rows.column(n) for n in rows.column_names]
    return pa.Table.from_arrays(columns, schema=rows.schema)
