"""Sessions that refuse what managed services refuse: settings but for a few, persisting, global views, artifacts.

`refusing_proxy` stands before a Connect server, for its clients and for the processes that the server starts;
`refuse_in_process` does the same to a classic session.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc  # type: ignore[import-untyped] # no stubs
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.connect.proto import base_pb2 as proto

SETTABLE = {"spark.sql.session.timeZone", "spark.sql.ansi.enabled", "spark.sql.shuffle.partitions"}
HIDDEN = re.compile(
    r"spark\.(master|speculation|pyspark|sql\.(leafNode|caseSensitive|sources\.|timeType|execution\.(arrow\.max|pyspark\.python)))"
)
_STATEMENT = re.compile(
    r"\s*(SET\s+(?!TIME ZONE|VAR|CATALOG)\S|RESET|CACHE\b|UNCACHE\b|CREATE\s.*\bGLOBAL\b)", re.IGNORECASE
)
_SERVICE = "/spark.connect.SparkConnectService/"
_CHECKED: dict[str, Any] = {
    "Config": proto.ConfigRequest,
    "AnalyzePlan": proto.AnalyzePlanRequest,
    "ExecutePlan": proto.ExecutePlanRequest,
    "AddArtifacts": proto.AddArtifactsRequest,
}
REMOTE = "LAKEWRIGHT_TEST_REMOTE"  # where tests and the processes of a server find the proxy


def refusal_of(request: Any) -> str | None:  # noqa: ANN401 - a message of any method
    """Return why a managed service refuses a request; None: it does not."""
    match request:
        case proto.ConfigRequest():
            return _refused_setting(request.operation)
        case proto.AnalyzePlanRequest() if request.WhichOneof("analyze") in {"persist", "unpersist"}:
            return "PERSIST TABLE is not supported"
        case proto.ExecutePlanRequest() if request.plan.HasField("command"):
            command = request.plan.command
            if command.create_dataframe_view.is_global:
                return "global temporary views are not supported"
            text = command.sql_command.sql or command.sql_command.input.sql.query
            return f"{text!r} is not supported" if _STATEMENT.match(text) else None
        case proto.AddArtifactsRequest() if not _is_cache(request):
            return "artifacts are not supported"
    return None


def _is_cache(request: proto.AddArtifactsRequest) -> bool:
    """Return whether this is a large local frame, which PySpark sends as an artifact."""
    names = [one.name for one in request.batch.artifacts] + [request.begin_chunk.name]
    return all(not name or name.startswith("cache/") for name in names)


def _refused_setting(operation: proto.ConfigRequest.Operation) -> str | None:
    kind = operation.WhichOneof("op_type")
    if kind in {"set", "unset"}:
        keys = [pair.key for pair in operation.set.pairs] + list(operation.unset.keys)
        refused = [key for key in keys if key not in SETTABLE and not operation.set.silent]
    elif kind == "get_all":
        refused = ["all settings"]
    else:
        given = getattr(operation, str(kind))
        keys = [pair.key for pair in given.pairs] if kind == "get_with_default" else list(given.keys)
        refused = [key for key in keys if HIDDEN.match(key)]
    return f"[CONFIG_NOT_AVAILABLE] {refused[0]} is not available" if refused else None


@contextmanager
def refusing_proxy(remote: str, port: int) -> Iterator[str]:
    """Serve Spark Connect on a port of loopback: hand everything to a server but what a managed service refuses."""
    limits = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    channel = grpc.insecure_channel(remote.removeprefix("sc://"), options=limits)
    server = grpc.server(ThreadPoolExecutor(32), handlers=[_Forwarding(channel)], options=limits)
    server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    try:
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.stop(1).wait()
        channel.close()


class _Forwarding(grpc.GenericRpcHandler):  # type: ignore[misc] # no stubs
    """Forwards every method as bytes."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._channel = channel

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        """Return what handles a method."""
        name = details.method.removeprefix(_SERVICE)
        if name == "AddArtifacts":
            return grpc.stream_unary_rpc_method_handler(self._checked(details.method, "stream_unary"))
        if name in {"ExecutePlan", "ReattachExecute"}:
            return grpc.unary_stream_rpc_method_handler(self._checked(details.method, "unary_stream"))
        return grpc.unary_unary_rpc_method_handler(self._checked(details.method, "unary_unary"))

    def _checked(self, method: str, shape: str) -> Callable[..., Any]:
        forward = getattr(self._channel, shape)(method)
        kind = _CHECKED.get(method.removeprefix(_SERVICE))

        def check(data: bytes, context: grpc.ServicerContext) -> bytes:
            reason = None if kind is None else refusal_of(kind.FromString(data))
            if reason is not None:
                context.abort(grpc.StatusCode.PERMISSION_DENIED, reason)
            return data

        def answer(given: Any, context: grpc.ServicerContext) -> Any:  # noqa: ANN401 - bytes or many of them
            request = (check(one, context) for one in given) if shape == "stream_unary" else check(given, context)
            try:
                return forward(request)
            except grpc.RpcError as error:
                raise _relayed(error, context) from None

        def answers(given: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
            try:
                yield from forward(check(given, context))
            except grpc.RpcError as error:
                raise _relayed(error, context) from None

        return answers if shape == "unary_stream" else answer


def _relayed(error: Any, context: grpc.ServicerContext) -> Exception:  # noqa: ANN401 - an error that is also a call
    """Give the client the error of the server, with its details."""
    context.set_trailing_metadata(error.trailing_metadata() or ())
    context.abort(error.code(), error.details())
    raise AssertionError


def refuse_in_process(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a classic session refuse settings and persisting as a managed service does."""
    conf = type(spark.conf)
    own = {name: getattr(conf, name) for name in ("get", "set", "unset")}

    def refuse(what: str) -> object:
        raise AnalysisException(f"[CONFIG_NOT_AVAILABLE] {what} is not available")

    def get(self: Any, key: str, *default: Any) -> object:  # noqa: ANN401 - as PySpark has it
        return refuse(key) if HIDDEN.match(key) else own["get"](self, key, *default)

    def changing(name: str) -> Callable[..., object]:
        return lambda self, key, *value: own[name](self, key, *value) if key in SETTABLE else refuse(key)

    monkeypatch.setattr(conf, "get", get)
    for name in ("set", "unset"):
        monkeypatch.setattr(conf, name, changing(name))
    if hasattr(conf, "getAll"):
        monkeypatch.setattr(conf, "getAll", property(lambda _: refuse("all settings")))
    for name in ("persist", "cache"):
        monkeypatch.setattr(type(spark.range(1)), name, lambda *_: refuse("persisting"))
