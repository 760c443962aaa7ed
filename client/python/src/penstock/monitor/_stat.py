"""Stat: figures of every batch, logged as one event per window.

It stands between the loader's inner loop, which adds, and `_event`, which takes the aggregates to the handlers. A Stat
may be used from any thread. add() appends to a deque, which whoever holds the lock takes into the aggregates, many
values at a time: that is several times cheaper than one by one. Events are logged outside the lock, so that a handler
may use the Stat as well.
"""

from __future__ import annotations

import atexit
import collections
import dataclasses
import enum
import math
import os
import threading
import time
from collections.abc import Callable, Iterable
from typing import TypeAlias

from penstock.monitor._event import Event, log_event

STAT_EVENT = "penstock.Stat"
"""The type of the events that Stat logs. Their metadata are figures only: "NAME.AGGREGATION" to float."""

DEFAULT_WINDOW = 60.0

_PENDING = 128  # values that add() leaves for later


class Aggregation(enum.Enum):
    """What becomes of the values of a window."""

    VALUE = "value"  # the last one
    MEAN = "mean"
    COUNT = "count"
    SUM = "sum"
    MIN = "min"
    MAX = "max"


@dataclasses.dataclass(frozen=True)
class Percentile:
    """The value that q percent of a window's values do not exceed; 0 < q <= 100. See Stat for its error."""

    q: float

    def __post_init__(self) -> None:
        if not 0 < self.q <= 100:
            raise ValueError(f"percentile {self.q}: give a number above 0 and up to 100, such as 99.9")

    @property
    def value(self) -> str:
        """Its name in events, such as "p99"."""
        return f"p{self.q:g}"


P50, P90, P95, P99 = Percentile(50), Percentile(90), Percentile(95), Percentile(99)

Aggregate: TypeAlias = Aggregation | Percentile

# Buckets whose limits grow by this factor hold each value within ACCURACY of their middle.
ACCURACY = 0.01
_GROWTH = (1 + ACCURACY) / (1 - ACCURACY)
_PER_LOG = 1 / math.log(_GROWTH)
# Nearer to zero than _TINY, values share bucket 0; from _HUGE on, bucket _TOP. Buckets of negative values are negative.
_TINY, _HUGE = 1e-12, 1e18
_OFFSET = 1 - math.floor(math.log(_TINY) * _PER_LOG)
_TOP = int(math.log(_HUGE) * _PER_LOG + _OFFSET) + 1


_begun: set[Stat] = set()  # those with a window that is not logged yet, also when nobody else holds them


def _flush_all() -> None:
    for stat in list(_begun):
        stat.flush()


atexit.register(_flush_all)
os.register_at_fork(after_in_child=_begun.clear)  # what they hold is the parent's to log


class Stat:
    """Aggregates of what was added in a window of window_seconds, logged as a STAT_EVENT when the window is over.

    The window begins with its first value. A window that is over is logged by the next add(), or by get(), count or
    flush(), the last one at the latest when the process ends; a window without values is not logged. Values beyond
    max_samples (0: no limit) are left out until the window ends, so that counts of windows compare.

    Memory is bounded, whatever is added: percentiles come from a histogram with limits that grow by 2%. Each is within
    1% of the value at its rank (the smallest value that at least q percent do not exceed), for magnitudes of 1e-12 to
    1e18; smaller ones count as 0, larger ones as the window's extreme. NaN has no rank and is left out of them.
    """

    def __init__(
        self,
        name: str,
        aggregations: Iterable[Aggregate],
        window_seconds: float = DEFAULT_WINDOW,
        max_samples: int = 0,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self.aggregations: tuple[Aggregate, ...] = tuple(aggregations)
        if not self.aggregations or window_seconds <= 0 or max_samples < 0:
            raise ValueError(
                f"stat {name!r}: needs at least one aggregation, window_seconds above 0 and max_samples of 0 or more; "
                f"got {self.aggregations}, {window_seconds}, {max_samples}"
            )
        self.window_seconds = window_seconds
        self._most = max_samples or math.inf
        self._clock = clock
        self._lock = threading.RLock()
        self._ranked = any(isinstance(a, Percentile) for a in self.aggregations)
        self._pending: collections.deque[float] = collections.deque()
        self._reset()

    def _reset(self) -> None:
        self._ends = -math.inf  # no window has begun
        self._count = 0
        self._last = self._sum = 0.0
        self._min, self._max = math.inf, -math.inf
        self._buckets: dict[int, int] = {}

    def add(self, value: float) -> None:
        """Takes a value into the present window, in about half a microsecond."""
        now = self._clock()
        if now >= self._ends:
            self._begin(now)
        self._pending.append(value)
        if len(self._pending) >= _PENDING:
            with self._lock:
                self._take()

    def _begin(self, now: float) -> None:
        """Begins a window, and ends and logs the one before if it is over."""
        ended: Event | None = None
        with self._lock:
            if now >= self._ends:
                ended = self._end() if self._ends > -math.inf else None
                self._ends = now + self.window_seconds
                _begun.add(self)
        if ended is not None:
            log_event(ended)

    def _take(self) -> None:
        """Takes what is pending into the aggregates. The lock must be held: add() may append, but nobody else take."""
        values = [self._pending.popleft() for _ in range(len(self._pending))]
        if self._count + len(values) > self._most:
            values = values[: int(self._most) - self._count]
        if not values:
            return
        self._count += len(values)
        self._last = values[-1]
        total = sum(values)
        self._sum += total
        if total != total:  # NaN is neither least nor most, and has no rank
            values = [v for v in values if v == v]
        self._min, self._max = min([self._min, *values]), max([self._max, *values])
        if self._ranked:
            log, buckets = math.log, self._buckets
            for v in values:
                bucket = int(log(v) * _PER_LOG + _OFFSET) if _TINY <= v < _HUGE else _other_bucket(v)
                buckets[bucket] = buckets.get(bucket, 0) + 1

    def get(self) -> dict[Aggregate, float]:
        """The aggregates of the window so far; 0 for each where it has no values."""
        self._log_if_over()
        with self._lock:
            self._take()
            return {a: self._aggregate(a) for a in self.aggregations}

    @property
    def count(self) -> int:
        """How many values the window has so far."""
        self._log_if_over()
        with self._lock:
            self._take()
            return self._count

    def flush(self) -> None:
        """Ends the window now and logs it, unless it is empty."""
        with self._lock:
            ended = self._end()
        if ended is not None:
            log_event(ended)

    def _log_if_over(self) -> None:
        if self._clock() >= self._ends:
            self.flush()

    def _end(self) -> Event | None:
        """Ends the window and returns its event. The lock must be held."""
        self._take()
        _begun.discard(self)
        if self._count == 0:
            self._reset()
            return None
        metadata = {f"{self.name}.{a.value}": float(self._aggregate(a)) for a in self.aggregations}
        message = ", ".join(f"{a.value} {metadata[f'{self.name}.{a.value}']:.6g}" for a in self.aggregations)
        self._reset()
        return Event(STAT_EVENT, f"{self.name}: {message}", metadata=metadata)

    def _aggregate(self, a: Aggregate) -> float:
        if self._count == 0:
            return 0.0
        if isinstance(a, Percentile):
            return self._percentile(a.q)
        match a:
            case Aggregation.VALUE:
                return self._last
            case Aggregation.MEAN:
                return self._sum / self._count
            case Aggregation.COUNT:
                return self._count
            case Aggregation.SUM:
                return self._sum
            case Aggregation.MIN:
                return self._min if self._min <= self._max else math.nan
            case Aggregation.MAX:
                return self._max if self._min <= self._max else math.nan

    def _percentile(self, q: float) -> float:
        left = math.ceil(sum(self._buckets.values()) * q / 100)
        for bucket in sorted(self._buckets):
            left -= self._buckets[bucket]
            if left <= 0:
                return min(max(_middle(bucket), self._min), self._max)
        return math.nan  # nothing but NaN was added


def _other_bucket(value: float) -> int:
    """The bucket of a value that is not positive, or beyond the limits."""
    if -_HUGE < value <= -_TINY:
        return -int(math.log(-value) * _PER_LOG + _OFFSET)
    if abs(value) < _TINY:
        return 0
    return _TOP if value > 0 else -_TOP


def _middle(bucket: int) -> float:
    """The value that is within ACCURACY of all in a bucket."""
    if bucket == 0:
        return 0.0
    if abs(bucket) == _TOP:
        return math.copysign(math.inf, bucket)
    size = 2 * _GROWTH ** (abs(bucket) - _OFFSET + 1) / (_GROWTH + 1)
    return math.copysign(size, bucket)
