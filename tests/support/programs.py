"""Server programs that tests run on loopback: started on a free port, awaited, and ended with the test."""

from __future__ import annotations

import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

_START_SECONDS_MAX = 120
_STOP_SECONDS_MAX = 20
_SERVER_ERROR = 500


def free_port() -> int:
    """Return a port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def running(
    command: Sequence[str | Path], url: str, log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[None]:
    """Run a server until the block is left; it is ready once it answers the URL without an error of its own."""
    with log.open("wb") as output:
        server = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        _await(server, url, log)
        yield
    finally:
        server.terminate()
        with suppress(subprocess.TimeoutExpired):
            server.wait(_STOP_SECONDS_MAX)
        server.kill()
        server.wait()


def _await(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS_MAX
    while time.monotonic() < deadline:
        assert server.poll() is None, f"the server ended: {log.read_text()}"
        try:
            with urllib.request.urlopen(url, timeout=1):  # noqa: S310 - loopback
                return
        except urllib.error.HTTPError as error:
            if error.code < _SERVER_ERROR:
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            pass
        time.sleep(0.1)
    raise AssertionError(f"the server does not answer: {log.read_text()}")
