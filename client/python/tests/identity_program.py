"""A module of functions that refer to all kinds of things; as a program it prints the digest of each."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import functools
import json
import logging
import math
import operator
import pathlib
import re
import sys
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

WORDS = {"the", "a", "of", "and", "to", "in", "is", "it"}
FROZEN = frozenset([("a", 1), ("b", 2), ("c", None), "d", 1.5, b"e"])
TABLE = {"x": [1, 2, {"y": (3, 4)}], "z": {"p", "q", "r"}}
ARRAY = np.arange(12, dtype=np.float32).reshape(3, 4)
OBJECTS = np.array(["a", None, ("b", 1)], object)
COLUMN = pa.array(["a", None, "c"])
PATTERN = re.compile(r"\w+", re.IGNORECASE)
WHEN = datetime.datetime(2026, 1, 2, tzinfo=datetime.timezone.utc)
PATH = pathlib.PurePosixPath("/a/b")
PRICE = decimal.Decimal("1.10")
COUNTS = collections.Counter("hello")
SUMS: collections.defaultdict[str, int] = collections.defaultdict(int, a=1)
log = logging.getLogger(__name__)
LOOP: list[Any] = [1]
LOOP.append(LOOP)


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Pair(NamedTuple):
    a: int
    b: str = "x"


@dataclasses.dataclass
class Rule:
    name: str
    words: set[str] = dataclasses.field(default_factory=lambda: {"p", "q", "r"})

    def holds(self, text: str) -> bool:
        return text in self.words


RULES = [Rule("a"), Rule("b", {"x", "y", "z"})]


@functools.lru_cache(maxsize=8)
def cached(x: int) -> int:
    return x + 1


def even(n: int) -> bool:
    return n == 0 or odd(n - 1)


def odd(n: int) -> bool:
    return n != 0 and even(n - 1)


def scaled(by: float) -> Any:
    names = {"u", "v", "w"}

    def scale(x: Any) -> Any:
        return x * by if "u" in names else x

    return scale


by_two = scaled(2.0)
tenth = functools.partial(operator.mul, 0.1)


def uses_values(x: Any) -> Any:
    log.debug("%s", x)
    values = (WORDS, FROZEN, TABLE, ARRAY, OBJECTS, COLUMN, PATTERN, WHEN, PATH, PRICE, COUNTS, SUMS, LOOP)
    return (values, x in {"inline", "set", "of", "strings"}, len, math.pi, np.add, pc.add, json.dumps, str.upper)


def uses_classes(x: Any) -> Any:
    return Color.RED, Pair(1), RULES, Rule("c"), x


def uses_functions(x: Any, *, key: Any = lambda v: v + 1) -> Any:
    return [cached(1), even(4), by_two(x), tenth(x), key(x), sorted(WORDS)]


class Score:
    """A class."""

    words = WORDS

    def __init__(self, path: str, *, by: float = 1.0) -> None:
        self.path, self.by = path, by

    @property
    def shown(self) -> str:
        return f"{self.path} {pathlib.Path(__file__).name}"

    @staticmethod
    def double(x: Any) -> Any:
        return x * 2

    def __call__(self, x: Any) -> Any:
        import fractions

        return self.double(x), fractions.Fraction(1), super().__repr__()


ENTRIES: list[tuple[str, Any]] = [
    ("uses_values", {"call": uses_values}), ("uses_classes", {"call": uses_classes}),
    ("uses_functions", {"call": uses_functions, "kwargs": {"key": odd}}),
    ("Score", {"call": Score, "args": ("model.bin",), "kwargs": {"by": 2.0}}), ("by_two", {"call": by_two}),
    ("tenth", {"call": tenth}), ("instance", {"call": Score("x")}), ("method", {"call": RULES[0].holds}),
]  # fmt: skip


if __name__ == "__main__":
    from penstock import _identity

    json.dump(_identity.of(ENTRIES), sys.stdout)
