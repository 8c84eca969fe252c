"""Commit messages on their way to the driver: messages in, bytes out, and the messages again on the driver, verified.

Always holds: bytes that were cut or altered, messages of another write, and lost rows are refused.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable

from lakewright.commit.message.message import CommitMessage
from lakewright.errors import InvalidMessageError, LakewrightError, counted
from lakewright.write.writer import WriteJob

_LENGTH = struct.Struct(">I")


def pack(messages: Iterable[CommitMessage]) -> bytes:
    """Return commit messages as one run of bytes, compressed: a driver may hold those of many tasks at once."""
    frames = (message.serialize() for message in messages)
    return zlib.compress(b"".join(part for frame in frames for part in (_LENGTH.pack(len(frame)), frame)), level=1)


def unpack(payload: bytes) -> list[CommitMessage]:
    """Read what `pack` made; bytes that were cut or altered are refused."""
    messages, at = [], 0
    try:
        frames = zlib.decompress(payload)
        while at < len(frames):
            start = at + _LENGTH.size
            at = start + _LENGTH.unpack_from(frames, at)[0]
            messages.append(CommitMessage.deserialize(frames[start:at]))
    except (zlib.error, struct.error) as error:
        message = "the commit messages of a task were cut or altered on their way; write the data again"
        raise InvalidMessageError(message) from error
    return messages


def verified_messages(job: WriteJob, payloads: Iterable[bytes]) -> list[CommitMessage]:
    """Return the messages of all tasks, after checking that they are of this write and that no row was lost."""
    messages = [message for payload in payloads for message in unpack(payload)]
    foreign = [message for message in messages if message.write_id != job.write_id]
    written = sum(file.row_count for message in messages for file in message.new_files)
    taken = sum(message.rows_in or 0 for message in messages)
    if foreign or written > taken or (written < taken and not job.store.schema.primary_keys):
        raise LakewrightError(
            f"{job.store.name}: the tasks took {counted(taken, 'row')} and wrote {written}, and "
            f"{len(foreign)} messages are of another write; nothing was committed, write the data again",
            table=job.store.name,
        )
    return messages
