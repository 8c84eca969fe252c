"""Avro object container files: blocks, codecs, schema checks."""

from __future__ import annotations

import bz2
import hashlib
import lzma
import os
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import fastavro
import pyarrow as pa
import zstandard
from fastavro.schema import SchemaParseException

from lakewright.errors import UnsupportedError
from lakewright.formats.file_format import codec_of

# ---- Container files -------------------------------------------------------------------------------------------------
# A file is `Obj\x01`, a map of metadata (schema and codec), a 16-byte sync marker, then blocks: the number of
# records, the number of bytes, the bytes, the sync marker. What lakewright writes has checksums that other readers
# ignore. The last metadata key is the seal: a CRC-32 of the whole file, or of its header where blocks are written
# before the file is complete, with zeros for the digits of the seal itself. And every block has a checksum of its
# own: zstd, xz and bzip2 streams and snappy blocks contain one, and a deflated block is followed by the CRC-32 of its
# records, which readers ignore. A block of the codec `null` has no place for one, so uncompressed records are stored
# in deflated blocks of level 0, which every reader supports. Records are opaque bytes here. Invariant: any damage
# of a file is a ValueError, and no file causes an allocation of much more than BLOCK_BYTES_MAX at once.

BLOCK_BYTES_MAX = 256 << 20  # decompressed; writers close a block long before
SYNC_BYTES = 16

_MAGIC = b"Obj\x01"
_SEAL_KEY = "lakewright.seal"
_SEAL_OF_FILE, _SEAL_OF_HEADER = b"crc32:", b"header-crc32:"
_SEAL = re.compile(rb"(crc32:|header-crc32:)[0-9a-f]{8}")
_DIGITS = b"00000000"
_HEADER_KEYS_MAX = 1000
_VARINT_BYTES_MAX = 10
_CRC_BYTES = 4
_ZSTD_WINDOW_BYTES_MAX = 128 << 20
_ZSTD_STEP_BYTES = 16 << 10
_CODECS = {
    "zstd": "zstandard",
    "zstandard": "zstandard",
    "snappy": "snappy",
    "deflate": "deflate",
    "gzip": "deflate",
    "bzip2": "bzip2",
    "xz": "xz",
    "null": "deflate",
    "none": "deflate",
    "uncompressed": "deflate",
}
_UNCOMPRESSED = frozenset({"null", "none", "uncompressed"})


@dataclass(frozen=True, slots=True)
class Codec:
    """How blocks are compressed: Avro's name of the codec, and its compression level."""

    name: str
    level: int

    @classmethod
    def of(cls, compression: str, zstd_level: int = 1) -> Codec:
        """Return the codec of a compression by the name that a table's options have for it.

        >>> Codec.of("zstd", 3), Codec.of("none")
        (Codec(name='zstandard', level=3), Codec(name='deflate', level=0))
        """
        name = codec_of(_CODECS, compression.lower(), "Avro")
        if name == "zstandard":
            return cls(name, zstd_level)
        return cls(name, 0 if compression.lower() in _UNCOMPRESSED else zlib.Z_DEFAULT_COMPRESSION)


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a container file."""

    metadata: Mapping[str, bytes]
    sync: bytes
    end: int  # where the first block begins
    sealed: bool  # written by lakewright, so that its blocks have checksums

    @property
    def schema(self) -> bytes:
        """The schema of the records, as JSON."""
        return self.metadata["avro.schema"]

    @property
    def codec(self) -> str:
        """The name of the compression."""
        return self.metadata.get("avro.codec", b"null").decode()


@dataclass(frozen=True, slots=True)
class Block:
    """Records as a file holds them: how many, and their bytes, decompressed."""

    count: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Frame:
    """Where a block is in a file, compressed, and how many records it has."""

    count: int
    start: int
    end: int


# Writing.


def encode_header(schema: bytes, codec: Codec) -> tuple[bytes, bytes]:
    """Return the header of a file whose blocks are written one by one, and its sync marker."""
    sync = os.urandom(SYNC_BYTES)
    header = _build_header(schema, codec, sync, _SEAL_OF_HEADER)
    return _add_checksum(header, len(header)), sync


def encode_block(count: int, packed: bytes, sync: bytes) -> bytes:
    """Return one block of compressed records."""
    return encode_long(count) + _length_prefixed(packed) + sync


def encode_file(schema: bytes, codec: Codec, blocks: Sequence[tuple[int, bytes]], salt: bytes = b"") -> bytes:
    """Return a whole file of blocks of compressed records, each with their count.

    Equal blocks with an equal salt make equal files.
    """
    # The marker must not occur by chance inside the data, which is as unlikely for a digest as for random bytes.
    digest = hashlib.sha256(schema + salt)
    for _, packed in blocks:
        digest.update(packed)
    sync = digest.digest()[:SYNC_BYTES]
    header = _build_header(schema, codec, sync, _SEAL_OF_FILE)
    return _add_checksum(header + b"".join(encode_block(*block, sync) for block in blocks), len(header))


def _build_header(schema: bytes, codec: Codec, sync: bytes, seal: bytes) -> bytes:
    metadata = {"avro.schema": schema, "avro.codec": codec.name.encode(), _SEAL_KEY: seal + _DIGITS}
    entries = b"".join(_length_prefixed(key.encode()) + _length_prefixed(value) for key, value in metadata.items())
    return _MAGIC + encode_long(len(metadata)) + entries + encode_long(0) + sync


def _add_checksum(data: bytes, header_end: int) -> bytes:
    """Replace the zeros of the seal, which end the metadata of the header, by the checksum of the data."""
    end = header_end - SYNC_BYTES - len(encode_long(0))
    return data[: end - len(_DIGITS)] + b"%08x" % zlib.crc32(data) + data[end:]


# Reading.


def decode_header(data: bytes) -> Header:
    """Return the header of a file, after a check of the seal, if it has one."""
    if data[: len(_MAGIC)] != _MAGIC:
        raise ValueError("it does not begin like an Avro file")
    metadata: dict[str, bytes] = {}
    seal_end = 0
    count, at = decode_long(data, len(_MAGIC))
    while count:
        if count < 0:  # a negative count is followed by the size of the block
            count, (_, at) = -count, decode_long(data, at)
        if count + len(metadata) > _HEADER_KEYS_MAX:
            raise ValueError(f"its header has more than {_HEADER_KEYS_MAX} keys")
        for _ in range(count):
            key, at = _bytes(data, at)
            metadata[key.decode()], at = _bytes(data, at)
            seal_end = at if key == _SEAL_KEY.encode() else seal_end
        count, at = decode_long(data, at)
    sync, end = data[at : at + SYNC_BYTES], at + SYNC_BYTES
    if len(sync) != SYNC_BYTES or "avro.schema" not in metadata:
        raise ValueError("its header is cut short")
    seal = metadata.pop(_SEAL_KEY, None)
    if seal is not None:
        _check_seal(data if seal.startswith(_SEAL_OF_FILE) else data[:end], seal, seal_end)
    return Header(metadata, sync, end, seal is not None)


def _check_seal(covered: bytes, seal: bytes, end: int) -> None:
    view = memoryview(covered)
    checksum = zlib.crc32(_DIGITS, zlib.crc32(view[: end - len(_DIGITS)]))
    checksum = zlib.crc32(view[end:], checksum)
    if not _SEAL.fullmatch(seal) or int(seal[-len(_DIGITS) :], 16) != checksum:
        raise ValueError("it does not match its seal")


def count_records(data: bytes, header: Header) -> int:
    """Return the number of records in a file without decoding them."""
    return sum(frame.count for frame in frames(data, header))


def decode_blocks(data: bytes, header: Header) -> Iterator[Block]:
    """Yield the blocks of a file, decompressed."""
    for frame in frames(data, header):
        yield decode_block(data, header, frame)


def decode_block(data: bytes, header: Header, frame: Frame) -> Block:
    """Return one block of a file, decompressed."""
    block = Block(frame.count, decompress(data[frame.start : frame.end], header.codec, sealed=header.sealed))
    if frame.count > len(block.data):  # a record takes at least one byte
        raise ValueError(f"a block of {len(block.data)} bytes announces {frame.count} records")
    return block


def frames(data: bytes, header: Header) -> Iterator[Frame]:
    """Yield where the blocks of a file lie."""
    at = header.end
    while at < len(data):
        count, at = decode_long(data, at)
        size, at = decode_long(data, at)
        end = at + size
        if count < 0 or size < 0 or data[end : end + SYNC_BYTES] != header.sync:
            raise ValueError(f"the block before byte {at} is broken")
        yield Frame(count, at, end)
        at = end + SYNC_BYTES


# Compression.


def compress(data: bytes, codec: Codec) -> bytes:
    """Compress the records of a block, with a checksum."""
    match codec.name:
        case "zstandard":
            return zstandard.ZstdCompressor(level=codec.level, write_checksum=True).compress(data)
        case "snappy":
            packed: bytes = pa.compress(data, codec="snappy", asbytes=True)
            return packed + _crc(data)
        case "bzip2":
            return bz2.compress(data)
        case "xz":
            return lzma.compress(data)
        case _:
            packer = zlib.compressobj(codec.level, wbits=-zlib.MAX_WBITS)
            return packer.compress(data) + packer.flush() + _crc(data)


def decompress(data: bytes, codec: str, *, sealed: bool = False) -> bytes:
    """Decompress the records of a block; a sealed file has a checksum behind each deflated block."""
    match codec:
        case "null":
            out = data
        case "zstandard":
            out = _unzstd(data)
        case "snappy":
            out = _unsnappy(data)
        case "deflate":
            out = _undeflate(data, sealed=sealed)
        case "bzip2":
            out = _decompress_all(bz2.BZ2Decompressor(), data)
        case "xz":
            out = _decompress_all(lzma.LZMADecompressor(memlimit=BLOCK_BYTES_MAX), data)
        case "lz4":
            out = _by_arrow(data[4:], int.from_bytes(data[:4], "little"), "lz4_raw")
        case _:
            raise UnsupportedError(f"the Avro codec {codec!r} is not supported", codec=codec)
    if len(out) > BLOCK_BYTES_MAX:
        raise ValueError(f"a block is larger than {BLOCK_BYTES_MAX} bytes")
    return out


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


def _decompress_all(unpacker: _Decompressor, data: bytes) -> bytes:
    try:
        out = unpacker.decompress(data, BLOCK_BYTES_MAX)
    except (OSError, lzma.LZMAError, zlib.error) as error:  # how the three report damage
        raise ValueError(str(error)) from error
    if not unpacker.eof:
        raise ValueError("a compressed block is cut short or too large")
    return out


def _undeflate(data: bytes, *, sealed: bool) -> bytes:
    unpacker = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
    out = _decompress_all(unpacker, data)
    # Bytes behind the blocks of other writers are ignored.
    if sealed and unpacker.unused_data != _crc(out):
        raise ValueError("the checksum of a deflated block does not match")
    return out


def _unzstd(data: bytes) -> bytes:
    # Frames of other writers have no content size: they are decompressed in steps, which stop soon after the limit.
    out = bytearray()
    try:
        known = zstandard.frame_content_size(data)
        unpacker = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES_MAX).decompressobj()
        step = _ZSTD_STEP_BYTES if known < 0 else max(1, len(data))
        for start in range(0, len(data) if known <= BLOCK_BYTES_MAX else 0, step):
            out += unpacker.decompress(data[start : start + step])
            if unpacker.eof or len(out) > BLOCK_BYTES_MAX:
                break
    except (zstandard.ZstdError, EOFError) as error:
        raise ValueError(str(error)) from error
    if not unpacker.eof or unpacker.unused_data or start + step < len(data):
        raise ValueError("a zstd frame does not fill its block, or is too large")
    return bytes(out)


def _unsnappy(data: bytes) -> bytes:
    out = _by_arrow(data[:-_CRC_BYTES], _read_varint(data, 0)[0], "snappy")
    if _crc(out) != data[-_CRC_BYTES:]:
        raise ValueError("the checksum of a snappy block does not match")
    return out


def _by_arrow(data: bytes, size: int, codec: str) -> bytes:
    if size > BLOCK_BYTES_MAX:
        raise ValueError(f"a block announces {size} bytes")
    try:
        out: bytes = pa.decompress(data, decompressed_size=size, codec=codec, asbytes=True)
    except OSError as error:  # how Arrow reports damage
        raise ValueError(str(error)) from error
    return out


def _crc(data: bytes) -> bytes:
    return zlib.crc32(data).to_bytes(_CRC_BYTES, "big")


# Numbers and bytes.


def encode_long(value: int) -> bytes:
    """Return a number in Avro's zigzag form."""
    rest = value << 1 if value >= 0 else (-value << 1) - 1
    out = bytearray()
    while rest > 0x7F:  # noqa: PLR2004 - seven bits a byte
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def decode_long(data: bytes, at: int) -> tuple[int, int]:
    """Return a number in Avro's zigzag form, and the position behind it."""
    value, at = _read_varint(data, at)
    return (value >> 1) ^ -(value & 1), at


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for index in range(_VARINT_BYTES_MAX):
        if at + index >= len(data):
            raise ValueError("a number is cut short")
        byte = data[at + index]
        value |= (byte & 0x7F) << (7 * index)
        if not byte & 0x80:
            return value, at + index + 1
    raise ValueError("a number has too many bytes")


def _length_prefixed(value: bytes) -> bytes:
    return encode_long(len(value)) + value


def _bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = decode_long(data, at)
    if size < 0 or at + size > len(data):
        raise ValueError("a text is cut short")
    return data[at : at + size], at + size


# ---- Checks of schemas -----------------------------------------------------------------------------------------------
# The checks run once for each file, so that no record has to be checked: afterwards every expected field has the
# expected type, or is None. Always holds for an accepted schema: it is not recursive, and every record and every
# array item takes at least one byte, so a damaged count cannot create more objects than the file has bytes.

AvroSchema: TypeAlias = "str | list[AvroSchema] | dict[str, object]"

DEPTH_MAX = 64
NODES_MAX = 100_000

_PRIMITIVES = frozenset("null boolean int long float double bytes string".split())


@dataclass(frozen=True, slots=True)
class FileSchema:
    """The checked schema of one file."""

    record: dict[str, Any]
    entry: AvroSchema  # of an item of a block: the record, or a union with it


def file_schema(schema: object) -> FileSchema:
    """Check the schema in the header of a file, and return the record in it.

    References to named types are replaced by their definitions. `logicalType` is renamed to `logical`, so that fastavro
    ignores it and gives numbers as they are in the file.

    >>> file_schema(["null", {"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]}]).record["name"]
    'type1'
    """
    entry = _Checker().plain(schema)
    records = [branch for branch in branches(entry) if branch != "null"]
    if len(records) != 1 or not isinstance(records[0], dict) or records[0]["type"] != "record":
        raise ValueError("its schema is not one record")
    if _width_zero(records[0]):
        raise ValueError("its records take no bytes")
    return FileSchema(records[0], entry)


def compile_schema(schema: object) -> Any:  # noqa: ANN401 - fastavro's own kind of schema
    """Return a schema in the form that fastavro encodes and decodes with."""
    try:
        return fastavro.parse_schema(schema)  # type: ignore[arg-type]  # it is checked
    except SchemaParseException as error:
        raise ValueError(str(error)) from error


def block_schema(schema: FileSchema) -> Any:  # noqa: ANN401 - fastavro's own kind of schema
    """Return the schema by which fastavro codes a whole block: an array of records."""
    return compile_schema({"type": "array", "items": schema.entry})


def check_readable(record: object, expected: object, place: str = "") -> None:
    """Raise ValueError if a record schema lacks an expected field, or has it with a type that cannot be read."""
    types = {str(member["name"]): member["type"] for member in _fields(record)}
    for member in _fields(expected):
        name = str(member["name"])
        if name in types:
            _check_type(types[name], member["type"], f"{place}{name}")
        elif "default" not in member:
            raise ValueError(f"its schema has no field {place}{name}")


def _check_type(stored: object, expected: object, place: str) -> None:
    """Raise ValueError if a type has values of another than the expected type. A record or an array may be null."""
    allowed = {_keyword(branch): branch for branch in branches(expected)}
    for branch in branches(stored):
        keyword = _keyword(branch)
        if keyword == "int" and "int" not in allowed:
            keyword = "long"
        if keyword == "null" and ("null" in allowed or allowed.keys() & {"record", "array"}):
            continue  # some writers leave out empty statistics
        if keyword not in allowed:
            raise ValueError(f"its field {place} has the type {keyword}")
        match branch, allowed[keyword]:
            case {"type": "record", "fields": _}, {"type": "record", "fields": _}:
                check_readable(branch, allowed[keyword], f"{place}.")
            case {"type": "array", "items": items}, {"type": "array", "items": expected_items}:
                _check_type(items, expected_items, f"{place}[]")


@dataclass(slots=True)
class _Checker:
    """Walks a schema once: replaces names by definitions, and raises ValueError for recursive or too large ones."""

    definitions: dict[str, object] = field(default_factory=dict)
    nodes: int = 0
    types: int = 0

    def plain(self, schema: Any, depth: int = 0) -> AvroSchema:  # noqa: ANN401 - JSON
        """Return the schema with definitions in place of names, and only the attributes that are used here."""
        self.nodes += 1
        if depth > DEPTH_MAX or self.nodes > NODES_MAX:
            raise ValueError(f"its schema is more than {DEPTH_MAX} levels deep or has more than {NODES_MAX} parts")
        match schema:
            case str():
                return self._resolve_type(schema, depth)
            case list():
                return [self.plain(branch, depth + 1) for branch in schema]
            case {"type": "array", "items": items}:
                return self._array(items, depth)
            case {"type": "map", "values": values}:
                return {"type": "map", "values": self.plain(values, depth + 1)}
            case {"type": "record" | "fixed" | "enum" as kind, "name": str(name)}:
                plain = {"type": kind, "name": self._unique()} | self._parts(schema, depth)
                self.definitions[name.rpartition(".")[2]] = schema
                return plain
            case {"type": str(name), "logicalType": str(logical)} if name in _PRIMITIVES:
                return {"type": name, "logical": logical, "scale": schema.get("scale", 0)}
            case {"type": str() | dict() | list() as inner}:
                return self.plain(inner, depth + 1)
            case _:
                raise ValueError("its schema is not one of Avro")

    def _parts(self, schema: dict[str, object], depth: int) -> dict[str, object]:
        """Return the attributes of a definition other than its name."""
        match schema:
            case {"type": "record", "fields": list(fields)}:
                return {"fields": self._members(fields, depth)}
            case {"type": "fixed", "size": int(size)}:
                return {"size": size, "scale": schema.get("scale", 0)}
            case {"type": "enum", "symbols": list(symbols)}:
                return {"symbols": symbols}
            case _:
                raise ValueError("its schema has a definition that is cut short")

    def _resolve_type(self, name: str, depth: int) -> AvroSchema:
        if name in _PRIMITIVES:
            return name
        # A definition is stored only when it is complete, so a type that contains itself is not found here.
        definition = self.definitions.get(name.rpartition(".")[2])
        if definition is None:
            raise ValueError(f"its schema uses the type {name!r} outside or inside of its definition")
        return self.plain(definition, depth + 1)

    def _unique(self) -> str:
        """Return a name that no other type of the schema has: one definition may be copied to several places."""
        self.types += 1
        return f"type{self.types}"

    def _array(self, items: object, depth: int) -> AvroSchema:
        plain = self.plain(items, depth + 1)
        if _width_zero(plain):
            raise ValueError("its schema has an array of items that take no bytes")
        return {"type": "array", "items": plain}

    def _members(self, fields: list[object], depth: int) -> list[dict[str, object]]:
        members: list[dict[str, object]] = []
        for member in fields:
            match member:
                case {"name": str(name), "type": inner}:
                    members.append({"name": name, "type": self.plain(inner, depth + 1)})
                case _:
                    raise ValueError("its schema has a field without name or type")
        return members


def _width_zero(schema: object) -> bool:
    """Return whether a value of the type takes no bytes at all."""
    match schema:
        case "null":
            return True
        case {"type": "record"}:
            return all(_width_zero(member["type"]) for member in _fields(schema))
        case {"type": "fixed", "size": int(size)}:
            return size <= 0
        case _:
            return False


def _fields(record: object) -> Iterator[dict[str, object]]:
    match record:
        case {"fields": list(fields)}:
            yield from fields


def branches(schema: AvroSchema | object) -> list[Any]:
    """Return the types of a union; any other type as a list of one."""
    return schema if isinstance(schema, list) else [schema]


def _keyword(schema: object) -> str:
    match schema:
        case {"type": str(keyword)}:
            return keyword
        case str():
            return schema
        case _:
            raise ValueError("its schema is not one of Avro")
