"""OpenTelemetry: spans and metrics of commits, compactions and reads, through providers of the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader, NumberDataPoint
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import lakewright as lw
from lakewright import otel


class Seen:
    """What was exported so far."""

    def __init__(self) -> None:
        self.spans, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers, self.meters = TracerProvider(), MeterProvider([self.reader])
        self.tracers.add_span_processor(SimpleSpanProcessor(self.spans))

    def numbers(self, name: str) -> dict[str, float]:
        """Return the sums, or the counts of a histogram, by the kind of the event."""
        data = self.reader.get_metrics_data()
        assert data is not None
        found: dict[str, float] = {}
        for scope in data.resource_metrics[0].scope_metrics:
            for metric in scope.metrics:
                for point in metric.data.data_points if metric.name == name else ():
                    assert isinstance(point, NumberDataPoint | HistogramDataPoint)
                    kind = str((point.attributes or {})["kind"])
                    number = point.value if isinstance(point, NumberDataPoint) else point.count
                    found[kind] = found.get(kind, 0) + number
        return found


@pytest.fixture
def seen() -> Iterator[Seen]:
    made = Seen()
    otel.install(made.tracers, made.meters)
    yield made
    otel.uninstall()


@pytest.fixture
def table(tmp_path: Path) -> lw.FileStoreTable:
    return lw.create_table_from(
        pa.table({"id": [0], "n": [0]}), "d.t", catalog=tmp_path, primary_keys="id", options={"bucket": 1}
    )


def test_spans_and_metrics_of_a_write_a_compaction_and_a_read(table: lw.FileStoreTable, seen: Seen) -> None:
    with seen.tracers.get_tracer("program").start_as_current_span("nightly") as outer:
        written = lw.write_table({"id": [1, 2], "n": [1, 2]}, table)
        table.compact(full=True)
        lw.read_table(table, columns=["n"])
    spans = {span.name: span for span in seen.spans.get_finished_spans()}
    assert set(spans) == {"lakewright commit", "lakewright compaction", "lakewright read", "nightly"}
    own = [span for span in seen.spans.get_finished_spans() if span.name.startswith("lakewright")]
    assert all(span.parent is not None and span.parent.span_id == outer.get_span_context().span_id for span in own)
    assert all(span.start_time is not None and span.end_time is not None for span in own)
    first = own[0].attributes or {}
    assert (first["lakewright.table"], first["lakewright.snapshot"], first["lakewright.rows"]) == ("d.t", 2, 2)
    assert first["lakewright.bytes"] == written.bytes
    assert "lakewright.publish_ms" in first
    assert seen.numbers("lakewright.events") == {"commit": 2, "compaction": 1, "read": 1}
    assert seen.numbers("lakewright.rows") == {"commit": 5, "compaction": 3, "read": 3}
    assert seen.numbers("lakewright.duration")["commit"] == 2


def test_a_failed_commit_is_a_span_with_an_error(table: lw.FileStoreTable, seen: Seen) -> None:
    event = lw.MetricsEvent("failure", "d.t", "APPEND", details={"error": "CommitContentionError"})
    otel._installed[0](event)
    (span,) = seen.spans.get_finished_spans()
    assert (span.status.is_ok, span.status.description) == (False, "CommitContentionError")
    assert table.name == "d.t"


def test_installing_again_replaces_and_uninstalling_stops(table: lw.FileStoreTable, seen: Seen) -> None:
    otel.install(seen.tracers, seen.meters)
    lw.write_table({"id": [5], "n": [5]}, table)
    assert len(seen.spans.get_finished_spans()) == 1
    otel.uninstall()
    lw.write_table({"id": [6], "n": [6]}, table)
    assert len(seen.spans.get_finished_spans()) == 1
