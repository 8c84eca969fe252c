"""A real S3 server, MinIO, on loopback: built by `make interop-s3`, started here, gone afterwards."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from support.s3 import S3Server, s3_options

PROGRAM = Path(__file__).parents[3] / "target" / "minio" / "bin" / "minio"
_START_SECONDS_MAX = 60
_STOP_SECONDS_MAX = 20


@pytest.fixture(scope="session")
def minio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """Run one server for all tests; its keys are made up for this run."""
    assert PROGRAM.exists(), f"{PROGRAM} is missing: run `make interop-s3`, which builds it"
    home = tmp_path_factory.mktemp("minio")
    user, password = secrets.token_hex(8), secrets.token_hex(20)
    address = f"127.0.0.1:{_free_port()}"
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("MINIO_", "AWS_"))},
        "MINIO_ROOT_USER": user,
        "MINIO_ROOT_PASSWORD": password,
        "MINIO_BROWSER": "off",
        "MINIO_UPDATE": "off",
        "HOME": str(home),
    }
    arguments = ["server", "--address", address, "--certs-dir", str(home / "certs"), str(home / "data")]
    with (home / "log").open("wb") as log:
        server = subprocess.Popen([PROGRAM, *arguments], env=environment, stdout=log, stderr=subprocess.STDOUT)
    try:
        _await(server, f"http://{address}/minio/health/live", home / "log")
        yield S3Server(f"http://{address}", s3_options(f"http://{address}", user, password))
    finally:
        server.terminate()
        with suppress(subprocess.TimeoutExpired):
            server.wait(_STOP_SECONDS_MAX)
        server.kill()
        server.wait()


@pytest.fixture
def warehouse(minio: S3Server) -> dict[str, str]:
    """Return the options of a catalog in a bucket of its own."""
    return {**minio.options, "warehouse": f"s3://{minio.make_bucket()}/warehouse"}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _await(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    """Wait until the server answers."""
    deadline = time.monotonic() + _START_SECONDS_MAX
    while time.monotonic() < deadline:
        assert server.poll() is None, f"MinIO ended: {log.read_text()}"
        with suppress(urllib.error.URLError, ConnectionError), urllib.request.urlopen(url, timeout=1):  # noqa: S310 - loopback
            return
        time.sleep(0.1)
    raise AssertionError(f"MinIO does not answer: {log.read_text()}")
