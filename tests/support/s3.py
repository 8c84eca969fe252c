"""An S3 server on loopback: where it listens and how to reach it; and the emulator that `make test` runs.

The emulator looks whether a key exists and then sets it, without a lock, so of callers that race with `If-None-Match`
it sometimes lets two win, which a store with conditional puts must not. Its puts are therefore made one at a time here.
What races against it show is that our side keeps to the answers of an atomic store; they prove nothing about real ones.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from unittest.mock import patch

import boto3
from moto.moto_server.werkzeug_app import DomainDispatcherApplication
from moto.s3.responses import S3Response
from moto.server import ThreadedMotoServer

ACCESS_KEY = "AKIA-TEST-ACCESS"
SECRET_KEY = "test-secret-key"  # noqa: S105 - the emulator takes any


@dataclass(frozen=True)
class S3Server:
    """A running server."""

    endpoint: str
    options: dict[str, str] = field(repr=False)
    requests: list[str] = field(default_factory=list, repr=False)  # so far, as "PUT /bucket/key"

    def make_bucket(self) -> str:
        """Make an empty bucket and return its name."""
        name = f"lake-{uuid.uuid4()}"
        self.client().create_bucket(Bucket=name)
        return name

    def client(self) -> boto3.client:
        """Return another client, to look behind the storage's back."""
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=self.options["s3.access-key"],
            aws_secret_access_key=self.options["s3.secret-key"],
            region_name="us-east-1",
        )


@contextmanager
def running_s3() -> Iterator[S3Server]:
    """Run an emulator, which honours `If-None-Match`, on a free port."""
    put, one_at_a_time = S3Response._key_response_put, threading.Lock()
    requests: list[str] = []

    answer = DomainDispatcherApplication.__call__

    def noted(self: DomainDispatcherApplication, environ: dict[str, str], start_response: object) -> object:
        requests.append(f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}")
        return answer(self, environ, start_response)

    def atomic_put(self: S3Response, query: dict[str, object], key_name: str) -> object:
        with one_at_a_time:
            return put(self, query, key_name)

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    with (
        patch.object(S3Response, "_key_response_put", atomic_put),
        patch.object(DomainDispatcherApplication, "__call__", noted),
    ):
        server.start()
        try:
            host, port = server.get_host_and_port()
            endpoint = f"http://{host}:{port}"
            yield S3Server(endpoint, s3_options(endpoint), requests)
        finally:
            server.stop()


def s3_options(endpoint: str, access_key: str = ACCESS_KEY, secret_key: str = SECRET_KEY) -> dict[str, str]:
    """Return the catalog options that reach an endpoint."""
    return {
        "s3.endpoint": endpoint,
        "s3.access-key": access_key,
        "s3.secret-key": secret_key,
        "s3.region": "us-east-1",
        "s3.path.style.access": "true",
    }
