"""Schema changes that depend on rows; columns that data adds."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.errors import InvalidInputError, LakewrightWarning, pluralize, with_table_name
from lakewright.lsm.merge_rows import check_merging_kept
from lakewright.maintenance.external_directories import check_external_paths, claim, identity_at, places_files
from lakewright.metadata.schema_files import PlanChanges
from lakewright.metadata.table_store import TableStore, apply_layout_options
from lakewright.read.data_file_reader import BucketReader
from lakewright.read.file_evolution import cast_array
from lakewright.read.manifest_scan import FileSchemas, entry_pruner
from lakewright.read.read_builder import ReadBuilder
from lakewright.spec.manifest import is_side_file
from lakewright.spec.option_checks import warn_unknown_options
from lakewright.spec.predicate import TRUE, Predicate, PredicateBuilder
from lakewright.spec.scalars import from_scalar, to_text
from lakewright.spec.schema import SchemaChange
from lakewright.spec.schema_checks import check_column_types
from lakewright.spec.schema_evolution import apply_changes, exact_below, keeps_all_values, without_lossy
from lakewright.spec.snapshot import Snapshot
from lakewright.spec.table_options import TableOptions
from lakewright.spec.table_schema import POSTPONE, TableSchema
from lakewright.spec.types import (
    FLOAT_ROOTS,
    INTEGER_BITS,
    TEXT_ROOTS,
    TIMESTAMP_ROOTS,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    RowType,
)
from lakewright.storage.table_layout import MAIN_BRANCH

# ---- Whether stored rows fit a new schema ----------------------------------------------------------------------------
# A value fits a type if casting it there and back gives the same value; text fits a number if both say the same
# number, and a shorter CHAR or VARCHAR if nothing of it is cut off. What statistics prove is not read: numbers are
# looked for beyond the limits of the new type, and nulls where there are some. Only the rows of one snapshot are
# looked at, as they are after merging: older snapshots and tags are read with schemas of their own. Values that no
# read shows any more count where they would make a file unreadable, or change what others are merged to.

_NUMERIC = FLOAT_ROOTS | {*INTEGER_BITS, "DECIMAL"}
_TEXT = AtomicType("STRING")
_FINEST = {"TIMESTAMP": AtomicType("TIMESTAMP(9)"), "TIMESTAMP_LTZ": AtomicType("TIMESTAMP_LTZ(9)")}
_UNREADABLE_MAX = 1000  # values without a cast are found one by one; so many are enough to refuse a change


@dataclass(frozen=True, slots=True)
class CastFailure:
    """Values of one column that a new type does not hold."""

    column: str
    old: DataType
    new: DataType
    count: int
    example: str  # a value and what would become of it
    at_least: bool = False  # there may be more than were counted
    unreadable: bool = False  # the values have no cast, so that the file they are in could not be read


def check_values_fit(store: TableStore, snapshot: Snapshot, new_schema: TableSchema) -> None:
    """Raise InvalidInputError if a row of a snapshot, read with the store's schema, holds values that would not fit."""
    now = {field.id: field for field in new_schema.fields}
    for field in store.schema.fields:
        new = now.get(field.id)
        if new is None or _fits(field.type, new.type):
            continue
        misfit = _total(_visible(store, snapshot, field, new.type))
        if misfit is not None:
            raise _refusal(misfit, "Change these rows first")
        hidden = _total(_hidden(store, snapshot, field, new.type))
        if hidden is not None:
            raise _refusal(hidden, "No read shows them, but they are still stored: call table.compact(full=True) first")


def _refusal(misfit: CastFailure, remedy: str) -> InvalidInputError:
    number = f"{'at least ' if misfit.at_least else ''}{pluralize(misfit.count, 'value')}"
    if misfit.example == "null":
        message = (
            f"the column {misfit.column!r} cannot become {misfit.new}: {number} of it "
            f"{'is' if misfit.count == 1 else 'are'} null. Give these rows values first"
        )
    else:
        message = (
            f"the column {misfit.column!r} cannot be converted from {misfit.old} to {misfit.new} without loss: "
            f"{number} would not stay, such as {misfit.example}. {remedy}, choose a wider type, or ask for it with "
            "SchemaChange.update_column_type(..., allow_lossy=True)"
        )
    return InvalidInputError(message, column=misfit.column, count=misfit.count, example=misfit.example)


def _fits(old: DataType, new: DataType) -> bool:
    """Return whether every value of a type, nulls among them, fits another."""
    if old.nullable and not new.nullable:
        return False
    match old, new:
        case RowType(), RowType():
            now = {field.id: field.type for field in new.fields}
            return all(_fits(field.type, now[field.id]) for field in old.fields if field.id in now)
        case ArrayType(), ArrayType():
            return _fits(old.element, new.element)
        case MapType(), MapType():
            return _fits(old.key, new.key) and _fits(old.value, new.value)
        case _:
            return keeps_all_values(old, new)


def _candidates(field: DataField, new: DataType) -> Predicate:
    """Return what rows fulfil that may hold a value that does not fit, for statistics to rule out."""
    old = field.type
    builder = PredicateBuilder([field])
    nulls = [builder.is_null(field.name)] if old.nullable and not new.nullable else []
    if keeps_all_values(old, new):
        return nulls[0] if nulls else TRUE
    below = exact_below(old, new) if isinstance(old, AtomicType) and isinstance(new, AtomicType) else None
    if below is None or old.root == "BOOLEAN":  # type: ignore[union-attr]  # a limit is one of atomic types
        return TRUE
    edges = [builder.greater_or_equal(field.name, below), builder.less_or_equal(field.name, -below)]
    return builder.or_predicates([*edges, *nulls])


def _visible(store: TableStore, snapshot: Snapshot, field: DataField, new: DataType) -> Iterator[CastFailure]:
    """Yield what does not fit in the rows of a snapshot as they are after merging."""
    pinned = {
        TableOptions.scan_snapshot_id.key(): str(snapshot.id),
        # Fresh rows that batch reads do not see yet will be seen after a compaction.
        TableOptions.lakewright_read_level_0.key(): "true",
    }
    others = {key: text for key, text in store.schema.options.items() if not key.startswith(("scan.", "incremental"))}
    builder = ReadBuilder(store.with_schema(replace(store.schema, options={**others, **pinned})))
    builder = builder.with_filter(_candidates(field, new)).with_projection([field.name])
    with builder.new_read().to_arrow_batch_reader() as batches:
        for batch in batches:
            yield from _misfits(batch.column(0), field.type, new, field.name)


def _total(misfits: Iterable[CastFailure]) -> CastFailure | None:
    """Add up misfits; stop at one that was not counted to its end, or at one of another column."""
    total: CastFailure | None = None
    for misfit in misfits:
        total = misfit if total is None else replace(total, count=total.count + misfit.count)
        if misfit.at_least or total.column != misfit.column:
            return replace(total, at_least=True)
    return total


def _hidden(store: TableStore, snapshot: Snapshot, field: DataField, new: DataType) -> Iterator[CastFailure]:
    """Yield what does not fit in stored rows that no read shows, and yet matters: files are cast before rows merge.

    A value without a cast makes its file unreadable; of an aggregation every value counts; rows that wait for their
    bucket are shown later.
    """
    adds_up = bool(store.schema.primary_keys) and store.options.merge_engine.traits.combines_values
    candidates = _candidates(field, new)
    pruner, schemas = entry_pruner(store, candidates), FileSchemas(store)
    for entry in store.manifests.live(snapshot) if _hides_rows(store, snapshot) else ():
        file = entry.file
        counts = adds_up or entry.bucket == POSTPONE
        asked = (counts or _may_fail(field.type, new)) and not is_side_file(file)
        if not asked or not pruner.stats_may_match(entry, schemas.fields_of(file.schema_id)):
            continue
        for _, batch in BucketReader(store, schemas, entry.partition, entry.bucket).rows(file, (field,), candidates):
            misfits = _misfits(batch.column(0), field.type, new, field.name)
            yield from (one for one in misfits if one.unreadable or (counts and one.example != "null"))


def _hides_rows(store: TableStore, snapshot: Snapshot) -> bool:
    return bool(store.schema.primary_keys) or snapshot.index_manifest is not None


def _may_fail(old: DataType, new: DataType) -> bool:
    """Return whether some value of a type may have no cast to another."""
    if not isinstance(old, AtomicType) or not isinstance(new, AtomicType):
        return True
    if old.root in TEXT_ROOTS:
        return new.root not in TEXT_ROOTS
    return new.root in TIMESTAMP_ROOTS or (old.root in FLOAT_ROOTS and new.root == "DECIMAL")


def _misfits(array: pa.Array, old: DataType, new: DataType, name: str) -> Iterator[CastFailure]:
    """Yield what does not fit in an array, of the column itself or of parts inside it."""
    if old.nullable and not new.nullable and array.null_count:
        yield CastFailure(name, old, new, array.null_count, "null")
    if _fits(old, new):
        return
    array = array.drop_null()
    match old, new:
        case RowType(), RowType():
            now = {field.id: field.type for field in new.fields}
            for place, field in [(i, f) for i, f in enumerate(old.fields) if f.id in now]:
                yield from _misfits(array.field(place), field.type, now[field.id], f"{name}.{field.name}")
        case ArrayType(), ArrayType():
            yield from _misfits(array.flatten(), old.element, new.element, f"{name}.element")
        case MapType(), MapType():
            yield from _misfits(_parts(array, array.items), old.value, new.value, f"{name}.value")
        case AtomicType(), AtomicType():
            yield from _changed_values(array, old, new, name)
        case _:
            return


def _parts(array: pa.Array, parts: pa.Array) -> pa.Array:
    """Return the part of a map's keys or values that its rows use."""
    if not len(array):
        return parts.slice(0, 0)
    first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
    return parts.slice(first, last - first)


def _changed_values(array: pa.Array, old: AtomicType, new: AtomicType, name: str) -> Iterator[CastFailure]:
    try:
        changed = _find_changed_values(array, old, new)
    except (InvalidInputError, pa.ArrowException):
        unreadable = _unreadable(array, old, new)
        if unreadable:
            shown = f"{_format_scalar(unreadable[0], old)}, which is none of its values"
            count = pc.sum(pc.is_in(array, pa.array(unreadable, array.type))).as_py()
            yield CastFailure(name, old, new, count, shown, at_least=True, unreadable=True)
        return
    count = pc.sum(changed).as_py() or 0
    if count:
        value = array.filter(changed).slice(0, 1)
        read = cast_array(value, old, new)[0]
        yield CastFailure(
            name, old, new, count, f"{_format_scalar(value[0], old)}, which would read as {_format_scalar(read, new)}"
        )


def _find_changed_values(array: pa.Array, old: AtomicType, new: AtomicType) -> pa.Array:
    """Return which values are others after a cast; what cannot be cast at all raises."""
    cast = cast_array(array, old, new)
    if new.root in TEXT_ROOTS and not keeps_all_values(old, new):
        text = cast if old.root not in TEXT_ROOTS else array
        cut = pc.greater(pc.utf8_length(text), new.length)
        return cut if old.root in TEXT_ROOTS else pc.or_(cut, _differ(array, cast_array(text, _TEXT, old)))
    if old.root in TEXT_ROOTS and new.root in _NUMERIC:
        return _other_numbers(array, old, new)
    if old.root in TEXT_ROOTS and new.root in TIMESTAMP_ROOTS:
        finest = _FINEST[new.root]
        return _differ(cast_array(array, old, finest), cast_array(cast, new, finest))
    if old.root in TEXT_ROOTS:
        return pc.is_null(cast)
    return _differ(array, cast_array(cast, new, old))


def _differ(before: pa.Array, after: pa.Array) -> pa.Array:
    """Say which values differ, a null from a value; NaN equals NaN."""
    same = pc.equal(before, after)
    if pa.types.is_floating(before.type):
        same = pc.or_kleene(same, pc.and_(pc.is_nan(before), pc.is_nan(after)))
    return pc.invert(pc.fill_null(same, False))  # noqa: FBT003 - the value for nulls


def _other_numbers(array: pa.Array, old: AtomicType, new: AtomicType) -> pa.Array:
    """Say which texts name another number than the one they are cast to."""
    encoded = array.dictionary_encode()
    numbers = cast_array(encoded.dictionary, old, new)

    def other(text: str, number: pa.Scalar) -> bool:
        if not number.is_valid:
            return True
        named, read = Decimal(text.strip()), Decimal(to_text(from_scalar(number, new), new))
        return named != read and not (named.is_nan() and read.is_nan())

    flags = [other(text, number) for text, number in zip(encoded.dictionary.to_pylist(), numbers, strict=True)]
    return pa.array(flags, pa.bool_()).take(encoded.indices)


def _unreadable(array: pa.Array, old: AtomicType, new: AtomicType) -> list[pa.Scalar]:
    """Return distinct values that have no cast, some of them where they are many."""
    values: list[pa.Scalar] = []
    left = [array.unique()]
    while left and len(values) < _UNREADABLE_MAX:
        part = left.pop()
        try:
            cast_array(part, old, new)
        except (InvalidInputError, pa.ArrowException):
            middle = len(part) // 2
            left += [part.slice(middle), part.slice(0, middle)] if middle else []
            values += [] if middle else [part[0]]
    return values


def _format_scalar(value: pa.Scalar, dtype: AtomicType) -> str:
    if not value.is_valid:
        return "null"
    # The nearest FLOAT prints as the DOUBLE did; as a DOUBLE it shows its own digits.
    text = to_text(from_scalar(value, dtype), AtomicType("DOUBLE") if dtype.root == "FLOAT" else dtype)
    return repr(text) if dtype.root in TEXT_ROOTS else text


# ---- Schema changes --------------------------------------------------------------------------------------------------
# The rows of the newest snapshot are checked before the new schema file is created, once more if a write came in
# between, and again afterwards: a schema and a snapshot are two files, and the format has no step that creates both.
# If a write came in between after all, a warning says so; its values are in its files, and can be read again once the
# type is changed back.

_ROUNDS_MAX = 3


def alter(store: TableStore, changes: Sequence[SchemaChange] | PlanChanges, *, time_millis: int) -> TableSchema:
    """Apply changes to the newest schema and return it; refuse those that would change stored values.

    Changes may be a function of the newest schema, as for `Schemas.evolve`.
    """
    has_snapshot = store.snapshots.latest_id() is not None
    checked: list[tuple[int | None, TableStore, TableSchema]] = []

    def check(old: TableSchema, new: TableSchema) -> None:
        check_merging_kept(old, new)
        check_column_types(new, old)
        _check_external(store, old, new)
        warn_unknown_options(f"table {store.name}", store.layout.root, new.options.keys() - old.options.keys())
        asked = without_lossy(changes(old) if callable(changes) else changes)
        new_schema = apply_changes(old, asked, has_snapshot=has_snapshot, time_millis=time_millis)
        old_store = store.with_schema(old)
        checked[:] = [(_checked_rows(old_store, new_schema), old_store, new_schema)]

    evolved = store.schemas.evolve(changes, has_snapshot=has_snapshot, time_millis=time_millis, check=check)
    for snapshot_id, old_store, new_schema in checked:
        if old_store.snapshots.latest_id() != snapshot_id:
            _warn_of_misfits(old_store, new_schema)
    return evolved


def _check_external(store: TableStore, old: TableSchema, new: TableSchema) -> None:
    """Check new external paths, and claim them before the schema names them."""
    main = store.layout.for_branch(MAIN_BRANCH)
    are_new = (
        apply_layout_options(main, new).external_directories != apply_layout_options(main, old).external_directories
    )
    if are_new:
        with with_table_name(store.name):
            check_external_paths(store.storage, main, new)
    if places_files(new) and (are_new or not places_files(old)):
        claim(store.storage, main, new, identity_at(store.storage, main))


def _checked_rows(store: TableStore, new_schema: TableSchema) -> int | None:
    """Check that the newest rows fit a schema; return the id of their snapshot."""
    snapshot_id: int | None = None
    for _ in range(_ROUNDS_MAX):
        newest = store.snapshots.latest()
        if newest is None or newest.id == snapshot_id:
            break
        check_values_fit(store, newest, new_schema)
        snapshot_id = newest.id
    return snapshot_id


def _warn_of_misfits(store: TableStore, new_schema: TableSchema) -> None:
    try:
        _checked_rows(store, new_schema)
    except InvalidInputError as error:
        warnings.warn(
            f"{store.name}: a write came in while the schema was changed: {error}; or change the type back",
            LakewrightWarning,
            stacklevel=4,
        )
