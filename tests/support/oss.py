"""A store on loopback that answers as Alibaba's OSS documents it where that is not S3: the S3 emulator behind a front.

It is ours, made from what OSS documents and what its users report; no real OSS was asked. `If-None-Match` on a put is
not implemented, `x-oss-forbid-overwrite` is, unless the bucket keeps versions, a deletion of several objects must carry
`Content-MD5`, and a range that is not inside the object gives the whole object.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from lakewright.storage.object import ObjectStorage
from support.s3 import S3Server
from support.store_fronts import Answer, Front, serving

SECRET = "oss-secret-key"  # noqa: S105 - the emulator takes any


class OssFront(Front):
    """Turns what OSS does differently into requests of S3."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.keeps_versions = False
        self.refused: set[str] = set()  # methods that the keys have no right to
        self._puts = threading.Lock()

    def answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Return the answer of OSS to a request."""
        lower = {name.lower(): value for name, value in headers.items()}
        if method in self.refused:
            return _error(403, "AccessDenied")
        if method == "PUT" and "if-none-match" in lower:
            return _error(501, "NotImplemented")
        if method == "POST" and path.endswith("?delete") and "content-md5" not in lower:
            return _error(400, "MissingArgument")
        if method == "PUT" and lower.get("x-oss-forbid-overwrite") == "true" and not self.keeps_versions:
            with self._puts:
                exists = self._head(path, lower).status == 200
                return _error(409, "FileAlreadyExists") if exists else self.passed_on(method, path, headers, body)
        if "range" in lower and not self._fits(path, lower):
            headers = {name: value for name, value in headers.items() if name.lower() != "range"}
        return self.passed_on(method, path, headers, body)

    def _fits(self, path: str, lower: Mapping[str, str]) -> bool:
        found = self._head(path, lower).headers
        size = int(next((value for name, value in found.items() if name.lower() == "content-length"), 0))
        first, _, last = lower["range"].removeprefix("bytes=").partition("-")
        return int(last) < size if first else int(last) <= size

    def _head(self, path: str, lower: Mapping[str, str]) -> Answer:
        return self.passed_on("HEAD", path, {"Authorization": lower["authorization"]}, b"")


@dataclass(frozen=True)
class OssServer:
    """A running store."""

    front: OssFront
    behind: S3Server
    options: dict[str, str] = field(repr=False)

    def new_bucket(self) -> str:
        """Make an empty bucket and return its URL."""
        return f"oss://{self.behind.make_bucket()}"

    def storage(self) -> ObjectStorage:
        """Return the storage of a new bucket."""
        return ObjectStorage(self.new_bucket(), self.options)


@contextmanager
def running_oss(behind: S3Server) -> Iterator[OssServer]:
    """Run the front of an S3 emulator until the block is left."""
    front = OssFront(int(behind.endpoint.rpartition(":")[2]))
    options = {
        "fs.oss.endpoint": front.endpoint,
        "fs.oss.accessKeyId": "oss-access-key",
        "fs.oss.accessKeySecret": SECRET,
    }
    with serving(front):
        yield OssServer(front, behind, options)


def _error(status: int, code: str) -> Answer:
    body = f"<?xml version='1.0' encoding='UTF-8'?><Error><Code>{code}</Code><Message>{code}</Message></Error>"
    return Answer(status, {"Content-Type": "application/xml"}, body.encode())
