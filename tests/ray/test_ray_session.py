"""The ground of the tests: a Ray that nobody else on the network can reach."""

from __future__ import annotations

import ipaddress
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import ray.data

_LISTENS = "0A"  # the state of a socket, as the kernel writes it


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.usefixtures("ray_session")
def test_every_process_of_ray_listens_on_loopback_alone() -> None:
    assert ray.data.range(4).map_batches(lambda batch: batch).materialize().count() == 4  # so there are workers
    processes = list(_tree(os.getpid()))
    names = {Path(f"/proc/{pid}/comm").read_text().strip() for pid in processes}
    assert {"gcs_server", "raylet"} <= names
    listening = [address for pid in processes for address in _listening(pid)]
    assert len(listening) >= 3
    assert [str(address) for address in listening if not _is_loopback(address)] == []


def _tree(pid: int) -> Iterator[int]:
    yield pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield from _tree(int(child))


def _listening(pid: int) -> Iterator[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """Yield the addresses at which a process waits for connections."""
    own = set(_sockets(pid))
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == _LISTENS and f"socket:[{inode}]" in own:
                words = bytes.fromhex(local.split(":")[0])  # in the byte order of the machine, four bytes at a time
                yield ipaddress.ip_address(
                    b"".join(
                        words[at : at + 4][:: -1 if sys.byteorder == "little" else 1] for at in range(0, len(words), 4)
                    )
                )


def _sockets(pid: int) -> Iterator[str]:
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            yield str(descriptor.readlink())


def _is_loopback(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback
