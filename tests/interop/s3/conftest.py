"""A real S3 server, MinIO, on loopback: built by `make nightly PART=interop-s3`, started here, gone afterwards."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.programs import free_port, running
from support.s3 import S3Server, s3_options

PROGRAM = Path(__file__).parents[3] / "target" / "minio" / "bin" / "minio"


@pytest.fixture(scope="session")
def minio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """Run one server for all tests; its keys are made up for this run."""
    assert PROGRAM.exists(), f"{PROGRAM} is missing: run `make nightly PART=interop-s3`, which builds it"
    home = tmp_path_factory.mktemp("minio")
    user, password = secrets.token_hex(8), secrets.token_hex(20)
    address = f"127.0.0.1:{free_port()}"
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("MINIO_", "AWS_"))},
        "MINIO_ROOT_USER": user,
        "MINIO_ROOT_PASSWORD": password,
        "MINIO_BROWSER": "off",
        "MINIO_UPDATE": "off",
        "HOME": str(home),
    }
    arguments = ["server", "--address", address, "--certs-dir", str(home / "certs"), str(home / "data")]
    with running([PROGRAM, *arguments], f"http://{address}/minio/health/live", home / "log", environment):
        yield S3Server(f"http://{address}", s3_options(f"http://{address}", user, password))


@pytest.fixture
def warehouse(minio: S3Server) -> dict[str, str]:
    """Return the options of a catalog in a bucket of its own."""
    return {**minio.options, "warehouse": f"s3://{minio.make_bucket()}/warehouse"}
