"""HDFS over WebHDFS; a comment says why no library does it (the reply of RENAME, no Java)."""

from __future__ import annotations

import errno
import getpass
import json
import os
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import BinaryIO, cast
from urllib.parse import quote, urlencode, urlsplit

from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.storage.credentials import HDFS_ADDRESS, HDFS_USER
from lakewright.storage.object_storage import ObjectInput
from lakewright.storage.storage import FileInfo, Output

# ---- WebHDFS ---------------------------------------------------------------------------------------------------------
# The namenode answers about names itself; for bytes it names a datanode, which the client then asks. A namenode that
# is in standby or does not listen is passed over for the next address. Calls that only read are repeated when a
# connection is lost; calls that change something are not, because their effect is unknown.

ROOT = "/webhdfs/v1"
_TIMEOUT_SECONDS = 120
_ATTEMPTS_MAX = 5
_RETRY_PAUSE_SECONDS = 0.05  # before the second attempt; doubles with each further one
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
class HdfsResponse:
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

    def get(self, path: str, op: str, **query: object) -> HdfsResponse:
        """Ask for something; the bytes of a file come from a datanode. Repeated if a connection is lost."""
        for attempt in range(_ATTEMPTS_MAX):
            try:
                answer = self._at_namenode("GET", path, op, query)
                if answer.location is not None:
                    answer = _exchange("GET", answer.location)
            except ConnectionError as error:
                if attempt == _ATTEMPTS_MAX - 1:
                    raise self.unanswered_error(error, path) from error
                time.sleep(_RETRY_PAUSE_SECONDS * 2**attempt)
            else:
                return self.check_answer(answer, path)
        raise AssertionError

    def change(self, method: str, path: str, op: str, **query: object) -> HdfsResponse:
        """Change names, once."""
        try:
            answer = self._at_namenode(method, path, op, query)
        except ConnectionError as error:
            raise self.unanswered_error(error, path) from error
        return self.check_answer(answer, path)

    def open_upload(self, path: str) -> Upload:
        """Begin to write a new file; one that exists is a FileExistsError, now or when the upload is closed."""
        try:
            answer = self._at_namenode("PUT", path, "CREATE", {"overwrite": "false"})
            if answer.location is None:
                raise self.failure(answer, path)
            return Upload(self, path, answer.location)
        except ConnectionError as error:
            raise self.unanswered_error(error, path) from error

    def put(self, path: str, data: bytes) -> None:
        """Write a whole new file."""
        upload = self.open_upload(path)
        upload.send(memoryview(data))
        upload.close()

    def _at_namenode(self, method: str, path: str, op: str, query: Mapping[str, object]) -> HdfsResponse:
        """Return the answer of the first namenode that is active."""
        asked = urlencode({"op": op, "user.name": self.user, **query})
        refused: ConnectionError | None = None
        answer: HdfsResponse | None = None
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

    def check_answer(self, answer: HdfsResponse, path: str) -> HdfsResponse:
        """Return an answer that is a success; raise the error that any other one means."""
        if answer.status >= 300:  # noqa: PLR2004 - the first status that is no success
            raise self.failure(answer, path)
        return answer

    def failure(self, answer: HdfsResponse, path: str) -> Exception:
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

    def unanswered_error(self, error: ConnectionError, path: str) -> OSError:
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
            raise hdfs.unanswered_error(_connection_lost(error), path) from error

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
        self._hdfs.check_answer(answer, self._path)

    def abort(self) -> None:
        """Give up; what was sent may stay as a file."""
        self._connection.close()

    def _answered_early(self, error: Exception) -> Exception:
        """Return why a datanode stopped listening: it may have answered before all was sent."""
        try:
            answer = _answer(self._connection.getresponse())
        except (OSError, HTTPException):
            return self._hdfs.unanswered_error(_connection_lost(error), self._path)
        finally:
            self._connection.close()
        return self._hdfs.failure(answer, self._path)


def _exchange(method: str, url: str) -> HdfsResponse:
    """Send one request without a body; every failure of the connection is a ConnectionError."""
    connection, target = _connection(url)
    try:
        connection.request(method, target)
        return _answer(connection.getresponse())
    except ConnectionRefusedError:
        raise
    except (OSError, HTTPException) as error:
        raise _connection_lost(error) from error
    finally:
        connection.close()


def _connection_lost(error: Exception) -> ConnectionError:
    if isinstance(error, ConnectionError) and not isinstance(error, HTTPException):
        return error
    return ConnectionAbortedError(errno.ECONNABORTED, str(error) or type(error).__name__)


def _connection(url: str) -> tuple[HTTPConnection, str]:
    parts = urlsplit(url)
    connection = _CONNECTIONS[parts.scheme](parts.netloc, timeout=_TIMEOUT_SECONDS)
    return connection, f"{parts.path}?{parts.query}"


def _answer(response: HTTPResponse) -> HdfsResponse:
    location = response.getheader("Location") if response.status == _REDIRECT else None
    return HdfsResponse(response.status, response.read(), location)


def _exception(answer: HdfsResponse) -> tuple[str, str]:
    """Return the name and the first line of the exception that a server answers with, empty where there is none."""
    found = cast("dict[str, str]", answer.json().get("RemoteException") or {}) if answer.status >= 400 else {}  # noqa: PLR2004 - an error
    message = str(found.get("message", "")).partition("\n")[0][:_MESSAGE_CHARACTERS_MAX]
    return str(found.get("exception", "")), message


# ---- The storage -----------------------------------------------------------------------------------------------------
# `create` writes a temporary file beside its target and renames it: the namenode renames in one step, and refuses to
# if the target exists, so exactly one of any number of racing callers wins and a file under its final name is
# complete. If the answer to a rename is lost, the temporary file tells the outcome: its name is unique and no
# other process touches it, so once it is gone the rename took place.
#
# A call returns when the namenode has logged it and the datanodes have the bytes; they sync them to their disks where
# `dfs.datanode.synconclose` is set.

_PORT = 9870  # where a namenode speaks HTTP, unless it is told otherwise
_SMALL_BYTES = 1024 * 1024  # smaller writes are gathered
_RENAMES_MAX = 5
_CREATE_PAUSE_SECONDS = 0.05
_NAME_BYTES_MAX = 255


@dataclass(frozen=True, slots=True)
class HdfsStorage:
    """The storage of one HDFS, named by a URL without a path, such as `hdfs://namenode:8020`."""

    hdfs: WebHdfs

    @classmethod
    def of(cls, scheme: str, authority: str, options: Mapping[str, str]) -> HdfsStorage:
        """Return the storage that a location and options name.

        >>> HdfsStorage.of("hdfs", "nn:8020", {"hadoop.user.name": "ada"}).hdfs.namenodes
        ('http://nn:9870',)
        """
        given = next((options[name] for name in HDFS_ADDRESS if options.get(name)), "")
        addresses = [part.strip() for part in given.split(",") if part.strip()]
        if not addresses and not authority:
            raise InvalidInputError(
                f"'{scheme}:///' names no namenode: write {scheme}://host/path, or set the option {HDFS_ADDRESS[0]!r}",
                option=HDFS_ADDRESS[0],
            )
        host = authority.rpartition(":")[0] or authority
        if not addresses:
            addresses = [f"{host}:{_PORT}" if scheme == "hdfs" or ":" not in authority else authority]
        transport = "https" if scheme == "swebhdfs" else "http"
        namenodes = tuple(name if "://" in name else f"{transport}://{name}" for name in addresses)
        user = next((options[name] for name in HDFS_USER if options.get(name)), None)
        return cls(WebHdfs(f"{scheme}://{authority}", namenodes, user or _user()))

    @property
    def renames_atomically(self) -> bool:
        """True: the namenode renames a directory in one step."""
        return True

    @property
    def requests_at_once(self) -> int:
        """Enough to hide the latency of the namenode, which all clients share."""
        return 16

    def open_input(self, path: str, *, size: int | None = None, end_bytes: int = 0) -> BinaryIO:
        """Open a file for random access."""
        return cast("BinaryIO", ObjectInput(self, self._name(path), size=size, end_bytes=end_bytes))

    def open_output(self, path: str) -> Output:
        """Open a new file under its final name; an existing file is a FileExistsError."""
        return _HdfsOutput(self.hdfs, self._name(path))

    def read(self, path: str) -> bytes:
        """Return a whole file."""
        return self.hdfs.get(self._name(path), "OPEN").body

    def create(self, path: str, data: bytes) -> bool:
        """Put a whole file only where none exists. False means that another process was first."""
        target = self._name(path)
        if self._status(target) is not None:
            return False  # saves writing the temporary file; the rename below decides a race
        temporary = _temporary(target)
        try:
            self.hdfs.put(temporary, data)
            return self._rename_once(temporary, target)
        except BaseException:
            with suppress(OSError):
                self._delete(temporary)
            raise

    def replace(self, path: str, data: bytes, *, durable: bool = True) -> None:  # noqa: ARG002 - every file is durable
        """Put a whole file, replacing one that exists; readers see either the old bytes or the new."""
        target = self._name(path)
        temporary = _temporary(target)
        try:
            self.hdfs.put(temporary, data)
            self.hdfs.change("PUT", temporary, "RENAME", destination=target, renameoptions="OVERWRITE")
        except BaseException:
            with suppress(OSError):
                self._delete(temporary)
            raise

    def exists(self, path: str) -> bool:
        """Return whether a file exists at the path."""
        return self.size(path) is not None

    def size(self, path: str) -> int | None:
        """Return the size of a file, None where there is none."""
        status = self._status(self._name(path))
        return None if status is None or status["type"] != "FILE" else int(cast("int", status["length"]))

    def list(self, directory: str) -> Iterator[FileInfo]:
        """Yield the files directly inside a directory by name; nothing where it does not exist."""
        for path, status in self._entries(directory):
            if status["type"] == "FILE":
                modified = int(cast("int", status["modificationTime"]))
                yield FileInfo(path, int(cast("int", status["length"])), modified)

    def names(self, directory: str, *, after: str = "") -> Iterator[str]:  # noqa: ARG002 - one request lists them all
        """Yield the names of the files directly inside a directory, by name."""
        return (path.rpartition("/")[2] for path, status in self._entries(directory) if status["type"] == "FILE")

    def list_directories(self, directory: str) -> Iterator[str]:
        """Yield the paths of the directories directly inside a directory, by name."""
        for path, status in self._entries(directory):
            if status["type"] == "DIRECTORY":
                yield path

    def walk(self, directory: str) -> Iterator[FileInfo]:
        """Yield every file below a directory, never through a link."""
        yield from self.list(directory)
        for inner in self.list_directories(directory):
            yield from self.walk(inner)

    def make_directory(self, directory: str) -> None:
        """Make a directory and its parents; one that exists is fine."""
        self.hdfs.change("PUT", self._name(directory), "MKDIRS")

    def delete(self, path: str, *, durable: bool = False) -> None:  # noqa: ARG002 - every deletion is durable
        """Remove a file. It is no error if the file does not exist."""
        self._delete(self._name(path))

    def take(self, path: str) -> bytes | None:
        """Remove a file and return what it held, None where there was none; no other process gets or removes it."""
        target = self._name(path)
        temporary = _temporary(target)
        try:
            self.hdfs.change("PUT", target, "RENAME", destination=temporary, renameoptions="NONE")
        except FileNotFoundError:
            return None
        data = self.hdfs.get(temporary, "OPEN").body
        self._delete(temporary)
        return data

    def delete_directory(self, directory: str) -> None:
        """Remove a directory and everything below it; InvalidInputError for the root."""
        self.hdfs.change("DELETE", self._name(directory), "DELETE", recursive="true")

    def prune_directory(self, directory: str, *, before_millis: int | None = None) -> None:
        """Remove a directory and those below it, except directories that hold a file."""
        if before_millis is not None:
            status = self._status(self._name(directory))
            if status is None or int(cast("int", status["modificationTime"])) >= before_millis:
                return
        for inner in self.list_directories(directory):
            self.prune_directory(inner, before_millis=before_millis)
        with suppress(OSError):  # it holds something, or another process removed it
            self._delete(self._name(directory))

    def rename_directory(self, source: str, target: str) -> None:
        """Move a directory in one step; a target that exists is a FileExistsError, even an empty one."""
        self.hdfs.change("PUT", self._name(source), "RENAME", destination=self._name(target), renameoptions="NONE")

    def link(self, source: str, target: str) -> None:
        """Raise UnsupportedError: a file of HDFS has one name."""
        raise UnsupportedError(
            f"{source} cannot get the second name {target}: HDFS must copy a file to give it one", path=source
        )

    def identity(self, path: str) -> str | None:  # noqa: ARG002 - the protocol's signature
        """Return None: a file has one name."""
        return None

    def get_tail(self, name: str, length: int, size: int | None = None) -> tuple[int, bytes]:  # noqa: ARG002 - it is asked
        """Return the size of a file and its last bytes, `length` of them or all."""
        status = self._status(name)
        if status is None or status["type"] != "FILE":
            raise FileNotFoundError(errno.ENOENT, "no such file", self.path(name))
        found = int(cast("int", status["length"]))
        return found, self.get_range(name, max(0, found - length), found)

    def get_range(self, name: str, start: int, end: int) -> bytes:
        """Return the bytes from `start` up to but not including `end`."""
        if end <= start:
            return b""
        data = self.hdfs.get(name, "OPEN", offset=start, length=end - start).body
        if len(data) != end - start:
            raise OSError(errno.EIO, f"HDFS gave {len(data)} of {end - start} bytes", self.path(name))
        return data

    def path(self, name: str) -> str:
        """Return the full location of a name."""
        return f"{self.hdfs.url}{name}"

    def _name(self, path: str) -> str:
        """Return the name of a location inside HDFS."""
        name = path.removeprefix(self.hdfs.url)
        if name == path or not name.startswith("/"):
            raise UnsupportedError(
                f"{path!r} lies outside {self.hdfs.url}, the only HDFS this table can reach", path=path
            )
        name = name.rstrip("/")
        if not name or not {".", "..", ""}.isdisjoint(name[1:].split("/")):
            raise InvalidInputError(f"{path!r} names no file of {self.hdfs.url}", path=path)
        return name

    def _status(self, name: str) -> dict[str, object] | None:
        try:
            answer = self.hdfs.get(name, "GETFILESTATUS").json()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return cast("dict[str, object]", answer["FileStatus"])

    def _entries(self, directory: str) -> Iterator[tuple[str, dict[str, object]]]:
        """Yield the paths and the facts of what is directly inside a directory, by name."""
        is_root = directory.rstrip("/") == self.hdfs.url
        name = "" if is_root else self._name(directory)
        try:
            answer = self.hdfs.get(name or "/", "LISTSTATUS").json()
        except (FileNotFoundError, NotADirectoryError):
            return
        found = cast("dict[str, dict[str, list[dict[str, object]]]]", answer)["FileStatuses"]["FileStatus"]
        for status in sorted(found, key=lambda status: str(status["pathSuffix"])):
            if status["pathSuffix"]:  # a file lists itself, under no name
                yield self.path(f"{name}/{status['pathSuffix']}"), status

    def _delete(self, name: str) -> None:
        self.hdfs.change("DELETE", name, "DELETE", recursive="false")

    def _rename_once(self, temporary: str, target: str) -> bool:
        """Give a file its final name if no other file has it; the temporary name is free afterwards."""
        for attempt in range(_RENAMES_MAX):
            try:
                self.hdfs.change("PUT", temporary, "RENAME", destination=target, renameoptions="NONE")
            except FileExistsError:
                if attempt and self._status(temporary) is None:
                    return True  # an earlier request whose answer was lost
                self._delete(temporary)
                return False
            except FileNotFoundError:
                if attempt:
                    return True
                raise
            except OSError as error:
                if error.errno != errno.EIO or attempt == _RENAMES_MAX - 1:
                    raise
                time.sleep(_CREATE_PAUSE_SECONDS * 2**attempt)
                if self._status(temporary) is None:
                    return True
            else:
                return True
        raise AssertionError


class _HdfsOutput:
    """A file being written: small writes are gathered, and nothing is sent before there is enough."""

    def __init__(self, hdfs: WebHdfs, name: str) -> None:
        self._hdfs = hdfs
        self._name = name
        self._pending = bytearray()
        self._upload: Upload | None = None
        self._written = 0
        self._closed = self._complete = False

    @property
    def closed(self) -> bool:
        """Return whether `close` or `discard` was called."""
        return self._closed

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: bytes, /) -> int:
        """Append bytes, or any object with a buffer of bytes."""
        if self._closed:
            raise ValueError(f"{self._hdfs.url}{self._name} is closed")
        view = memoryview(data).cast("B")
        self._pending += view
        if len(self._pending) >= _SMALL_BYTES:
            self._send()
        self._written += view.nbytes
        return view.nbytes

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self._written

    def flush(self) -> None:
        """Do nothing: bytes count only once the file is closed."""

    def close(self) -> None:
        """Make the file complete and visible."""
        if self._closed:
            return
        upload = self._send()
        self._closed = True
        try:
            upload.close()
        except FileExistsError:
            self._upload = None  # the file is another one's
            raise
        self._complete = True

    def discard(self) -> None:
        """Abandon the file: nothing stays at its path. After a `close` that returned, this does nothing."""
        self._closed = True
        self._pending.clear()
        upload, self._upload = self._upload, None
        if self._complete or upload is None:
            return
        upload.abort()
        self._hdfs.change("DELETE", self._name, "DELETE", recursive="false")

    def _send(self) -> Upload:
        if self._upload is None:
            self._upload = self._hdfs.open_upload(self._name)
        pending, self._pending = self._pending, bytearray()
        try:
            self._upload.send(memoryview(pending))
        except FileExistsError:
            self._upload = None
            raise
        return self._upload


def _temporary(name: str) -> str:
    """Return a name beside another one that no other process uses."""
    directory, _, last = name.rpartition("/")
    token = uuid.uuid4()
    whole = f".{last}.{token}.tmp"
    return f"{directory}/{whole if len(os.fsencode(whole)) <= _NAME_BYTES_MAX else f'.{token}.tmp'}"


def _user() -> str:
    """Return the user that Hadoop takes without Kerberos: the variable, else who runs this process."""
    return os.environ.get("HADOOP_USER_NAME") or getpass.getuser()
