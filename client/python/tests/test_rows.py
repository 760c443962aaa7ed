"""Rows at hand: Python's values as columns of the training's types."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock._rows import record
from penstock._times import nanoseconds
from penstock.errors import DataError

pytestmark = pytest.mark.pure

TABLE = json.loads((Path(__file__).parents[3] / "api/times/testdata/times.json").read_text())
SCHEMA = pa.schema({
    "day": pa.date32(), "midnight": pa.date64(), "at": pa.timestamp("ms", "UTC"), "ns": pa.timestamp("ns"),
    "days": pa.list_(pa.date32()), "in": pa.struct({"at": pa.timestamp("s"), "x": pa.int32()}),
    "seen": pa.map_(pa.string(), pa.timestamp("us")), "name": pa.string(),
})  # fmt: skip


@pytest.mark.parametrize("text", TABLE)
def test_times_are_read_as_in_go(text: str) -> None:
    want = TABLE[text]
    if want is None:
        with pytest.raises(ValueError, match="is no time"):
            nanoseconds(text)
    else:
        assert nanoseconds(text) == want[0] * 1_000_000_000 + want[1]


@pytest.mark.parametrize(
    ("column", "texts", "counts"),
    [
        ("day", ["2024-01-31", None, "1969-12-31 12:00", datetime.date(1970, 1, 2), 2], [19753, None, -1, 1, 2]),
        ("day", np.array(["2024-01-31"]), [19753]),
        ("day", np.array(["2024-01-31", None], object), [19753, None]),
        ("midnight", ["1970-01-02T12:00:00Z"], [86_400_000]),
        ("at", ["1970-01-01T01:00:00.0019+01:00", datetime.datetime(1970, 1, 1)], [1, 0]),
        ("ns", ["1970-01-01 00:00:00.000000001"], [1]),
        ("days", [["1970-01-03", None], None, []], [[2, None], None, []]),
        ("days", [np.array(["1970-01-03"]), np.array([2], np.int32)], [[2], [2]]),
        ("in", [{"at": "1970-01-01 00:00:01", "x": 3}, None], [{"at": 1, "x": 3}, None]),
        ("seen", [{"a": "1970-01-01 00:00:01"}, [("b", None)], None], [[("a", 1_000_000)], [("b", None)], None]),
        ("name", ["2024-01-31"], ["2024-01-31"]),
    ],
)
def test_texts_are_dates_and_times_where_columns_are(column: str, texts: Any, counts: list[Any]) -> None:
    got = record({column: texts}, SCHEMA).column(0)
    assert got.equals(pa.array(counts, SCHEMA.field(column).type))


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (
            {"day": ["1970-01-01", "2024-02-30"]},
            r"column day, .*date32.*: row 1: '2024-02-30' is no time that there is",
        ),
        ({"at": ["noon"]}, "column at, .*: row 0: 'noon' is no time as ISO 8601 writes it"),
        ({"ns": ["2262-04-12"]}, "column ns, .*: row 0: '2262-04-12' is beyond the 64 bits"),
    ],
)
def test_texts_that_are_no_times(rows: dict[str, Any], words: str) -> None:
    with pytest.raises(DataError, match=words):
        record(rows, SCHEMA)
