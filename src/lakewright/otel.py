"""OpenTelemetry spans and metrics from metrics events (`lakewright.otel` is documented).

`install()` adds a metrics hook. A commit, a compaction and a read become spans below the span that is current when they
end; retries become events of it. Nothing is sent anywhere but through the providers that the program set up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from opentelemetry import metrics, trace
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import SpanKind, Status, StatusCode, TracerProvider

from lakewright.metrics import MetricsEvent, add_metrics_hook, remove_metrics_hook
from lakewright.version import __version__

_SCOPE = "lakewright"
_installed: list[Callable[[MetricsEvent], None]] = []


def install(tracer_provider: TracerProvider | None = None, meter_provider: MeterProvider | None = None) -> None:
    """Turn what this process does into spans and metrics, of the global providers unless others are given.

    Called again, it replaces what it installed before.
    """
    tracer = trace.get_tracer(_SCOPE, __version__, tracer_provider)
    meter = (
        metrics.get_meter(_SCOPE, __version__)
        if meter_provider is None
        else meter_provider.get_meter(_SCOPE, __version__)
    )
    uninstall()
    _installed.append(_listener(tracer, meter))
    add_metrics_hook(_installed[0])


def uninstall() -> None:
    """Stop what `install` began."""
    while _installed:
        remove_metrics_hook(_installed.pop())


def _listener(tracer: trace.Tracer, meter: metrics.Meter) -> Callable[[MetricsEvent], None]:
    seconds = meter.create_histogram("lakewright.duration", "s", "How long commits, compactions and reads take")
    attempts = meter.create_histogram("lakewright.commit.attempts", "{attempt}", "How often a commit was tried")
    count = meter.create_counter("lakewright.events", "{event}", "Commits, retries, failures, compactions and reads")
    rows = meter.create_counter("lakewright.rows", "{row}", "Rows that were committed, compacted or read")
    files = meter.create_counter("lakewright.files", "{file}", "Files that were committed, compacted or read")
    size = meter.create_counter("lakewright.bytes", "By", "Bytes of these files")

    def listen(event: MetricsEvent) -> None:
        labels = {"kind": event.kind, "table": event.table}
        if event.operation:
            labels["operation"] = event.operation
        count.add(1, labels)
        if event.kind == "retry":
            trace.get_current_span().add_event("lakewright.retry", _attributes(event))
            return
        seconds.record(event.seconds, labels)
        if event.kind in ("commit", "failure"):
            attempts.record(event.attempts, labels)
        for counter, number in ((rows, event.rows), (files, event.files), (size, event.bytes)):
            counter.add(number, labels)
        _span(tracer, event)

    return listen


def _span(tracer: trace.Tracer, event: MetricsEvent) -> None:
    """Make the span of what is over already, with the times that it took."""
    span = tracer.start_span(
        f"lakewright {event.kind}",
        kind=SpanKind.CLIENT,
        attributes=_attributes(event),
        start_time=event.started_ns,
    )
    if event.kind == "failure":
        span.set_status(Status(StatusCode.ERROR, str(event.details.get("error", ""))))
    span.end(event.started_ns + int(event.seconds * 1e9))


def _attributes(event: MetricsEvent) -> Mapping[str, str | int | float | bool]:
    plain = (str, int, float, bool)
    shown = {key: value if isinstance(value, plain) else str(value) for key, value in event.fields().items()}
    return {f"lakewright.{key}": value for key, value in shown.items()}
