"""Dates and times as text, by the rules of docs/reference/expressions.md: what stands in rows for values of columns.

Everything is pure.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?"
    r"(?:Z|([+-])([01]\d|2[0-3])(?::?([0-5]\d))?)?)?",
    re.ASCII,
)
_EPOCH = datetime(1970, 1, 1)
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_DAY = 24 * 60 * 60


def nanoseconds(text: str) -> int:
    """How many have passed since 1970, UTC, at a time as ISO 8601 writes it. It is UTC, unless it names a zone."""
    part = _TIME.fullmatch(text)
    if part is None:
        raise ValueError(f"{text!r:.60} is no time as ISO 8601 writes it")
    sign, hours, minutes = part[8], int(part[9] or 0), int(part[10] or 0)
    offset = timedelta(hours=hours, minutes=minutes) * (-1 if sign == "-" else 1)
    year, *rest = (int(part[i] or 0) for i in range(1, 7))
    if year == 0:  # which Python lacks: the calendar repeats itself after 400 years
        year, offset = 400, offset + timedelta(days=146_097)
    try:
        at = datetime(year, *rest)  # type: ignore[arg-type]
    except ValueError:
        raise ValueError(f"{text!r} is no time that there is") from None
    seconds = (at - _EPOCH - offset) // timedelta(seconds=1)
    return seconds * 1_000_000_000 + int((part[7] or "").ljust(9, "0"))


def is_time(kind: pa.DataType) -> bool:
    """Whether values of a type are dates, or dates with a time."""
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def has_texts(values: Any) -> bool:
    """Whether values are an array that may have texts."""
    return isinstance(values, np.ndarray) and values.dtype.kind in "OU"


def counted(value: Any, kind: pa.DataType) -> Any:
    """A value with counts of a type's unit in place of texts that are dates and times. What is finer is cut off."""
    if isinstance(value, str) and is_time(kind):
        if pa.types.is_timestamp(kind):
            count = nanoseconds(value) * _PER_SECOND[kind.unit] // 1_000_000_000
            if not -(1 << 63) <= count < 1 << 63:
                raise ValueError(f"{value!r} is beyond the 64 bits of {kind}")
            return count
        days = nanoseconds(value) // (_DAY * 1_000_000_000)
        return days * _DAY * 1_000 if pa.types.is_date64(kind) else days
    if pa.types.is_struct(kind) and isinstance(value, dict):
        of = {kind.field(i).name: kind.field(i).type for i in range(kind.num_fields)}
        return {name: counted(each, of[name]) if name in of else each for name, each in value.items()}
    if pa.types.is_map(kind) and value is not None:
        pairs = value.items() if isinstance(value, dict) else value
        return [(counted(key, kind.key_type), counted(item, kind.item_type)) for key, item in pairs]
    if kind.num_fields == 1 and (isinstance(value, (list, tuple)) or has_texts(value)):
        return [counted(each, kind.field(0).type) for each in value]
    return value
