"""The files that a table needs, found with fastavro and JSON alone: all its files in, those that nothing names out."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import zstandard
from fastavro import _read_py as avro  # the reader in Python, which can be given a codec

from support.upkeep_book import branch_roots, named, numbered

_LISTS = ("baseManifestList", "deltaManifestList")
_MARKS = ("LATEST", "EARLIEST", "_SUCCESS")


@dataclass(frozen=True, slots=True)
class _File:
    name: str
    level: int  # a file that goes up a level is deleted from one and added to the other
    extra: tuple[str, ...]


@dataclass(slots=True)
class UsedFiles:
    """Names of files that snapshots, tags and changelogs need: no two files of a table share a name."""

    files: Mapping[str, bytes]  # the table's, by path
    root: str
    live: set[str] = field(default_factory=set)
    named_only: set[str] = field(default_factory=set)  # by entries that delete a file
    _entries: dict[str, list[tuple[int, _File]]] = field(default_factory=dict)

    def find(self) -> None:
        """Fill the sets of names."""
        for place in branch_roots(self.files, self.root).values():
            tags = named(self.files, f"{place}/tag/tag-").values()
            for text in (*numbered(self.files, f"{place}/snapshot/snapshot-").values(), *tags):
                self._add_state(text)
            for text in numbered(self.files, f"{place}/changelog/changelog-").values():
                self._add_changelog(text)
        self.named_only -= self.live

    def strays(self) -> dict[str, str]:
        """Return what is wrong: files that are missing, files that nothing names, not even as deleted."""
        self.find()
        names = {path.rpartition("/")[2]: path for path in self.files if self._counts(path)}
        wrong = dict.fromkeys(self.live - set(names), "is missing")
        return wrong | {names[name]: "is not in use" for name in set(names) - self.live - self.named_only}

    def _counts(self, path: str) -> bool:
        """Say whether a file is one of those that manifests and snapshots name."""
        inner, name = path[len(self.root) + 1 :], path.rpartition("/")[2]
        place = inner.split("/")[-2] if "/" in inner else ""
        known = {"snapshot": "snapshot-", "schema": "schema-", "tag": "tag-", "consumer": "consumer-"}
        if name.endswith(_MARKS) or ("changelog" in inner and name.startswith("changelog-") and place == "changelog"):
            return False
        return not name.startswith(known.get(place, "\0"))

    def _add_state(self, text: Mapping[str, Any]) -> None:
        counts: Counter[_File] = Counter()
        for key in _LISTS:
            self.live.add(text[key])
            for kind, file in self._list(text[key]):
                counts[file] += 1 if kind == 0 else -1
        for file, count in counts.items():
            (self.live if count > 0 else self.named_only).update((file.name, *file.extra))
        self._add_changelog(text)
        if (index := text.get("indexManifest")) is not None:
            self.live.add(index)
            self.live.update(entry["_FILE_NAME"] for entry in self._avro(f"manifest/{index}"))
        if (statistics := text.get("statistics")) is not None:
            self.live.add(statistics)

    def _add_changelog(self, text: Mapping[str, Any]) -> None:
        if (name := text.get("changelogManifestList")) is not None:
            self.live.add(name)
            self.live.update(one for _, file in self._list(name) for one in (file.name, *file.extra))

    def _list(self, name: str) -> Iterator[tuple[int, _File]]:
        """Yield the entries of the manifests of a list."""
        for manifest in self._avro(f"manifest/{name}"):
            yield from self._manifest(manifest["_FILE_NAME"])

    def _manifest(self, name: str) -> list[tuple[int, _File]]:
        self.live.add(name)
        if name not in self._entries:
            self._entries[name] = [
                (one["_KIND"], _File(file["_FILE_NAME"], file["_LEVEL"], tuple(file.get("_EXTRA_FILES") or ())))
                for one in self._avro(f"manifest/{name}")
                for file in [one["_FILE"]]
            ]
        return self._entries[name]

    def _avro(self, inner: str) -> Iterable[Any]:
        records: Iterable[Any] = avro.reader(io.BytesIO(self.files[f"{self.root}/{inner}"]))
        return records


def _zstandard_block(decoder: Any) -> io.BytesIO:  # noqa: ANN401 - a decoder of fastavro
    return io.BytesIO(zstandard.ZstdDecompressor().decompress(decoder.read_bytes(), max_output_size=1 << 26))


avro.BLOCK_READERS["zstandard"] = _zstandard_block
