"""The ground of the tests: a Ray that nobody else on the network can reach."""

from __future__ import annotations

import ipaddress
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

import pytest
import ray.data

_LISTENS = "0A"  # the state of a socket, as the kernel writes it
Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.usefixtures("ray_session")
def test_every_process_of_ray_listens_on_loopback_alone() -> None:
    assert ray.data.range(4).map_batches(lambda batch: batch).materialize().count() == 4  # so there are workers
    found = [(name, address) for pid in _tree(os.getpid()) for name, address in _listening(pid)]
    assert {"gcs_server", "raylet"} <= {name for name, _ in found}
    assert [(name, str(address)) for name, address in found if not _is_loopback(address)] == []


def _tree(pid: int) -> Iterator[int]:
    yield pid
    children = [_text(task / "children") for task in Path(f"/proc/{pid}/task").glob("*")]
    for child in " ".join(children).split():
        yield from _tree(int(child))


def _listening(pid: int) -> Iterator[tuple[str, Address]]:
    """Yield the name of a process with each address at which it waits for connections."""
    name = _text(Path(f"/proc/{pid}/comm")).strip()
    own = {_target(descriptor) for descriptor in Path(f"/proc/{pid}/fd").glob("*")}
    for table in ("tcp", "tcp6"):
        for line in _text(Path(f"/proc/{pid}/net/{table}")).splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == _LISTENS and f"socket:[{inode}]" in own:
                yield name, _address(local.split(":")[0])


def _text(path: Path) -> str:
    """Return what a file of a process says; nothing where the process ended meanwhile."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return path.read_text()
    return ""


def _target(descriptor: Path) -> str:
    with suppress(FileNotFoundError):  # closed meanwhile
        return str(descriptor.readlink())
    return ""


def _address(text: str) -> Address:
    """Return an address that the kernel wrote: four bytes at a time, in the order of the machine."""
    words = [bytes.fromhex(text[at : at + 8]) for at in range(0, len(text), 8)]
    return ipaddress.ip_address(b"".join(int.from_bytes(word, sys.byteorder).to_bytes(4, "big") for word in words))


def _is_loopback(address: Address) -> bool:
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback
