"""Errors of tasks on their way to the driver: an error of ours in, text out, and the same error again on the driver.

The text is JSON and holds only plain values, so that reading it runs no code, whoever wrote it. Facts of other types
arrive as the text that shows them.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterator

from lakewright.errors import LakewrightError

_PLAIN = (str, bool, int, float, type(None))


def is_transient(error: BaseException) -> bool:
    """Say whether a failure of the storage, or of the machine, is behind an error: then trying again may help.

    A missing file is no such failure: it will be missing the next time too.
    """
    return any(isinstance(e, OSError) and not isinstance(e, FileNotFoundError) for e in _causes(error))


def error_to_text(error: LakewrightError) -> str:
    """Return an error as text, with its traceback."""
    facts = {name: _to_json(value) for name, value in error.facts.items()}
    where = "".join(traceback.format_exception(error))
    return json.dumps({"error": type(error).__name__, "message": error.message, "facts": facts, "where": where})


def error_from_text(text: str) -> LakewrightError:
    """Read what `error_to_text` wrote: the same type, message and facts, with the worker's traceback as a note."""
    fields = json.loads(text)
    kinds = {kind.__name__: kind for kind in _kinds(LakewrightError)}
    facts = {name: _from_json(value) for name, value in fields["facts"].items()}
    error = kinds.get(fields["error"], LakewrightError)(fields["message"], **facts)
    error.add_note(f"It was raised by a task on a worker:\n{fields['where']}")
    return error


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    seen: set[int] = set()
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)


def _kinds(kind: type[LakewrightError]) -> Iterator[type[LakewrightError]]:
    yield kind
    for inner in kind.__subclasses__():
        yield from _kinds(inner)


def _to_json(value: object) -> object:
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, list):
        return [_to_json(item) for item in value]
    if isinstance(value, tuple):
        return {"tuple": [_to_json(item) for item in value]}
    return str(value)


def _from_json(value: object) -> object:
    match value:
        case {"bytes": str(digits)}:
            return bytes.fromhex(digits)
        case {"tuple": list(items)}:
            return tuple(_from_json(item) for item in items)
        case list():
            return [_from_json(item) for item in value]
        case _:
            return value
