"""Marks that a partition is complete: specs in; what the options of the table name is done about each partition.

    success-file  a file in the directory of the partition
    mark-event    the catalog is told: a REST server takes notice, other catalogs have nothing to do with it, as in Java
    http-report   a POST request to a server of the user's, which must answer that it succeeded
    custom        a function of the caller's, in place of the class that Java calls

What always holds: all actions and partitions are checked before anything is done, and marking twice is harmless. A
failure names the partition; those before it are marked, and the same call marks the others.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias
from urllib.parse import urlsplit

from lakewright.commit.plan import partition_selector, select_partitions
from lakewright.errors import CatalogServerError, InvalidInputError, NotFoundError, UnsupportedError
from lakewright.maintenance.partitions import live_partitions
from lakewright.maintenance.tags import mark_success
from lakewright.metadata.store import TableStore, spec_name
from lakewright.spec.options import CoreOptions

CustomAction: TypeAlias = Callable[[dict[str, str]], object]
_Action: TypeAlias = Callable[[bytes], object]
_NAMES = ("success-file", "mark-event", "http-report", "custom")
_ATTEMPTS_MAX = 3  # of a report that a server does not answer, or answers with a failure of its own
_PAUSE_SECONDS = 0.2  # before the second attempt; twice as long before the third
_TIMEOUT_SECONDS = 60.0
_SERVER_FAILED = 500  # and all codes above: the server may recover


def mark_done(
    store: TableStore,
    specs: Sequence[Mapping[str, object]],
    *,
    custom: CustomAction | None = None,
    now_millis: int | None = None,
) -> list[dict[str, str]]:
    """Mark each partition that agrees with a spec as done; each spec must agree with one. Return the partitions.

    `custom` is called with each of them, after the actions that the options name.
    """
    actions = list(_actions(store, custom, now_millis))
    if not store.schema.partition_keys or not specs:
        raise InvalidInputError(f"{store.name}: name at least one partition that is done", table=store.name)
    live = list(live_partitions(store))
    chosen: dict[bytes, None] = {}
    for spec in specs:
        selects = partition_selector(store, select_partitions(store, [spec]))
        found = [partition for partition in live if selects(partition)]
        if not found:
            shown = spec_name({key: str(value) for key, value in spec.items()})
            raise NotFoundError(f"{store.name} has no partition {shown}", table=store.name)
        chosen |= dict.fromkeys(found)
    store.check_same_table()
    for partition in chosen:
        for action in actions:
            action(partition)
    return [store.partition_spec(partition) for partition in chosen]


def _actions(store: TableStore, custom: CustomAction | None, now_millis: int | None) -> Iterable[_Action]:
    """Yield what is done with each partition; an action that cannot be carried out is an error."""
    for word in dict.fromkeys(store.options.get(CoreOptions.PARTITION_MARK_DONE_ACTION).lower().split(",")):
        match word.strip():
            case "success-file":
                yield lambda partition: mark_success(store, f"{_directory(store, partition)}/_SUCCESS", now_millis)
            case "mark-event":
                yield lambda partition: store.home.partitions_done([store.partition_spec(partition)])
            case "http-report":
                yield _reporter(store)
            case "custom" if custom is not None:
                pass
            case "custom":
                raise _refused(
                    store, "custom", "it calls a class of Java: give mark_partition_done a function (custom=)"
                )
            case "done-partition":
                raise _refused(store, "done-partition", "it adds a partition to a metastore, which no catalog here has")
            case other:
                raise _refused(store, other, f"the actions are {', '.join(_NAMES)}")
    if custom is not None:
        yield lambda partition: custom(store.partition_spec(partition))


def _directory(store: TableStore, partition: bytes) -> str:
    return f"{store.layout.root}/{store.partition_directory(partition)}"


def _refused(store: TableStore, action: str, reason: str) -> UnsupportedError:
    option = CoreOptions.PARTITION_MARK_DONE_ACTION.key()
    return UnsupportedError(
        f"{store.name}: the action {action!r} of {option!r} is not carried out: {reason}; or set the option to "
        "'success-file'",
        table=store.name,
        option=option,
    )


def _reporter(store: TableStore) -> _Action:
    """Return the action that tells the server of an option about a partition."""
    option = CoreOptions.PARTITION_MARK_DONE_ACTION_HTTP_URL
    url = store.options.get(option) or ""
    if urlsplit(url).scheme not in {"http", "https"}:
        raise InvalidInputError(
            f"{store.name}: the action 'http-report' needs the address of a server: set {option.key()!r} to a URL that "
            "begins with http:// or https://",
            table=store.name,
            option=option.key(),
        )
    params = store.options.get(CoreOptions.PARTITION_MARK_DONE_ACTION_HTTP_PARAMS)

    def report(partition: bytes) -> None:
        said = {
            "partition": f"{store.partition_directory(partition)}/",
            "table": store.name,
            "path": store.layout.root,
            "params": params,
        }
        failure = _post(url, json.dumps(said).encode())
        if failure is not None:
            raise CatalogServerError(
                f"{store.name}: the server {_shown(url)} of {option.key()!r} did not take the report of the partition "
                f"{said['partition']}: {failure}; mark it again when the server works",
                table=store.name,
                perhaps_done=True,
            )

    return report


def _post(url: str, body: bytes) -> str | None:
    """Send a report, some times if need be; return why it failed, None if the server says that it succeeded."""
    import http.client  # noqa: PLC0415 - the door to servers: large, and few tables report to one
    import urllib.request  # noqa: PLC0415 - the same door
    from urllib.error import HTTPError  # noqa: PLC0415 - the same door

    failure = ""
    for attempt in range(_ATTEMPTS_MAX):
        if attempt:
            time.sleep(_PAUSE_SECONDS * attempt)
        try:
            request = urllib.request.Request(url, body, {"Content-Type": "application/json"})  # noqa: S310 - http(s) only
            with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:  # noqa: S310
                return _judged(answer.read())
        except HTTPError as error:
            failure = f"it answered {error.code}"
            error.close()
            if error.code < _SERVER_FAILED:
                break
        except (OSError, http.client.HTTPException) as error:
            failure = f"it gave no answer: {error}"
    return failure


def _judged(answer: bytes) -> str | None:
    """Return None for an answer that says success, else what it says."""
    try:
        result = json.loads(answer)["result"]
    except (ValueError, TypeError, KeyError):
        return "its answer has no 'result'"
    return None if str(result).upper() == "SUCCESS" else f"its 'result' is {str(result)[:100]!r}, not 'SUCCESS'"


def _shown(url: str) -> str:
    """Return an address without what may be secret in it: the name of a user, a password, and the query."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
