"""The calls on one HDFS over HTTP (WebHDFS), without Java: paths and bytes in, answers or OSErrors out.

The namenode answers about names itself; for bytes it names a datanode, which the client then asks. A namenode that is
in standby or does not listen is passed over for the next address. Calls that only read are repeated when a connection
is lost; calls that change something are not, because their effect is unknown.
"""

from __future__ import annotations

import errno
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import cast
from urllib.parse import quote, urlencode, urlsplit

from lakewright.errors import UnsupportedError

ROOT = "/webhdfs/v1"
_TIMEOUT_SECONDS = 120
_ATTEMPTS_MAX = 5
_PAUSE_SECONDS = 0.05  # before the second attempt; doubles with each further one
_MESSAGE_CHARACTERS_MAX = 300
_REDIRECT, _UNAUTHORIZED = 307, 401
_STANDBY = "StandbyException"
_CONNECTIONS = {"http": HTTPConnection, "https": HTTPSConnection}
_ERRORS = {
    "FileNotFoundException": errno.ENOENT,
    "FileAlreadyExistsException": errno.EEXIST,
    "ParentNotDirectoryException": errno.ENOTDIR,
    "PathIsNotEmptyDirectoryException": errno.ENOTEMPTY,
    "AccessControlException": errno.EACCES,
    "SecurityException": errno.EACCES,
    "NSQuotaExceededException": errno.EDQUOT,
    "DSQuotaExceededException": errno.EDQUOT,
    "QuotaByStorageTypeExceededException": errno.EDQUOT,
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server says to one request."""

    status: int
    body: bytes
    location: str | None  # where it sends the client for bytes

    def json(self) -> dict[str, object]:
        """Return the body as JSON, empty where it is none."""
        try:
            found = json.loads(self.body)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}


@dataclass(frozen=True, slots=True)
class WebHdfs:
    """The calls on one HDFS: where its namenodes listen, as `http://host:port`, and the user whose rights count."""

    url: str
    namenodes: tuple[str, ...]
    user: str

    def get(self, path: str, op: str, **query: object) -> Answer:
        """Ask for something; the bytes of a file come from a datanode. Repeated if a connection is lost."""
        for attempt in range(_ATTEMPTS_MAX):
            try:
                answer = self._at_namenode("GET", path, op, query)
                if answer.location is not None:
                    answer = _exchange("GET", answer.location)
            except ConnectionError as error:
                if attempt == _ATTEMPTS_MAX - 1:
                    raise self.unanswered(error, path) from error
                time.sleep(_PAUSE_SECONDS * 2**attempt)
            else:
                return self.checked(answer, path)
        raise AssertionError

    def change(self, method: str, path: str, op: str, **query: object) -> Answer:
        """Change names, once."""
        try:
            answer = self._at_namenode(method, path, op, query)
        except ConnectionError as error:
            raise self.unanswered(error, path) from error
        return self.checked(answer, path)

    def open_upload(self, path: str) -> Upload:
        """Begin to write a new file; one that exists is a FileExistsError, now or when the upload is closed."""
        try:
            answer = self._at_namenode("PUT", path, "CREATE", {"overwrite": "false"})
            if answer.location is None:
                raise self.failure(answer, path)
            return Upload(self, path, answer.location)
        except ConnectionError as error:
            raise self.unanswered(error, path) from error

    def put(self, path: str, data: bytes) -> None:
        """Write a whole new file."""
        upload = self.open_upload(path)
        upload.send(memoryview(data))
        upload.close()

    def _at_namenode(self, method: str, path: str, op: str, query: Mapping[str, object]) -> Answer:
        """Return the answer of the first namenode that is active."""
        asked = urlencode({"op": op, "user.name": self.user, **query})
        refused: ConnectionError | None = None
        answer: Answer | None = None
        for address in self.namenodes:
            try:
                answer = _exchange(method, f"{address}{ROOT}{quote(path)}?{asked}")
            except ConnectionRefusedError as error:  # nothing was sent
                refused = error
                continue
            if _exception(answer)[0] != _STANDBY:
                return answer
        if answer is not None:
            return answer
        raise refused or ConnectionRefusedError(errno.ECONNREFUSED, "no namenode is known")

    def checked(self, answer: Answer, path: str) -> Answer:
        """Return an answer that is a success; raise the error that any other one means."""
        if answer.status >= 300:  # noqa: PLR2004 - the first status that is no success
            raise self.failure(answer, path)
        return answer

    def failure(self, answer: Answer, path: str) -> Exception:
        """Return the error for an answer that is no success."""
        name, message = _exception(answer)
        place = f"{self.url}{path}"
        number = _ERRORS.get(name, errno.EIO)
        if answer.status == _UNAUTHORIZED and not name:
            return UnsupportedError(
                f"{self.url} asks for Kerberos, which lakewright does not speak: use a gateway without it, or a copy "
                "of the table in another store",
                url=self.url,
            )
        if number == errno.EACCES:
            message = f"HDFS refuses access to the user {self.user!r} ({message}): set 'hadoop.user.name' or the rights"
        if name == _STANDBY:
            message = f"no namenode of {', '.join(self.namenodes)} is active: name all in 'dfs.namenode.http-address'"
        if number == errno.ENOENT:
            message = "no such file"
        if not name:
            addresses = ", ".join(self.namenodes)
            message = f"no WebHDFS at {addresses} (status {answer.status}): check 'dfs.namenode.http-address'"
        return OSError(number, message, place)

    def unanswered(self, error: ConnectionError, path: str) -> OSError:
        """Return the error for a call without an answer."""
        addresses = ", ".join(self.namenodes)
        reason = f"HDFS does not answer at {addresses} ({error.strerror or type(error).__name__})"
        remedy = "check 'dfs.namenode.http-address' and the network, to its datanodes too"
        return OSError(errno.EIO, f"{reason}: {remedy}", f"{self.url}{path}")


class Upload:
    """The bytes of a file on their way to a datanode, in chunks."""

    def __init__(self, hdfs: WebHdfs, path: str, location: str) -> None:
        self._hdfs, self._path = hdfs, path
        self._connection, target = _connection(location)
        try:
            self._connection.putrequest("PUT", target, skip_accept_encoding=True)
            self._connection.putheader("Content-Type", "application/octet-stream")
            self._connection.putheader("Transfer-Encoding", "chunked")
            self._connection.endheaders()
        except (OSError, HTTPException) as error:
            self._connection.close()
            raise hdfs.unanswered(_lost(error), path) from error

    def send(self, view: memoryview) -> None:
        """Send bytes."""
        if not view.nbytes:
            return
        try:
            self._connection.send(b"%x\r\n" % view.nbytes)
            self._connection.send(view)
            self._connection.send(b"\r\n")
        except (OSError, HTTPException) as error:
            raise self._answered_early(error) from error

    def close(self) -> None:
        """End the file and wait until it is complete."""
        try:
            self._connection.send(b"0\r\n\r\n")
            answer = _answer(self._connection.getresponse())
        except (OSError, HTTPException) as error:
            raise self._answered_early(error) from error
        finally:
            self._connection.close()
        self._hdfs.checked(answer, self._path)

    def abort(self) -> None:
        """Give up; what was sent may stay as a file."""
        self._connection.close()

    def _answered_early(self, error: Exception) -> Exception:
        """Return why a datanode stopped listening: it may have answered before all was sent."""
        try:
            answer = _answer(self._connection.getresponse())
        except (OSError, HTTPException):
            return self._hdfs.unanswered(_lost(error), self._path)
        finally:
            self._connection.close()
        return self._hdfs.failure(answer, self._path)


def _exchange(method: str, url: str) -> Answer:
    """Send one request without a body; every failure of the connection is a ConnectionError."""
    connection, target = _connection(url)
    try:
        connection.request(method, target)
        return _answer(connection.getresponse())
    except ConnectionRefusedError:
        raise
    except (OSError, HTTPException) as error:
        raise _lost(error) from error
    finally:
        connection.close()


def _lost(error: Exception) -> ConnectionError:
    if isinstance(error, ConnectionError) and not isinstance(error, HTTPException):
        return error
    return ConnectionAbortedError(errno.ECONNABORTED, str(error) or type(error).__name__)


def _connection(url: str) -> tuple[HTTPConnection, str]:
    parts = urlsplit(url)
    connection = _CONNECTIONS[parts.scheme](parts.netloc, timeout=_TIMEOUT_SECONDS)
    return connection, f"{parts.path}?{parts.query}"


def _answer(response: HTTPResponse) -> Answer:
    location = response.getheader("Location") if response.status == _REDIRECT else None
    return Answer(response.status, response.read(), location)


def _exception(answer: Answer) -> tuple[str, str]:
    """Return the name and the first line of the exception that a server answers with, empty where there is none."""
    found = cast("dict[str, str]", answer.json().get("RemoteException") or {}) if answer.status >= 400 else {}  # noqa: PLR2004 - an error
    message = str(found.get("message", "")).partition("\n")[0][:_MESSAGE_CHARACTERS_MAX]
    return str(found.get("exception", "")), message
