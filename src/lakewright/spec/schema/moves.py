"""Where a column goes among its siblings: what `SchemaChange` takes to place a column."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from lakewright.spec import arguments


class Position(StrEnum):
    """Where a column goes."""

    FIRST = "FIRST"
    AFTER = "AFTER"
    BEFORE = "BEFORE"
    LAST = "LAST"


@dataclass(frozen=True, slots=True)
class Move:
    """A column and its new place among its siblings."""

    field_name: str
    reference_field_name: str | None
    position: Position

    def __post_init__(self) -> None:
        arguments.plain_text("field_name", self.field_name)
        arguments.instance("position", self.position, Position, "a Position")
        if self.position in {Position.AFTER, Position.BEFORE}:
            arguments.plain_text("reference_field_name", self.reference_field_name)

    @staticmethod
    def first(field_name: str) -> Move:
        """Move a column before all others."""
        return Move(field_name, None, Position.FIRST)

    @staticmethod
    def last(field_name: str) -> Move:
        """Move a column behind all others."""
        return Move(field_name, None, Position.LAST)

    @staticmethod
    def after(field_name: str, reference_field_name: str) -> Move:
        """Move a column right behind another."""
        return Move(field_name, reference_field_name, Position.AFTER)

    @staticmethod
    def before(field_name: str, reference_field_name: str) -> Move:
        """Move a column right before another."""
        return Move(field_name, reference_field_name, Position.BEFORE)
