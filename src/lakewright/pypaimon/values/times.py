"""pypaimon's times and durations: datetimes in, milliseconds and the JSON of tag files out, and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import ClassVar

from lakewright.errors import InvalidInputError

_EPOCH = datetime.fromtimestamp(0, UTC).replace(tzinfo=None)
_DATE_AND_MINUTES = 5  # the parts of a JSON array that are always written
_PARTS = 7


@dataclass(frozen=True, order=True, slots=True)
class Timestamp:
    """A time of a wall clock, without a zone: milliseconds since 1970, and nanoseconds within the last of them.

    >>> Timestamp(86_400_000).to_local_date_time(), Timestamp.from_micros(1_001)
    (datetime.datetime(1970, 1, 2, 0, 0), Timestamp(millisecond=1, nano_of_millisecond=1000))
    """

    MILLIS_PER_DAY: ClassVar[int] = 86_400_000
    MICROS_PER_MILLIS: ClassVar[int] = 1_000
    NANOS_PER_MICROS: ClassVar[int] = 1_000
    NANOS_PER_HOUR: ClassVar[int] = 3_600_000_000_000
    NANOS_PER_MINUTE: ClassVar[int] = 60_000_000_000
    NANOS_PER_SECOND: ClassVar[int] = 1_000_000_000
    NANOS_PER_MICROSECOND: ClassVar[int] = 1_000

    millisecond: int
    nano_of_millisecond: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.nano_of_millisecond < self.MICROS_PER_MILLIS * self.NANOS_PER_MICROS:
            raise InvalidInputError(
                f"nano_of_millisecond must be between 0 and 999,999, got {self.nano_of_millisecond}"
            )

    def __str__(self) -> str:
        return self.to_local_date_time().strftime("%Y-%m-%d %H:%M:%S.%f")

    @staticmethod
    def now() -> Timestamp:
        """Return the time of the local clock."""
        return Timestamp.from_local_date_time(datetime.now())  # noqa: DTZ005 - a wall clock has no zone

    @staticmethod
    def from_epoch_millis(milliseconds: int, nanos_of_millisecond: int = 0) -> Timestamp:
        """Make one of milliseconds since 1970."""
        return Timestamp(milliseconds, nanos_of_millisecond)

    @staticmethod
    def from_local_date_time(date_time: datetime) -> Timestamp:
        """Make one of a datetime without a zone."""
        if date_time.tzinfo is not None:
            raise InvalidInputError("datetime must be naive (no timezone)")
        return Timestamp.from_micros((date_time - _EPOCH) // timedelta(microseconds=1))

    @staticmethod
    def from_micros(micros: int) -> Timestamp:
        """Make one of microseconds since 1970."""
        millis, rest = divmod(micros, Timestamp.MICROS_PER_MILLIS)
        return Timestamp(millis, rest * Timestamp.NANOS_PER_MICROS)

    def get_millisecond(self) -> int:
        """Return the milliseconds since 1970."""
        return self.millisecond

    def get_nano_of_millisecond(self) -> int:
        """Return the nanoseconds within the millisecond."""
        return self.nano_of_millisecond

    def to_micros(self) -> int:
        """Return the microseconds since 1970."""
        return self.millisecond * self.MICROS_PER_MILLIS + self.nano_of_millisecond // self.NANOS_PER_MICROS

    def to_millis_timestamp(self) -> Timestamp:
        """Return the same time in whole milliseconds."""
        return Timestamp(self.millisecond)

    def to_local_date_time(self) -> datetime:
        """Return the time as a datetime without a zone."""
        return _EPOCH + timedelta(microseconds=self.to_micros())


def local_datetime_to_json_array(dt: datetime) -> list[int]:
    """Return year, month, day, hour, minute, second and nanosecond; the last two only if they are not zero.

    >>> local_datetime_to_json_array(datetime(2024, 1, 2, 3, 4))
    [2024, 1, 2, 3, 4]
    """
    parts = [dt.year, dt.month, dt.day, dt.hour, dt.minute, dt.second, dt.microsecond * Timestamp.NANOS_PER_MICROS]
    while len(parts) > _DATE_AND_MINUTES and not parts[-1]:
        parts.pop()
    return parts


def json_array_to_local_datetime(arr: Sequence[int]) -> datetime:
    """Read what `local_datetime_to_json_array` returns; parts that are left out are zero."""
    year, month, day, hour, minute, second, nanos = [*arr, *[0] * (_PARTS - len(arr))][:_PARTS]
    micros = nanos // Timestamp.NANOS_PER_MICROS
    return datetime(year, month, day, hour, minute, second, micros)  # noqa: DTZ001 - a wall clock has no zone


def duration_to_json_seconds(td: timedelta) -> float:
    """Return a duration in seconds."""
    return td.total_seconds()


def json_seconds_to_duration(seconds: float) -> timedelta:
    """Return so many seconds."""
    return timedelta(seconds=seconds)


def local_datetime_to_millis(dt: datetime) -> int:
    """Return the milliseconds from 1970 to a time of the same wall clock."""
    return (dt - _EPOCH) // timedelta(milliseconds=1)


def local_datetime_to_system_zone_millis(dt: datetime) -> int:
    """Return the epoch milliseconds of a time of the local zone."""
    return int(dt.replace(microsecond=0).timestamp()) * 1000 + dt.microsecond // 1000
