"""The public emulators of stores, on loopback, run while a block lasts; the part interop-stores installs them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path

from lakewright.storage.object_storage import ObjectStorage
from support.programs import free_port, running
from support.store_fronts import Front, GcsFront, serving

HOME = Path(__file__).parents[2] / "target" / "stores"
FAKE_GCS = HOME / "bin" / "fake-gcs-server"
AZURITE = HOME / "azurite" / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"


@dataclass(frozen=True)
class Store:
    """The emulator of a store, behind a front that can lose answers."""

    scheme: str
    front: Front
    options: dict[str, str] = field(repr=False)
    secret_key: str
    make_container: Callable[[str], None]

    def new_container(self) -> str:
        """Make an empty container and return its URL."""
        name = f"lake-{uuid.uuid4()}"
        self.make_container(name)
        return f"{self.scheme}://{name}"

    def storage(self) -> ObjectStorage:
        """Return the storage of a new container."""
        return ObjectStorage(self.new_container(), self.options)


@contextmanager
def running_gcs(log: Path) -> Iterator[Store]:
    """Run fake-gcs-server with all of its objects in memory."""
    assert FAKE_GCS.exists(), f"{FAKE_GCS} is missing: run `make nightly PART=interop-stores`, which builds it"
    port = free_port()
    address = f"127.0.0.1:{port}"
    command: list[str | Path] = [FAKE_GCS, "-scheme", "http", "-host", "127.0.0.1", "-port", str(port)]
    command += ["-backend", "memory", "-public-host", address, "-log-level", "warn"]
    front = GcsFront(port)

    def make_bucket(name: str) -> None:
        body = json.dumps({"name": name}).encode()
        _ask(f"http://{address}/storage/v1/b?project=test", body, {"Content-Type": "application/json"})

    account = {"gcs_base_url": front.endpoint, "disable_oauth": True, "client_email": "", "private_key": ""}
    account["private_key_id"] = secret = secrets.token_hex(8)
    options = {"google_service_account_key": json.dumps(account), "allow_http": "true"}
    url = f"http://{address}/_internal/healthcheck"
    with running(command, url, log), serving(front):
        yield Store("gs", front, options, secret, make_bucket)


@contextmanager
def running_azure(log: Path) -> Iterator[Store]:
    """Run Azurite with all of its blobs in memory; its account and key are made up for this run."""
    assert AZURITE.exists(), f"{AZURITE} is missing: run `make nightly PART=interop-stores`, which installs it"
    port = free_port()
    account, key = "lakewright", base64.b64encode(secrets.token_bytes(64)).decode()
    command: list[str | Path] = [
        "node",
        AZURITE,
        "--blobHost",
        "127.0.0.1",
        "--blobPort",
        str(port),
        "--inMemoryPersistence",
    ]
    command += ["--skipApiVersionCheck", "--disableTelemetry", "--silent"]
    front = Front(port)
    options = {
        "adls.account-name": account,
        "adls.account-key": key,
        "adls.endpoint": f"{front.endpoint}/{account}",
    }
    environment = {"AZURITE_ACCOUNTS": f"{account}:{key}", "PATH": "/usr/local/bin:/usr/bin:/bin"}
    with running(command, f"http://127.0.0.1:{port}/", log, environment), serving(front):
        yield Store(
            "az",
            front,
            options,
            key,
            lambda name: _make_azure_container(f"http://127.0.0.1:{port}", account, key, name),
        )


def _ask(url: str, body: bytes | None, headers: dict[str, str], method: str = "POST") -> None:
    request = urllib.request.Request(url, body, headers, method=method)  # noqa: S310 - loopback
    with urllib.request.urlopen(request, timeout=10):  # noqa: S310
        pass


def _make_azure_container(server: str, account: str, key: str, name: str) -> None:
    """Send the one request that the storage never makes, signed with the key of the account."""
    date = formatdate(usegmt=True)
    headers = {"x-ms-date": date, "x-ms-version": "2021-08-06", "Content-Length": "0"}
    signed = (
        f"PUT{12 * chr(10)}x-ms-date:{date}\nx-ms-version:2021-08-06\n/{account}/{account}/{name}\nrestype:container"
    )
    signature = base64.b64encode(hmac.new(base64.b64decode(key), signed.encode(), hashlib.sha256).digest()).decode()
    headers["Authorization"] = f"SharedKey {account}:{signature}"
    _ask(f"{server}/{account}/{name}?restype=container", None, headers, "PUT")
