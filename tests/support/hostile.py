"""Hostile names, and a world in which every storage call of whoever meets them is recorded and judged."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa
from hypothesis import strategies as st

import lakewright as lw
from lakewright.catalog.base import Catalog
from lakewright.catalog.filesystem import FileSystemCatalog
from lakewright.testing.storage import FaultyStorage, MemoryImage, MemoryStorage

NAMES = [
    *("", ".", "..", "...", "../x", "../../x", "a/../b", "a/b", "/", "//", "/etc/passwd", "a/", "/a", "./a", "..\\x"),
    *("a\\b", "C:\\x", "C:x", "\\\\host\\share", "a\0b", "\0", "a\nb", "a\rb", "a\tb", "a\x1bb", "a\x7fb", "\x85x"),
    *("%2e%2e", "%2e%2e%2f", "..%2f", "%2F", "%00", "%", "%%", "%c0%ae%c0%ae/", "\uff0e\uff0e\uff0f", "\u2024\u2024"),
    *("\u202e.gnp", "\u2028", "\u200b", "\ufeff", "e\u0301", "\u00e9", "\U0001f4a3", "\ud800", "x\udfff", " ", "  x "),
    *("~", "~root", "$HOME", "$(id)", "`id`", ";id", "|id", "-rf", "--", "*", "?", "[a]", "{a}", "'", '"', "#", "&"),
    *("memory://other/x", "file:/etc/passwd", "file:///etc/passwd", "s3://bucket/key", "http://host/", "a?b#c", "a:b"),
    *("x" * 255, "x" * 256, "x" * 5000, "\u00e9" * 128, "\U0001f4a3" * 64, "a/" * 200 + "b", "../" * 50 + "b"),
    *("snapshot", "schema", "manifest", "bucket-0", "LATEST", "main", "123", "CON", "nul", "a.", "a ", ".a", "a$b"),
    *("t$branch_../../x", "t$snapshots", "a.b", "a`b", "`a`", "\u0130", "\u00df", "A", "a", "__DEFAULT_PARTITION__"),
]
HOSTILE_TEXT = st.text(st.sampled_from("./\\%:$`'\"\0\n\t~*?# ab0\u202e\uff0f\u00e9\U0001f4a3"), max_size=12) | st.text(
    max_size=300
)
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "p": ["a", "b", "a"]})


@dataclass(slots=True)
class World:
    """A warehouse with two tables: `d.t`, which is attacked, and `d.canary`, which nobody may touch."""

    memory: MemoryStorage
    image: MemoryImage = field(init=False)
    cases: int = 0
    refused: int = 0

    @classmethod
    def made(cls, name: str, **options: str) -> World:
        world = cls(MemoryStorage(name))
        world.memory.clear()
        catalog = FileSystemCatalog(world.memory, f"{world.memory.root}/w")
        catalog.create_database("d")
        for table in ("d.t", "d.canary"):
            catalog.create_table(
                table, lw.Schema.from_pyarrow_schema(ROWS.schema, partition_keys=["p"], options=options)
            )
            lw.write_table(ROWS, catalog.get_table(table))
        catalog.create_tag("d.t", "tagged")
        for outside in ("x", "x.parquet", "secret/x.parquet", "w/x", "w/d.db/x", "w/d.db/x.parquet"):
            world.memory.create(f"{world.memory.root}/{outside}", b"canary")
        world.image = world.memory.image()
        return world

    @property
    def root(self) -> str:
        return f"{self.memory.root}/w/d.db/t"

    def attack(self, act: Callable[[Catalog], object], *, inside: str | None = None) -> None:
        """Do something hostile; every path that is touched must lie inside, and every error be one of ours."""
        self.cases += 1
        recorder = FaultyStorage(self.memory)
        try:
            act(FileSystemCatalog(recorder, f"{self.memory.root}/w"))
        except lw.LakewrightError:
            self.refused += 1
        allowed = inside or self.root
        for call in recorder.calls:
            if call.verb == "list_directories" and call.path == f"{self.memory.root}/w":
                continue  # the catalog looks for its databases
            assert is_inside(call.path, allowed), f"{call.verb} {call.path!r}"
        assert self.canaries() == {p: d for p, d in self.image.files.items() if not p.startswith(f"{self.root}/")}

    def canaries(self) -> dict[str, bytes]:
        """Return all files that are not the attacked table's."""
        return {p: d for p, d in self.memory.image().files.items() if not p.startswith(f"{self.root}/")}

    def table(self) -> lw.FileStoreTable:
        return FileSystemCatalog(self.memory, f"{self.memory.root}/w").get_table("d.t")

    def restore(self) -> None:
        self.memory.restore(self.image)


def is_inside(path: str, root: str) -> bool:
    """Say whether a path stays below a root however a file system reads it."""
    if not (path == root or path.startswith(f"{root}/")):
        return False
    rest = path[len(root) :]
    plain = posixpath.normpath(f"/r{rest}") == f"/r{rest}".rstrip("/")
    return plain and "\\" not in rest and not re.search(r"[\x00-\x1f\x7f]", rest) and encodes(rest)


def encodes_at_all(text: str) -> bool:
    """Say whether a file can hold a text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def encodes(text: str) -> bool:
    """Say whether a text can be a path, as to its characters and the length of its parts."""
    return encodes_at_all(text) and all(len(part.encode()) <= 255 for part in text.split("/"))
