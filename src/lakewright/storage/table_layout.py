"""Paths of all files of a table.

All paths are full paths below a root. Every name is checked to be one path component, so a path never leaves its
directory. A bad name from a caller is an InvalidInputError, one from a file a CorruptTableError. A file that
a manifest places outside the table is accepted only if the table's options name its directory: a damaged manifest
cannot make a reader open any file.

Schemas, snapshots, tags, changelogs and consumers belong to a branch; manifests, index files, statistics and data are
shared by all branches and are under the root.

The values of a partition cannot be read from the name of its directory: null, empty and blank text share one directory,
and dates may be written as numbers. The values are in the partition row of the manifest; the name only says where the
files are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache

from lakewright.errors import CorruptTableError, InvalidInputError, UnsupportedError
from lakewright.spec.external_paths import ExternalPaths
from lakewright.spec.manifest import DataFile, IndexFile
from lakewright.spec.scalars import clock_text, date_text, to_text
from lakewright.spec.table_schema import POSTPONE
from lakewright.spec.types import AtomicType, DataField, DataType, Value

MAIN_BRANCH = "main"
NAME_BYTES_MAX = 255

# Neither separator of any platform, no control character, no half of a surrogate pair.
_COMPONENT = re.compile(r"[^/\\\x00-\x1f\x7f\ud800-\udfff]+")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,18}")
# Prefix and suffix of the directory or file of a given name: with them, the name must fit into one component.
_AFFIXES = {"database": ("", ".db"), "table": ("", ""), "branch": ("branch-", ""), "tag": ("tag-", "")}

_SPECIAL = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{}\[\]^]")
# The characters that the format counts as blank; no-break spaces are not among them.
_BLANK = re.compile("[\t-\r\x1c-\x20\u1680\u2000-\u2006\u2008-\u200a\u2028\u2029\u205f\u3000]*")
_SECOND = 10**9
_DAY_SECONDS = 86_400


def check_file_name(name: str, *, origin: str | None = None) -> str:
    """Return a name after a check that it is one path component; `origin` is the file it was read from, if any.

    >>> check_file_name("data-1.parquet")
    'data-1.parquet'
    >>> check_file_name("../etc/passwd", origin="manifest/manifest-1")
    Traceback (most recent call last):
    ...
    lakewright.errors.CorruptTableError: '../etc/passwd' cannot be a file name: it contains a separator or control \
character (found in manifest/manifest-1)
    """
    why = _objection(name)
    if why is None:
        return name
    message = f"{name!r} cannot be a file name: it {why}"
    if origin is None:
        raise InvalidInputError(message, name=name)
    raise CorruptTableError(f"{message} (found in {origin})", path=origin, name=name)


def check_name(kind: str, name: str) -> str:
    """Return the name of a `database`, `table`, `branch` or `tag` after a check that it can name a directory or file.

    >>> check_name("branch", "dev")
    'dev'
    """
    prefix, suffix = _AFFIXES[kind]
    if not isinstance(name, str) or not name.strip():
        raise InvalidInputError(f"a {kind} needs a name that is not blank, not {name!r}", name=name, kind=kind)
    why = _objection(name) or _objection(f"{prefix}{name}{suffix}")
    if why is not None:
        raise InvalidInputError(f"{name!r} cannot name a {kind}: it {why}", name=name, kind=kind)
    if kind == "branch" and name == MAIN_BRANCH:
        raise InvalidInputError(f"{name!r} is the table itself: choose another branch name", name=name, kind=kind)
    if kind == "branch" and name.isdecimal():
        raise InvalidInputError(f"a branch name cannot be all digits: {name!r}", name=name, kind=kind)
    return name


def database_directory(warehouse: str, database: str) -> str:
    """Return where a database is in a warehouse.

    >>> database_directory("/lake", "sales")
    '/lake/sales.db'
    """
    return f"{warehouse.rstrip('/')}/{check_name('database', database)}.db"


def parse_numbered_names(names: Iterable[str], prefix: str) -> list[int]:
    """Return, in order, the numbers of the names that are exactly a prefix and a decimal number.

    >>> parse_numbered_names(["snapshot-12", "snapshot-9", ".snapshot-10.x.tmp", "LATEST"], "snapshot-")
    [9, 12]
    """
    tails = (name[len(prefix) :] for name in names if name.startswith(prefix))
    return sorted(int(tail) for tail in tails if _NUMBER.fullmatch(tail))


@dataclass(frozen=True, slots=True)
class Layout:
    """The paths of one table as one of its branches sees them.

    >>> Layout("/lake/sales.db/orders").snapshot_file(7)
    '/lake/sales.db/orders/snapshot/snapshot-7'
    >>> Layout("/lake/sales.db/orders", branch="dev").snapshot_file(7)
    '/lake/sales.db/orders/branch/branch-dev/snapshot/snapshot-7'
    """

    root: str
    branch: str = MAIN_BRANCH
    data_directory: str | None = None  # option data-file.path-directory
    index_in_data_directory: bool = False  # option index-file-in-data-file-dir
    external_directories: tuple[str, ...] = ()  # option data-file.external-paths

    def __post_init__(self) -> None:
        if self.branch != MAIN_BRANCH:
            check_name("branch", self.branch)
        for component in (self.data_directory or "").strip("/").split("/") if self.data_directory else ():
            check_file_name(component)

    def for_branch(self, name: str) -> Layout:
        """Return the same table as another branch sees it."""
        return replace(self, branch=name)

    # What belongs to the branch.

    @property
    def branch_root(self) -> str:
        """The directory of the branch; of `main`, the table's own."""
        return self.root if self.branch == MAIN_BRANCH else self.branch_directory(self.branch)

    @property
    def schema_directory(self) -> str:
        """Where the schema files are."""
        return f"{self.branch_root}/schema"

    @property
    def snapshot_directory(self) -> str:
        """Where the snapshot files and their two hints are."""
        return f"{self.branch_root}/snapshot"

    @property
    def tag_directory(self) -> str:
        """Where the tags are."""
        return f"{self.branch_root}/tag"

    @property
    def changelog_directory(self) -> str:
        """Where the expired snapshots are that are kept for their changelog."""
        return f"{self.branch_root}/changelog"

    @property
    def job_directory(self) -> str:
        """Where the records of jobs that commit once are; only lakewright knows it."""
        return f"{self.branch_root}/_lakewright-jobs"

    @property
    def consumer_directory(self) -> str:
        """Where the positions of consumers are."""
        return f"{self.branch_root}/consumer"

    @property
    def latest_hint(self) -> str:
        """The hint to the newest snapshot."""
        return f"{self.snapshot_directory}/LATEST"

    @property
    def earliest_hint(self) -> str:
        """The hint to the oldest snapshot."""
        return f"{self.snapshot_directory}/EARLIEST"

    def schema_file(self, schema_id: int) -> str:
        """Return the path of a schema."""
        return f"{self.schema_directory}/schema-{schema_id:d}"

    def snapshot_file(self, snapshot_id: int) -> str:
        """Return the path of a snapshot."""
        return f"{self.snapshot_directory}/snapshot-{snapshot_id:d}"

    def changelog_file(self, snapshot_id: int) -> str:
        """Return the path of a snapshot that was kept for its changelog."""
        return f"{self.changelog_directory}/changelog-{snapshot_id:d}"

    def tag_file(self, name: str) -> str:
        """Return the path of a tag."""
        return f"{self.tag_directory}/tag-{check_name('tag', name)}"

    def consumer_file(self, consumer_id: str) -> str:
        """Return the path of a consumer's position."""
        return f"{self.consumer_directory}/{check_file_name(f'consumer-{consumer_id}')}"

    # What all branches share.

    @property
    def branches_directory(self) -> str:
        """Where the directories of the branches are."""
        return f"{self.root}/branch"

    @property
    def manifest_directory(self) -> str:
        """Where manifests, manifest lists and index manifests are."""
        return f"{self.root}/manifest"

    @property
    def index_directory(self) -> str:
        """Where index files are, unless they are beside the data."""
        return f"{self.root}/index"

    @property
    def statistics_directory(self) -> str:
        """Where table statistics are."""
        return f"{self.root}/statistics"

    @property
    def data_root(self) -> str:
        """The directory that holds the partitions and buckets."""
        inner = (self.data_directory or "").strip("/")
        return f"{self.root}/{inner}" if inner else self.root

    def branch_directory(self, name: str) -> str:
        """Return the directory of a branch other than `main`."""
        return f"{self.branches_directory}/branch-{check_name('branch', name)}"

    def manifest_file(self, name: str, *, origin: str | None = None) -> str:
        """Return the path of a manifest, manifest list or index manifest."""
        return f"{self.manifest_directory}/{check_file_name(name, origin=origin)}"

    def statistics_file(self, name: str, *, origin: str | None = None) -> str:
        """Return the path of table statistics."""
        return f"{self.statistics_directory}/{check_file_name(name, origin=origin)}"

    def index_file(self, file: IndexFile | str, bucket_directory: str | None = None) -> str:
        """Return the path of an index file; `bucket_directory` is that of the bucket it serves, None without one."""
        name, external = (file, None) if isinstance(file, str) else (file.file_name, file.external_path)
        if external is not None:
            return self._external(external, name)
        beside_data = self.index_in_data_directory and bucket_directory is not None
        directory = bucket_directory if beside_data else self.index_directory
        return f"{directory}/{check_file_name(name, origin=self.manifest_directory)}"

    def named_index_file(self, path: str, bucket_directory: str) -> str:
        """Return the path of an index file from a path of another writer; inside the table only its name is used.

        >>> Layout("/t").named_index_file("/elsewhere/index-1", "/t/bucket-0")
        '/t/index/index-1'
        """
        name = path.rpartition("/")[2]
        outside = self.external_directories and not path.startswith(f"{self.root}/") and self.may_lie_at(path)
        return self._external(path, name) if outside else self.index_file(name, bucket_directory)

    def bucket_directory(self, partition: str, bucket: int) -> str:
        """Return the directory of a bucket; `partition` is what `partition_text` made.

        >>> Layout("/t").bucket_directory("dt=2026-01-01", 3), Layout("/t").bucket_directory("", -2)
        ('/t/dt=2026-01-01/bucket-3', '/t/bucket-postpone')
        """
        return _bucket_directory(self.data_root, partition, bucket)

    def data_file(self, partition: str, bucket: int, file: DataFile) -> str:
        """Return the path of a data file, which may be outside the table."""
        return self.file_in(self.bucket_directory(partition, bucket), file.file_name, file.external_path)

    def file_in(self, bucket_directory: str, name: str, external_path: str | None) -> str:
        """Return the path of a data file of a bucket, by its name and, if it is outside the table, its own path."""
        if external_path is not None:
            return self._external(external_path, name)
        return f"{bucket_directory}/{check_file_name(name, origin=self.manifest_directory)}"

    def external_file(self, partition: str, bucket: int, name: str, number: int, paths: ExternalPaths) -> str:
        """Return where a new data file lies that goes outside the table; `number` counts the files of its writer."""
        inside = self.bucket_directory(partition, bucket)
        return paths.path_of(inside[len(self.root) + 1 :], check_file_name(name), number)

    def check_reachable(self, paths: ExternalPaths) -> None:
        """Raise UnsupportedError for external paths on another file system, or in another bucket, than the table."""
        for path in paths.directories:
            if not self._shares_storage(path):
                raise UnsupportedError(
                    f"new data files would go to {path}, which is on another file system or in another bucket than the "
                    f"table at {self.root}; choose 'data-file.external-paths' beside it, or write with Java",
                    path=path,
                )

    @property
    def reachable_directories(self) -> tuple[str, ...]:
        """The external directories that are on the file system, or in the bucket, of the table."""
        return tuple(filter(self._shares_storage, self.external_directories))

    def is_external_file(self, partition: str, bucket: int, path: str) -> bool:
        """Return whether a path is in the directory of a bucket below one of the external directories."""
        inner = self.bucket_directory(partition, bucket)[len(self.root) + 1 :]
        return any(
            plain_location(path).startswith(f"{plain_location(directory).rstrip('/')}/{inner}/")
            for directory in self.external_directories
        )

    def _shares_storage(self, path: str) -> bool:
        if path.startswith(("file:", "/")):
            return self.root.startswith("/")
        return _container(path) == _container(self.root)

    def extra_file(self, partition: str, bucket: int, file: DataFile, name: str) -> str:
        """Return the path of a side file, which is beside its data file."""
        directory = self.data_file(partition, bucket, file).rpartition("/")[0]
        return f"{directory}/{check_file_name(name, origin=self.manifest_directory)}"

    def _external(self, path: str, name: str) -> str:
        """Return the path that a manifest gives for a file, after a check that the table may have files there."""
        if not is_path_to(path, name):
            raise CorruptTableError(
                f"a manifest places the file {name!r} at {path!r}, which is no path to it", path=path, name=name
            )
        if not self.may_lie_at(path):
            raise CorruptTableError(
                f"a manifest places the file {name!r} at {path!r}, outside the table; if it belongs there, let the "
                "table option 'data-file.external-paths' name the directory",
                path=path,
                name=name,
            )
        return path

    def may_lie_at(self, path: str) -> bool:
        """Return whether a file at a path is inside the table, or below one of its external directories."""
        allowed = (plain_location(directory).rstrip("/") for directory in (self.root, *self.external_directories))
        return any(directory and plain_location(path).startswith(f"{directory}/") for directory in allowed)


def escape(text: str) -> str:
    """Write the characters that a path may not contain as `%` and two hexadecimal digits.

    >>> escape("a b/c:d")
    'a b%2Fc%3Ad'
    """
    return _SPECIAL.sub(lambda match: f"%{ord(match[0]):02X}", text)


def partition_text(values: Sequence[Value], fields: Sequence[DataField], *, default_name: str, legacy: bool) -> str:
    """Return the directory of a partition below the table, empty for a table without partitions.

    `default_name` and `legacy` are the options `partition.default-name` and `partition.legacy-name`.

    >>> fields = [DataField(0, "day", AtomicType("DATE")), DataField(1, "city", AtomicType("STRING"))]
    >>> partition_text([20000, "a/b"], fields, default_name="__DEFAULT_PARTITION__", legacy=False)
    'day=2024-10-04/city=a%2Fb'
    >>> partition_text([20000, None], fields, default_name="__DEFAULT_PARTITION__", legacy=True)
    'day=20000/city=__DEFAULT_PARTITION__'
    """
    return "/".join(
        _component(field, value, default_name=default_name, legacy=legacy)
        for field, value in zip(fields, values, strict=True)
    )


@lru_cache(maxsize=65536)
def _bucket_directory(data_root: str, partition: str, bucket: int) -> str:
    for component in partition.split("/") if partition else ():
        check_file_name(component)
    name = "bucket-postpone" if bucket == POSTPONE else f"bucket-{bucket:d}"
    return f"{data_root}/{partition}/{name}" if partition else f"{data_root}/{name}"


def is_path_to(path: str, name: str) -> bool:
    """Return whether a path is absolute, without `..`, and ends in the file's name."""
    scheme, _, rest = path.rpartition("://")
    directory, _, last = rest.rpartition("/")
    absolute = bool(scheme) or path.startswith(("/", "file:/"))
    parts = [part for part in directory.split("/") if part]
    return absolute and last == name and not _objection(name) and not any(map(_objection, parts))


def _container(location: str) -> str:
    """Return the scheme and the bucket of a location in an object store; `s3a` and `s3n` are other names of `s3`."""
    scheme, _, rest = plain_location(location).partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


def plain_location(path: str) -> str:
    """Return a path in one spelling: a local one without `file:`, `s3a` and `s3n` as `s3`."""
    if path.startswith("file:"):
        return "/" + path[5:].lstrip("/")
    return f"s3{path[3:]}" if path.startswith(("s3a://", "s3n://")) else path


def _objection(name: str) -> str | None:
    """Return why a text cannot be one component of a path, None if it can."""
    if not name:
        return "is empty"
    if name in {".", ".."}:
        return "is a directory's name for itself or its parent"
    if _COMPONENT.fullmatch(name) is None:
        return "contains a separator or control character"
    # No character takes more than four bytes, so short names need no encoding.
    if len(name) * 4 > NAME_BYTES_MAX and len(name.encode()) > NAME_BYTES_MAX:
        return f"is longer than {NAME_BYTES_MAX} bytes"
    return None


def _component(field: DataField, value: Value, *, default_name: str, legacy: bool) -> str:
    text = default_name if value is None else legacy_text(value, field.type) if legacy else _text(value, field.type)
    if _BLANK.fullmatch(text):
        text = default_name
    component = f"{escape(field.name)}={escape(text)}"
    try:
        fits = len(component.encode()) <= NAME_BYTES_MAX
    except UnicodeEncodeError:
        fits = False
    if not fits:
        raise InvalidInputError(
            f"the value {text!r} of partition column {field.name!r} makes a directory name that is longer than "
            f"{NAME_BYTES_MAX} bytes or no valid text: partition by something shorter",
            column=field.name,
            value=value,
        )
    return component


def legacy_text(value: Value, dtype: DataType) -> str:
    """Return the default form: dates and times as bare numbers, timestamps in ISO form without needless zeros."""
    root = dtype.root if isinstance(dtype, AtomicType) else ""
    if isinstance(value, int) and root in {"DATE", "TIME"}:
        return str(value)
    if isinstance(value, int) and root in {"TIMESTAMP", "TIMESTAMP_LTZ"}:
        seconds, nanos = divmod(value, _SECOND)
        clock = clock_text(seconds)
        if nanos:
            digits = f"{nanos:09d}"
            clock += "." + (digits[:3] if digits.endswith("000000") else digits[:6] if digits[6:] == "000" else digits)
        return f"{date_text(seconds // _DAY_SECONDS)}T{clock if nanos else clock.removesuffix(':00')}"
    return to_text(value, dtype)


def _text(value: Value, dtype: DataType) -> str:
    """Return the readable form, which is that of a cast to text; LTZ values show the clock of the session's zone."""
    if isinstance(value, int) and isinstance(dtype, AtomicType) and dtype.root == "TIMESTAMP_LTZ":
        value += _zone_offset_seconds(value // _SECOND) * _SECOND
    return to_text(value, dtype)


def _zone_offset_seconds(seconds: int) -> int:
    try:
        offset = datetime.fromtimestamp(seconds, UTC).astimezone().utcoffset()
    except (OverflowError, ValueError, OSError):
        raise InvalidInputError(
            f"a partition value is {seconds} seconds from 1970, a time at which the local time zone has no offset"
        ) from None
    return 0 if offset is None else int(offset.total_seconds())
