"""Listings and objects of a store whose answers are cut: asked for again, with nothing missing and nothing twice."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

import pytest
from botocore.exceptions import ClientError

from lakewright.storage.object_storage import ObjectStorage
from lakewright.storage.storage_registry import open_storage
from support.s3 import S3Server


@contextmanager
def _cutting(endpoint: str, cuts: int, *, request_part: bytes = b"list-type=2", end: bytes = b"<Key>") -> Iterator[str]:
    """Run a proxy that cuts the first answers to some requests in the middle."""
    parts, left = urlsplit(endpoint), [None] * cuts

    def serve(client: socket.socket) -> None:
        with client, suppress(OSError), socket.create_connection((parts.hostname, parts.port)) as server:
            server.settimeout(0.3)
            while request := client.recv(65536):
                server.sendall(request)
                answer = b""
                with suppress(TimeoutError):
                    while data := server.recv(65536):
                        answer += data
                if request_part in request and left:
                    left.pop()
                    client.sendall(answer[: answer.index(end) + len(end)])
                    return
                client.sendall(answer)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    assert not left


@pytest.mark.parametrize("cuts", [1, 2])
@pytest.mark.parametrize("verb", ["list", "walk"])
def test_a_listing_whose_answer_is_cut_is_asked_for_again(s3_server: S3Server, verb: str, cuts: int) -> None:
    bucket = s3_server.make_bucket()
    names = [f"f{number}" for number in range(5)]
    for name in names:
        s3_server.client().put_object(Bucket=bucket, Key=f"t/{name}", Body=b"x")
    with _cutting(s3_server.options["s3.endpoint"], cuts) as endpoint:
        storage, place = open_storage(f"s3://{bucket}", {**s3_server.options, "s3.endpoint": endpoint})
        assert isinstance(storage, ObjectStorage)
        found = [info.path.rpartition("/")[2] for info in getattr(storage, verb)(f"{place}/t")]
    assert found == names


@pytest.mark.parametrize("cuts", [1, 3])
@pytest.mark.parametrize("verb", ["whole", "range", "tail"])
def test_an_object_is_asked_for_again_where_the_answer_that_it_is_missing_is_cut(
    s3_server: S3Server, verb: str, cuts: int
) -> None:
    """The client goes on reading an object whose bytes are cut, but gives up where those of an error are."""
    bucket = s3_server.make_bucket()
    with pytest.raises(ClientError):  # the first answer of this kind takes the emulator long
        s3_server.client().get_object(Bucket=bucket, Key="t/f")
    with _cutting(s3_server.options["s3.endpoint"], cuts, request_part=b"GET ", end=b"<Error>") as endpoint:
        storage = open_storage(f"s3://{bucket}", {**s3_server.options, "s3.endpoint": endpoint})[0]
        assert isinstance(storage, ObjectStorage)
        client = storage._client
        reads: dict[str, Callable[[], object]] = {
            "whole": lambda: client.get("t/f"),
            "range": lambda: client.get_range("t/f", 0, 10),
            "tail": lambda: client.get_tail("t/f", 10),
        }
        with pytest.raises(FileNotFoundError):
            reads[verb]()
