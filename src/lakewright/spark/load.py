"""Sources to frames: files are opened so that every wrong record is an error, and so that no column hides.

A source is opened first, which tells the names of its columns. What their types are is known once the table is: text
(csv, directory names) is parsed as the table's types, json is read with them. Files of one source may differ in which
columns they have (parquet, orc, json), not in what their types are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit
from pyspark.sql import types as sql

from lakewright.errors import InvalidInputError, LakewrightError
from lakewright.spark.fit import Fit
from lakewright.spark.inputs import Source
from lakewright.spark.parse import column, narrowed, parsed, widest
from lakewright.spark.read import read_table

# Directory names stay text: Spark's guess would turn 007 into 7.
LOAD_SETTINGS = {"spark.sql.sources.partitionColumnTypeInference.enabled": "false"}
_CSV = {
    "header": "true",
    "mode": "FAILFAST",
    "escape": '"',  # a quote inside quotes is doubled, as everybody but Spark writes it
    "enforceSchema": "false",  # the header of every file is compared
    "columnPruning": "false",  # rows are checked whole
}
_JSON = {"mode": "FAILFAST"}
_REASONS = (
    r"USER_RAISED_EXCEPTION",
    r"MALFORMED_CSV_RECORD",
    r"CANNOT_PARSE_JSON_FIELD",
    r"MALFORMED_RECORD_IN_PARSING[A-Z_.]*",
    r"PATH_NOT_FOUND",
    r"UNABLE_TO_INFER_SCHEMA",
    r"CANNOT_MERGE_SCHEMAS",
    r"CONFLICTING_DIRECTORY_STRUCTURES",
    r"FAILED_READ_FILE[A-Z_.]*",
)
_FILE = re.compile(r"Encountered error while reading file (\S+?)\.\s")
_HEADER = re.compile(r"CSV header does not conform to the schema.*?CSV file: (\S+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Opened:
    """One source as a frame whose columns are known by name."""

    source: Source
    frame: DataFrame
    text: frozenset[str]  # columns that hold text for values
    options: Mapping[str, str]  # of the reader


def open_source(spark: SparkSession, source: Source, given: Mapping[str, str]) -> Opened:
    """Open a source far enough to know its columns; `given` are options of Spark's reader."""
    options = {**source.reader_options, **given}
    match source.format:
        case "csv":
            return _open_csv(spark, source, _CSV | options)
        case "json":
            options = _JSON | options
            options.setdefault("multiLine", "true" if _is_document(spark, source) else "false")
            reader = _reader(spark, options | {"primitivesAsString": "true"})
            frame = reader.json(list(source.paths))
            return Opened(source, frame, _from_directories(source, frame), options)
        case "parquet" | "orc":
            # Files may have columns of their own: without this, Spark looks at one file and drops what it lacks.
            options = {"mergeSchema": "false" if source.files == 1 else "true"} | options
            frame = _reader(spark, options).format(source.format).load(list(source.paths))
            return Opened(source, frame, _from_directories(source, frame), options)
        case _:
            return Opened(source, _in_hand(spark, source), frozenset(), options)


def _in_hand(spark: SparkSession, source: Source) -> DataFrame:
    if source.table is not None:
        return read_table(spark, source.table)
    if source.frame is None:
        raise InvalidInputError(f"the source {source.name!r} is neither files, a table nor a frame", source=source.name)
    return source.frame


def _reader(spark: SparkSession, options: Mapping[str, str]) -> DataFrameReader:
    return spark.read.options(**options)


def _open_csv(spark: SparkSession, source: Source, options: Mapping[str, str]) -> Opened:
    reader = _reader(spark, options)
    first = reader.csv(list(source.paths))
    directories = _from_directories(source, first)
    names = [name for name in first.columns if name not in directories]
    if not names:
        raise InvalidInputError(f"the csv source {source.name!r} has no header line: it is empty", source=source.name)
    schema = sql.StructType([sql.StructField(name, sql.StringType()) for name in names])
    frame = _reader(spark, options).schema(schema).csv(list(source.paths))
    return Opened(source, frame, frozenset(frame.columns), options)


def _is_document(spark: SparkSession, source: Source) -> bool:
    """Say whether json files are documents over several lines rather than one record per line."""
    lines = spark.read.text(source.paths[0]).where("trim(value) != ''").head(1)
    return bool(lines) and str(lines[0][0]).strip()[:1] + str(lines[0][0]).strip()[-1:] != "{}"


def _from_directories(source: Source, frame: DataFrame) -> frozenset[str]:
    """Return the columns whose values are names of directories."""
    if source.files is not None:
        return frozenset(source.partition_columns)
    parts = [part for path in frame.inputFiles()[:1] for part in path.split("/")[:-1] if "=" in part]
    return frozenset(part.split("=", 1)[0] for part in parts) & frozenset(frame.columns)


# ---- types -----------------------------------------------------------------------------------------------------------


def types_of(spark: SparkSession, opened: Opened) -> sql.StructType:
    """Return the columns with the types that the data itself shows, for a new table; text files are read for this."""
    match opened.source.format:
        case "csv":
            seen = _reader(spark, {**opened.options, "inferSchema": "true"}).csv(list(opened.source.paths)).schema
        case "json":
            seen = _reader(spark, opened.options).json(list(opened.source.paths)).schema
        case _:
            seen = opened.frame.schema
    return sql.StructType([_as_text(one) if one.name in _directories(opened) else one for one in seen.fields])


def _directories(opened: Opened) -> frozenset[str]:
    return frozenset(opened.source.partition_columns)


def _as_text(one: sql.StructField) -> sql.StructField:
    return sql.StructField(one.name, sql.StringType(), one.nullable, one.metadata)


def fitted(spark: SparkSession, opened: Opened, wanted: Fit, types: Mapping[str, sql.DataType]) -> DataFrame:
    """Return the frame with the names of the table, text as values; `types` are those of the table's columns."""
    frame = _read_json(spark, opened, wanted, types) if opened.source.format == "json" else opened.frame
    columns = [_column(opened, name, target, types.get(target)) for name, target in wanted.pairs]
    columns += [F.lit(str(value)).cast(types[name]).alias(name) for name, value in wanted.constants.items()]
    return frame.select(*columns)


def _column(opened: Opened, name: str, target: str, dtype: sql.DataType | None) -> Column:
    if dtype is not None and name in opened.text:
        return parsed(name, dtype, target=target, formats=dict(opened.options))
    if isinstance(dtype, sql.DecimalType) and opened.source.format == "json":
        return narrowed(name, dtype, target=target)
    return column(name).alias(target)


def _read_json(spark: SparkSession, opened: Opened, wanted: Fit, types: Mapping[str, sql.DataType]) -> DataFrame:
    """Read json again, with the types of the table: decimals as wide as can be, because the reader would round them."""
    schema = opened.frame.schema
    targets = dict(wanted.pairs)
    fields = []
    for one in schema.fields:
        dtype = types.get(targets.get(one.name, ""))
        if one.name in opened.text or one.name not in targets or dtype is None:
            fields.append(one)
            continue
        _check_inside(one.name, one.dataType, dtype)
        fields.append(sql.StructField(one.name, widest(dtype) if isinstance(dtype, sql.DecimalType) else dtype))
    return _reader(spark, opened.options).schema(sql.StructType(fields)).json(list(opened.source.paths))


def _check_inside(name: str, found: sql.DataType, wanted: sql.DataType) -> None:
    """Refuse fields inside of json objects that the table's type lacks: the reader would leave them out in silence."""
    match found, wanted:
        case sql.StructType(), sql.StructType():
            inside = {one.name: one.dataType for one in wanted.fields}
            for one in found.fields:
                if one.name not in inside:
                    raise InvalidInputError(
                        f"the source has the field {one.name!r} in the column {name!r}, which the table lacks "
                        f"({wanted.simpleString()}); add it to the table or take it out",
                        column=name,
                    )
                _check_inside(f"{name}.{one.name}", one.dataType, inside[one.name])
        case sql.ArrayType(), sql.ArrayType():
            _check_inside(f"{name}.element", found.elementType, wanted.elementType)
        case _:
            pass


# ---- one frame of several, and errors --------------------------------------------------------------------------------

_FAMILIES = ({"tinyint", "smallint", "int", "bigint"}, {"float", "double"})


def united(frames: Sequence[DataFrame], names: Sequence[str]) -> DataFrame:
    """Return the rows of several frames, in their order; types may differ only where one holds all of the other."""
    whole = frames[0]
    for frame, name in zip(frames[1:], names[1:], strict=True):
        known = {one.name: one.dataType.simpleString() for one in whole.schema.fields}
        for one in frame.schema.fields:
            this = one.dataType.simpleString()  # which says nothing of nullability
            other = known.get(one.name, this)
            if this != other and not any({this, other} <= family for family in _FAMILIES):
                raise InvalidInputError(
                    f"the sources disagree about the column {one.name!r}: {this} in {name!r}, {other} before; ingest "
                    "them one after the other",
                    column=one.name,
                )
        whole = whole.unionByName(frame, allowMissingColumns=True)
    return whole


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Turn what Spark says of bad files and records into an error of ours, one sentence long."""
    try:
        yield
    except LakewrightError:
        raise
    except Exception as error:
        reason = _reason(str(error))
        if reason is None:
            raise
        raise InvalidInputError(f"{what}: {reason}", source=what) from error


def _reason(text: str) -> str | None:
    header = _HEADER.search(text)
    if header:
        lines = " ".join(header[0].split())
        return f"{lines}; give files with other headers as sources of their own"
    file = _FILE.search(text)
    where = f" (in {file[1]})" if file else ""
    for condition in _REASONS:
        found = re.search(rf"\[{condition}\] (.*?)(?:\s*SQLSTATE|\n\tat |$)", text, re.DOTALL)
        if found:
            said = " ".join(found[1].split())
            return said if where == "" or "(in " in said else f"{said}{where}"
    return None
