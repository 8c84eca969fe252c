"""Listings of an object store whose answers are cut: asked for again, with nothing missing and nothing twice."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

import pytest

from lakewright.storage.object import ObjectStorage
from lakewright.storage.open import open_storage
from support.s3 import S3Server


@contextmanager
def _cutting(endpoint: str, cuts: int) -> Iterator[str]:
    """Run a proxy that cuts the answers to the first listings in the middle."""
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
                if b"list-type=2" in request and left:
                    left.pop()
                    client.sendall(answer[: answer.index(b"<Key>") + 3])
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
