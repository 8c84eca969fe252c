"""A Kafka broker on loopback, of the jars that `make target/kafka/.made` brings."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
BROKER = ROOT / "target" / "kafka" / "broker"
CONNECTOR = ROOT / "target" / "kafka" / "spark"
START_SECONDS_MAX = 180


@contextmanager
def kafka_broker(directory: Path, *, partitions: int) -> Iterator[str]:
    """Run a broker that is its own controller; a topic that somebody writes to is created. Yields its address."""
    port, controller = _free_ports(2)
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(directory / "log"),
        "num.partitions": str(partitions),
        "offsets.topic.replication.factor": "1",
    }
    directory.mkdir()
    properties = directory / "server.properties"
    properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    java = ["java", "-Xmx256m", "-cp", f"{BROKER}/*"]
    cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    formats = [*java, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(properties)]
    with (directory / "out").open("ab") as out:
        subprocess.run(formats, check=True, stdout=out, stderr=out)
        broker = subprocess.Popen([*java, "kafka.Kafka", str(properties)], stdout=out, stderr=out)
    try:
        limit = time.monotonic() + START_SECONDS_MAX
        while not _answers(port):
            assert broker.poll() is None, (directory / "out").read_text()[-4000:]
            assert time.monotonic() < limit, "the broker does not start"
            time.sleep(0.2)
        yield f"127.0.0.1:{port}"
    finally:
        os.kill(broker.pid, signal.SIGKILL)
        broker.wait()


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False
