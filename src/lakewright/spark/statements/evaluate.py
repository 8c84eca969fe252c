"""Text over frames: slices of a statement whose names are looked up in, a frame that Spark evaluates out.

What always holds: parameters are bound, never pasted. Those by place (`?`) become parameters by name, because the text
that Spark gets has the slices in another order, and some of them twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession

from lakewright.errors import SQLSyntaxError
from lakewright.spark.jobs.frames import condition_of, sql_over
from lakewright.spark.jobs.session import is_connect
from lakewright.spark.read.frame import frame_of
from lakewright.statements.query.bind import Bound, Relation, bind
from lakewright.statements.query.parameters import args_by_name, text_by_name
from lakewright.statements.query.places import Kind
from lakewright.statements.query.tables import Lookup
from lakewright.statements.session import Session
from lakewright.statements.text import Args, Fragment
from lakewright.table.table import FileStoreTable

_NOT_FOUND = "TABLE_OR_VIEW_NOT_FOUND"
# The kind of a syntax error, what Spark says, and where; 3.5 leaves out the code in the middle.
_SAID = re.compile(
    r"^\s*\[[\w.]+\]\s*(?P<what>.*?)(SQLSTATE: \w+)?\s*\(line (?P<line>\d+), pos (?P<at>\d+)\)", re.DOTALL
)
_NO_COLUMN = "UNRESOLVED_COLUMN.WITH_SUGGESTION"

Written: TypeAlias = Callable[[str | Fragment], str]  # how own text, or a slice, is written for Spark


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Evaluates slices of one statement with a Spark session."""

    session: Session
    lookup: Lookup
    spark: SparkSession
    statement: Fragment
    args: Args

    def bind(
        self, fragments: Sequence[tuple[Fragment, Kind]], at: tuple[FileStoreTable, int | None] | None = None
    ) -> Bound:
        """Look up the tables of some slices; `at` is a table whose snapshot is given."""
        return bind(self.session, self.lookup, fragments, self.args, at)

    def query(self, query: Fragment, at: tuple[FileStoreTable, int | None] | None = None) -> DataFrame:
        """Return the rows of a query."""
        return self.run(self.bind([(query, Kind.QUERY)], at), lambda written: written(query))

    def run(
        self, bound: Bound, compose: Callable[[Written], str], frames: Mapping[str, DataFrame] | None = None
    ) -> DataFrame:
        """Return the rows of text that `compose` makes of slices, over their relations and more frames by name."""
        every = {**frames_of(self.spark, bound.relations), **(frames or {})}
        numbers = {piece.fragment: number for number, piece in enumerate(bound.pieces)}

        def written(part: str | Fragment) -> str:
            if isinstance(part, str):
                return part.replace("{", "{{").replace("}", "}}") if every else part
            return text_by_name(
                bound.text(numbers[part], placeholder, escape_braces=bool(every)), part, self.statement, self.args
            )

        try:
            return evaluated(self.spark, compose(written), args_by_name(self.args), every)
        except AnalysisException as error:
            explain_missing(bound, error)
            raise


def evaluated(spark: SparkSession, text: str, args: Args, frames: Mapping[str, DataFrame] | None = None) -> DataFrame:
    """Return the rows of text over frames, which it names in braces."""
    return sql_over(spark, text, cast("dict[str, object]", args) or None, frames or {})


def frames_of(spark: SparkSession, relations: Sequence[Relation]) -> dict[str, DataFrame]:
    """Return the rows of relations as frames, by the names that `placeholder` gives them."""
    return {_key(relation): frame_of(spark, relation.builder(), filters_again=True) for relation in relations}


def placeholder(relation: Relation) -> str:
    """Return how the text of a statement names the frame of a relation."""
    return "{" + _key(relation) + "}"


def _key(relation: Relation) -> str:
    return f"{relation.name}_rows"  # no name of an argument of spark.sql


def syntax_error(spark: SparkSession, statement: Fragment, error: ParseException) -> SQLSyntaxError:
    """Return the error of this library for a text that Spark cannot read, with its place in the user's own text."""
    found = error
    if not is_connect(spark):
        try:  # the text that Spark was given has other names of tables, and thus other places
            spark._jsparkSession.sessionState().sqlParser().parsePlan(statement.text)  # noqa: SLF001 - only to see where
        except ParseException as own:
            found = own
    said = _SAID.search(str(found))
    if said is None:
        return statement.error(str(found).strip().partition("\n")[0])
    lines = statement.text.split("\n")[: int(said["line"]) - 1]
    at = sum(len(line) + 1 for line in lines) + int(said["at"])
    return statement.error(said["what"].strip().rstrip("."), min(at, len(statement.text)) if found is not error else 0)


def explain_missing(bound: Bound, error: AnalysisException) -> None:
    """Raise an error of ours if Spark does not know a table or a column that we do not know either."""
    condition = condition_of(error)
    said = error.getMessageParameters() or {}
    if condition == _NO_COLUMN:
        proposed = [name.rpartition("`.`")[2].strip("` ") for name in said.get("proposal", "").split(",")]
        raise bound.missing_column(said.get("objectName", "").replace("`", ""), proposed) from error
    if condition != _NOT_FOUND:
        return
    for name in bound.left:
        spelled = ".".join(f"`{part.replace('`', '``')}`" for part in name.parts)
        if said.get("relationName", "").lower() == spelled.lower():
            raise bound.missing(name) from None
