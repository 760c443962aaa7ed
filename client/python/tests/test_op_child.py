"""What the process of a worker's functions does with columns, without a worker: how results lie, and come back."""

from __future__ import annotations

import json
import os
import random
import socket
import struct
import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock import _op_child
from penstock._op_call import Function
from penstock._op_values import Declared

pytestmark = pytest.mark.every_python


def crossed(array: pa.Array) -> pa.Array:
    """An array as it comes back from a segment."""
    pieces: list[Any] = []
    _op_child._lay_out(array, pieces)
    places, end = _op_child._placed(pieces)
    segment: Any = bytearray(end)
    for at, piece in zip(places[::2], pieces, strict=True):
        if piece is not None:
            segment[at : at + len(piece)] = piece
    assert all(at % 64 == 0 for at in places[::2] if at >= 0)
    (back,) = _op_child._columns(pa.py_buffer(segment), [array.type], len(array), places)
    assert isinstance(back, pa.Array)
    back.validate(full=True)
    return back


VALUES = [
    (pa.int8(), [1, -2, None]),
    (pa.float64(), [0.5, None, -1.0]),
    (pa.float16(), [np.float16(0.5), None, np.float16(2)]),
    (pa.bool_(), [True, False, None, True]),
    (pa.string(), ["a", "", None, "bcd"]),
    (pa.binary(), [b"\xff", None, b"", b"xyz"]),
    (pa.list_(pa.int32()), [[1, 2], [], None, [3, None]]),
    (pa.list_(pa.bool_()), [[True, None], None, [False, False, True]]),
    (pa.list_(pa.list_(pa.string())), [[["a"], None, []], None, [], [["b", None]]]),
]


@pytest.mark.parametrize(("kind", "values"), VALUES, ids=[str(kind) for kind, _ in VALUES])
def test_arrays_cross_wherever_they_begin(kind: pa.DataType, values: list[object]) -> None:
    draw = random.Random(1)
    for nulls in (True, False):
        some = values if nulls else [value for value in values if value is not None and None not in _parts(value)]
        whole = pa.array([draw.choice(some) for _ in range(100)], kind)
        for start, count in [(0, 100), (0, 0), (1, 99), (8, 17), (13, 40), (99, 1), (100, 0)]:
            part = whole.slice(start, count)
            assert crossed(part).equals(part)


def _parts(value: object) -> list[object]:
    return [part for each in value for part in [each, *_parts(each)]] if isinstance(value, list) else []


def test_nothing_is_left_below_a_null_list() -> None:
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 4, 5], pa.int32()), pa.array([1, 2, 3, 4, 5]))
    below = pa.Array.from_buffers(
        lists.type, 3, [pa.py_buffer(b"\x05"), lists.buffers()[1]], children=[lists.values]
    )  # the second is null, and has two elements
    back = crossed(below)
    assert back.to_pylist() == [[1, 2], None, [5]]
    assert np.frombuffer(back.buffers()[1], np.int32).tolist() == [0, 2, 2, 3]


def test_array_without_buffers_crosses() -> None:
    for kind in (pa.int64(), pa.string(), pa.list_(pa.int8()), pa.bool_()):
        assert crossed(pa.array([], kind)).equals(pa.array([], kind))


@pytest.mark.parametrize("text", ["a", "\x01", "\\", "日", "\U0001f600", "\udcff"], ids=ascii)
def test_what_failed_rows_say_fits_an_answer(text: str) -> None:
    """However long the words of as many rows as may be left out of a window, and of the one that ends the call."""

    def fail(row: int) -> None:
        raise ValueError(f"row {row}: {text * 100_000}")

    most = 4096
    spared = _op_child._Spared(most, lambda: None)
    function = Function({"call": fail}, "rows", [Declared("int64")], "fail")
    with pytest.raises(ValueError, match=f"row {most}: ") as ended:
        function.call([pa.array(range(most + 1))], most + 1, None, spared.sparing)
    answer = {**_op_child._raised(most, ended.value), "failed": spared.told(), "number": 1}
    body = _op_child._encoded(answer)
    assert len(body) <= 1 << 20  # maxMessage of worker/python/protocol.go
    assert json.loads(body) == answer
    assert len(answer["message"]) == 8_000
    failed = answer["failed"]
    assert [said["row"] for said in failed] == list(range(most))
    assert [len(said.get("message", "")) for said in failed] == [1_000] * 8 + [0] * (most - 8)
    assert all(said["message"].startswith(f"row {row}: {text}") for row, said in enumerate(failed[:8]))


def test_the_process_ends_with_its_socket() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        child = subprocess.Popen(
            [
                sys.executable,
                "-c",
                f"import os; os.dup2({theirs.fileno()}, 3); from penstock import _op_child as c; c.main()",
            ],
            pass_fds=[theirs.fileno()],
            env={**os.environ, "OMP_NUM_THREADS": "2", "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        theirs.close()
        size = struct.unpack("<I", ours.recv(4, socket.MSG_WAITALL))[0]
        assert b'"kind": "hello"' in ours.recv(size, socket.MSG_WAITALL)
    assert child.wait(60) == 0
