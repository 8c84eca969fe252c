"""All procedures by their names: name in, what runs it out."""

from __future__ import annotations

from lakewright.statements.procedures import history, repairs, upkeep
from lakewright.statements.procedures.declare import Procedure

PROCEDURES: dict[str, Procedure] = {
    one.name: one
    for one in sorted((*history.PROCEDURES, *upkeep.PROCEDURES, *repairs.PROCEDURES), key=lambda one: one.name)
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
