"""Metrics events, hooks and the stages of an operation.

Invariant: telling never raises, and costs next to nothing where no hook listens. A line holds names, numbers and
kinds of errors, never rows, locations, options or the text of an error: so it holds no secret.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Literal, TypeAlias

from lakewright.errors import InvalidInputError

EventKind: TypeAlias = Literal["commit", "retry", "failure", "compaction", "read"]

_LEVELS: Mapping[EventKind, int] = {
    "commit": logging.INFO,
    "retry": logging.INFO,
    "failure": logging.WARNING,
    "compaction": logging.INFO,
    "read": logging.DEBUG,
}
_LOGGERS: Mapping[EventKind, logging.Logger] = {
    "commit": logging.getLogger("lakewright.commit"),
    "retry": logging.getLogger("lakewright.commit"),
    "failure": logging.getLogger("lakewright.commit"),
    "compaction": logging.getLogger("lakewright.compact"),
    "read": logging.getLogger("lakewright.read"),
}
for _logger in _LOGGERS.values():
    if not _logger.handlers:  # without one, Python prints warnings of programs that set up no logging
        _logger.addHandler(logging.NullHandler())
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.$-:/,+*")


@dataclass(frozen=True, slots=True)
class MetricsEvent:
    """One thing that the library did, with its figures.

    `kind` is `commit` (a snapshot is published), `retry` (an attempt lost and another follows), `failure` (a commit
    raised an error), `compaction` or `read`. `details` are fields of one kind: docs/operate.md lists them.
    """

    kind: EventKind
    table: str
    operation: str = ""  # what kind of commit: APPEND, OVERWRITE, COMPACT or ANALYZE
    snapshot_id: int | None = None
    rows: int = 0
    files: int = 0
    bytes: int = 0
    attempts: int = 1
    started_ns: int = 0  # wall clock, since 1970
    seconds: float = 0.0
    stages_ms: Mapping[str, float] = field(default_factory=dict, hash=False)
    details: Mapping[str, object] = field(default_factory=dict, hash=False)

    def fields(self) -> dict[str, object]:
        """Return the fields of the log line in their order, without those that say nothing."""
        named = {"table": self.table, "snapshot": self.snapshot_id, "operation": self.operation or None}
        counts = {"rows": self.rows, "files": self.files, "bytes": self.bytes, "attempts": self.attempts}
        shown = {key: value for key, value in named.items() if value is not None}
        stages = {f"{stage}_ms": round(spent, 3) for stage, spent in self.stages_ms.items()}
        return {**shown, **counts, **self.details, **stages, "total_ms": round(self.seconds * 1000, 3)}

    def line(self) -> str:
        """Return the event as one line of text.

        >>> MetricsEvent("commit", "d.t", "APPEND", 7, rows=3, files=1, bytes=900, stages_ms={"plan": 0.5}).line()
        'commit table=d.t snapshot=7 operation=APPEND rows=3 files=1 bytes=900 attempts=1 plan_ms=0.5 total_ms=0.0'
        """
        return " ".join((self.kind, *(f"{key}={_format_value(value)}" for key, value in self.fields().items())))


MetricsHook: TypeAlias = Callable[[MetricsEvent], object]

_hooks: tuple[MetricsHook, ...] = ()
_changing = threading.Lock()


def add_metrics_hook(hook: MetricsHook) -> None:
    """Call a function with a `MetricsEvent` after every commit, retry, failed commit, compaction and read.

    It hears of what this process does, at once and in the thread that did it: let it be quick. What it raises is logged
    and changes nothing. A function that was added before is not added again.

    >>> import tempfile, pyarrow as pa, lakewright as lw
    >>> catalog = lw.CatalogFactory.create({"warehouse": tempfile.mkdtemp()})
    >>> catalog.create_database("d")
    >>> catalog.create_table("d.t", pa.schema({"id": pa.int64()}))
    >>> seen = []
    >>> lw.add_metrics_hook(seen.append)
    >>> _ = lw.write_table({"id": [1, 2]}, catalog.get_table("d.t"))
    >>> lw.remove_metrics_hook(seen.append)
    >>> [(event.kind, event.table, event.snapshot_id, event.rows, event.files) for event in seen]
    [('commit', 'd.t', 1, 2, 1)]
    """
    global _hooks  # noqa: PLW0603 - the hooks of the process
    if not callable(hook):
        raise InvalidInputError(f"a metrics hook is a function that takes a MetricsEvent, not {type(hook).__name__}")
    with _changing:
        if hook not in _hooks:
            _hooks = (*_hooks, hook)


def remove_metrics_hook(hook: MetricsHook) -> None:
    """Call a function no longer; one that was never added is no error."""
    global _hooks  # noqa: PLW0603 - the hooks of the process
    if not callable(hook):
        raise InvalidInputError(f"a metrics hook is a function that takes a MetricsEvent, not {type(hook).__name__}")
    with _changing:
        _hooks = tuple(known for known in _hooks if known != hook)


def has_listeners(kind: EventKind) -> bool:
    """Return whether a hook or a logger wants events of a kind: if none does, none need be made."""
    return bool(_hooks) or _LOGGERS[kind].isEnabledFor(_LEVELS[kind])


def emit(event: MetricsEvent) -> None:
    """Log an event and hand it to the hooks."""
    logger, level = _LOGGERS[event.kind], _LEVELS[event.kind]
    try:
        if logger.isEnabledFor(level):
            logger.log(level, "%s", event.line(), extra={"lakewright": {"kind": event.kind, **event.fields()}})
    except Exception:  # noqa: BLE001, S110 - a handler of the program failed, and the work is done whatever it says
        pass
    for hook in _hooks:
        try:
            hook(event)
        except Exception as error:  # noqa: BLE001 - what is done is done
            _LOGGERS["failure"].warning("a metrics hook failed: %s", type(error).__name__)


class StageTimer:
    """Milliseconds by stage, as they add up."""

    __slots__ = ("millis",)

    def __init__(self) -> None:
        self.millis: dict[str, float] = {}

    def add(self, stage: str, since: float) -> float:
        """Add the time since a moment of `perf_counter` to a stage, and return this moment."""
        now = perf_counter()
        self.millis[stage] = self.millis.get(stage, 0.0) + (now - since) * 1000
        return now

    def join(self, others: Mapping[str, float]) -> None:
        """Add the stages of others."""
        for stage, spent in others.items():
            self.millis[stage] = self.millis.get(stage, 0.0) + spent

    def take_stages(self) -> dict[str, float]:
        """Return all stages, and begin anew."""
        taken, self.millis = self.millis, {}
        return taken


def _format_value(value: object) -> str:
    text = ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
    if text and _PLAIN.issuperset(text):
        return text
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in quoted) + '"'
