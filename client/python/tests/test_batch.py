"""Batches are views of one Arrow record: the right numbers, and no copies."""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock._columns import Columns
from penstock._flat import Flat
from penstock._session import State
from penstock.batch import Batch, _views
from penstock.errors import UsageError
from penstock.position import Position

ROWS = 5


def _field(name: str, kind: pa.DataType, layout: str, **metadata: str) -> pa.Field:
    return pa.field(name, kind, nullable=False, metadata={"penstock.layout": layout, **metadata})


def _tensor(name: str, kind: pa.DataType, dtype: str, *shape: int) -> pa.Field:
    metadata = {"penstock.shape": ",".join(map(str, shape)), "penstock.dtype": dtype}
    return _field(name, pa.list_(kind, int(np.prod(shape))) if shape else kind, "tensor", **metadata)


def _padded(name: str, kind: pa.DataType, dtype: str, side: str, length: int) -> pa.Field:
    metadata = {"penstock.shape": str(length), "penstock.dtype": dtype, "penstock.side": side, "penstock.value": "-1"}
    both = pa.struct([("values", pa.list_(kind, length)), ("length", pa.int32())])
    return _field(name, both, "padded", **metadata)


def _bits(rows: Iterable[int]) -> np.ndarray[Any, Any]:
    """Of bfloat16: four values a row."""
    numbers = np.array([[i, -i, i / 2, 1] for i in rows], np.float32).reshape(-1, 4)
    return (numbers.view(np.uint32) >> 16).astype(np.uint16)


def _words(row: int) -> list[bytes]:
    return [b"x" * (row + j) for j in range(row % 3)]


def record(rows: int = ROWS) -> pa.RecordBatch:
    """Every layout of docs/internals/tensors.md, as a worker would send it."""
    weighted = pa.struct([("value", pa.int64()), ("weight", pa.float32())])
    fields = [
        _field("dense", pa.list_(pa.float32(), 2), "dense", **{"penstock.names": json.dumps(["a", "b"])}),
        _field("ids", pa.list_(pa.int64()), "sparse"),
        _field("scores", pa.list_(pa.float32()), "sparse"),
        _field("weighted", pa.list_(weighted), "sparse"),
        _field("click", pa.bool_(), "label"),
        _field("price", pa.float64(), "label"),
        _field("word", pa.binary(), "bytes"),
        _field("photo", pa.list_(pa.uint8(), 6), "image", **{"penstock.shape": "1,2,3"}),
        _tensor("half", pa.float16(), "float16", 2),
        _tensor("brain", pa.uint16(), "bfloat16", 2, 2),
        _tensor("flag", pa.uint8(), "bool"),
        _tensor("small", pa.uint32(), "uint32", 1),
        _padded("recent", pa.int64(), "int64", "left", 4),
        _padded("seen", pa.uint8(), "bool", "right", 2),
        _field("words", pa.list_(pa.binary()), "bytes"),
        pa.field("_file", pa.int32(), nullable=False),
        pa.field("_row", pa.int64(), nullable=False),
    ]
    columns = [
        pa.array([[i, i + 0.5] for i in range(rows)], fields[0].type),
        pa.array([list(range(i)) for i in range(rows)], fields[1].type),
        pa.array([[0.5] * (i % 2) for i in range(rows)], fields[2].type),
        pa.array([[{"value": i, "weight": i / 2}] * (i % 3) for i in range(rows)], fields[3].type),
        pa.array([i % 2 == 0 for i in range(rows)]),
        pa.array([i / 4 for i in range(rows)]),
        pa.array([b"w" * i for i in range(rows)], pa.binary()),
        pa.array([[i] * 6 for i in range(rows)], fields[7].type),
        pa.array([[np.float16(i), np.float16(i + 0.5)] for i in range(rows)], fields[8].type),
        pa.array(_bits(range(rows)).tolist(), fields[9].type),
        pa.array([i % 2 for i in range(rows)], pa.uint8()),
        pa.array([[i] for i in range(rows)], fields[11].type),
        pa.array(
            [{"values": [-1] * (4 - i % 5) + [i] * (i % 5), "length": i % 5} for i in range(rows)], fields[12].type
        ),
        pa.array(
            [{"values": [1] * (i % 3) + [0] * (2 - i % 3), "length": i % 3} for i in range(rows)], fields[13].type
        ),
        pa.array([_words(i) for i in range(rows)], pa.list_(pa.binary())),
        pa.array([7] * rows, pa.int32()),
        pa.array(range(100, 100 + rows), pa.int64()),
    ]
    return pa.record_batch(columns, schema=pa.schema(fields))


def batch(of: pa.RecordBatch | Flat, kind: str = "numpy") -> Batch:
    rows = of if isinstance(of, Flat) else Flat.of(of)
    return Batch(rows, Columns(rows.form), 3, Position(3, 0, None, lambda: State("", "s", 0, 1, 3)), kind)


def check(b: Batch, lo: int, to_numpy: Callable[[Any], Any] = np.asarray) -> None:
    """B is rows lo and on of record()."""
    n = to_numpy
    rows = np.arange(lo, lo + len(b))
    np.testing.assert_array_equal(n(b.dense), np.stack([rows, rows + 0.5], axis=1))
    assert n(b.dense).dtype == np.float32
    assert b.dense_names == ("a", "b")
    assert list(b.sparse) == ["ids", "scores", "weighted"]
    ids = b.sparse["ids"]
    np.testing.assert_array_equal(n(ids.values), np.concatenate([np.arange(i) for i in rows]))
    np.testing.assert_array_equal(n(ids.offsets), np.concatenate([[0], np.cumsum(rows)]))
    np.testing.assert_array_equal(n(ids.lengths), rows)
    assert (n(ids.values).dtype, n(ids.offsets).dtype, ids.weights) == (np.int64, np.int32, None)
    assert n(b.sparse["scores"].values).dtype == np.float32
    np.testing.assert_array_equal(n(b.sparse["scores"].lengths), rows % 2)
    weighted = b.sparse["weighted"]
    np.testing.assert_array_equal(n(weighted.values), np.repeat(rows, rows % 3))
    np.testing.assert_array_equal(n(weighted.weights), np.repeat(rows, rows % 3) / 2)
    np.testing.assert_array_equal(n(b.labels["click"]), rows % 2 == 0)
    assert n(b.labels["click"]).dtype == np.bool_
    np.testing.assert_array_equal(n(b.labels["price"]), rows / 4)
    assert list(b.bytes["word"]) == [b"w" * i for i in rows]
    np.testing.assert_array_equal(n(b.bytes["word"].offsets), np.concatenate([[0], np.cumsum(rows)]))
    assert bytes(n(b.bytes["word"].data)) == b"w" * int(rows.sum())
    assert b.bytes["word"].row_offsets is None
    words = b.bytes["words"]
    assert list(words) == [_words(i) for i in rows.tolist()]
    lengths = [len(word) for i in rows.tolist() for word in _words(i)]
    np.testing.assert_array_equal(n(words.offsets), np.cumsum([0, *lengths]))
    np.testing.assert_array_equal(n(words.row_offsets), np.cumsum([0, *(rows % 3)]))
    assert bytes(n(words.data)) == b"x" * sum(lengths)
    assert n(b.images["photo"]).shape == (len(b), 1, 2, 3)
    assert n(b.images["photo"]).dtype == np.uint8
    np.testing.assert_array_equal(n(b.images["photo"])[:, 0, 1, 2], rows)
    np.testing.assert_array_equal(n(b.files), [7] * len(b))
    np.testing.assert_array_equal(n(b.rows), 100 + rows)
    check_tensors(b, rows, n)


def check_tensors(b: Batch, rows: np.ndarray[Any, Any], n: Callable[[Any], Any]) -> None:
    assert list(b.tensors) == ["half", "brain", "flag", "small"]
    np.testing.assert_array_equal(n(b.tensors["half"]), np.stack([rows, rows + 0.5], axis=1))
    assert n(b.tensors["half"]).dtype == np.float16
    assert n(b.tensors["brain"]).dtype.itemsize == 2
    np.testing.assert_array_equal(n(b.tensors["brain"]).view(np.uint16), _bits(rows).reshape(-1, 2, 2))
    np.testing.assert_array_equal(n(b.tensors["flag"]), rows % 2 == 1)
    assert n(b.tensors["flag"]).dtype == np.bool_
    np.testing.assert_array_equal(n(b.tensors["small"]), rows[:, None])
    assert n(b.tensors["small"]).dtype == np.uint32
    recent, seen = b.padded["recent"], b.padded["seen"]
    np.testing.assert_array_equal(n(recent.lengths), rows % 5)
    assert n(recent.lengths).dtype == np.int32
    np.testing.assert_array_equal(n(recent.mask), np.arange(4) >= 4 - rows[:, None] % 5)
    np.testing.assert_array_equal(n(recent.values), np.where(n(recent.mask), rows[:, None], -1))
    np.testing.assert_array_equal(n(seen.mask), np.arange(2) < rows[:, None] % 3)
    np.testing.assert_array_equal(n(seen.values), n(seen.mask))
    assert n(seen.values).dtype == n(seen.mask).dtype == np.bool_
    assert recent.mask is b.padded["recent"].mask, "made once"


@pytest.mark.parametrize(("lo", "hi"), [(0, ROWS), (0, 3), (2, 4), (1, 2)])
def test_numpy(lo: int, hi: int) -> None:
    """Also of records that were cut out of larger ones, whose offsets do not begin at 0."""
    check(batch(record().slice(lo, hi - lo)), lo)


@pytest.mark.parametrize("rows", [1, 2])
def test_jagged_features_without_values(rows: int) -> None:
    b = batch(record(rows).slice(0, 1))
    assert len(b.sparse["ids"].values) == len(b.bytes["word"].data) == 0
    np.testing.assert_array_equal(b.sparse["ids"].offsets, [0, 0])
    np.testing.assert_array_equal(b.bytes["word"].offsets, [0, 0])
    np.testing.assert_array_equal(b.bytes["words"].row_offsets, [0, 0])
    np.testing.assert_array_equal(b.bytes["words"].offsets, [0])


def test_views_share_the_records_memory() -> None:
    of = record()
    b = batch(of)
    where = {buffer.address for column in of.columns for buffer in column.buffers() if buffer is not None}
    arrays = [b.dense, b.labels["price"], b.images["photo"], b.rows, b.bytes["word"].data, *b.tensors.values()]
    arrays += [a for f in b.padded.values() for a in (f.values, f.lengths)]
    arrays += [a for f in b.sparse.values() for a in (f.values, f.weights) if a is not None]
    assert {a.__array_interface__["data"][0] for a in arrays} <= where
    assert not any(a.flags.writeable for a in arrays)
    assert b.dense is b.dense, "made once"


@pytest.mark.parametrize("kind", ["numpy", "arrow"])
def test_pickled(kind: str) -> None:
    b = batch(record(), kind)
    assert b.dense is not None  # made before
    again = pickle.loads(pickle.dumps(b))
    check(again.numpy(), 0)
    assert (again.position, again.epoch, repr(again)) == (b.position, b.epoch, repr(b))
    assert again.position._state() == b.position._state()
    assert copy.deepcopy(b).position is copy.copy(b).position is b.position


def test_arrow() -> None:
    of = record()
    b = batch(of, "arrow")
    assert b.to_arrow() is of
    assert b.dense.equals(of.column("dense"))
    assert b.sparse["ids"].values.to_pylist() == [0, 0, 1, 0, 1, 2, 0, 1, 2, 3]
    assert b.sparse["ids"].lengths.to_pylist() == [0, 1, 2, 3, 4]
    assert b.labels["click"].type == pa.bool_()
    for name in b.tensors:
        assert b.tensors[name].equals(of.column(name))
    recent = b.padded["recent"]
    assert (recent.values.to_pylist()[1:3], recent.lengths.to_pylist()) == (
        [[-1, -1, -1, 1], [-1, -1, 2, 2]],
        [0, 1, 2, 3, 4],
    )
    assert recent.mask.to_pylist()[1:3] == [[False, False, False, True], [False, False, True, True]]
    assert repr(recent) == "Padded('recent', rows=5, length=4, side='left')"
    check(b.numpy(), 0)


def test_a_record_of_arrays() -> None:
    """What a session's arrays are as Arrow has them, also of none."""
    for rows in (ROWS, 0):
        of = Flat.of(record(rows))
        again = Flat(of.form, rows, of.parts).to_arrow()
        again.validate(full=True)
        assert again.equals(record(rows))
        assert batch(again).padded["recent"].values.shape == (rows, 4)


@pytest.mark.parametrize(
    ("installed", "dtype"), [(SimpleNamespace(bfloat16=np.dtype("V2")), np.dtype("V2")), (None, np.dtype(np.uint16))]
)
def test_numpys_bfloat16(
    installed: object, dtype: object, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """It is that of ml_dtypes where that is installed: here something of as many bytes stands for it."""
    monkeypatch.setitem(sys.modules, "ml_dtypes", installed)
    _views.cache_clear()
    request.addfinalizer(_views.cache_clear)
    assert batch(record()).tensors["brain"].dtype == dtype


def test_repr() -> None:
    kinds = "dense=[5, 2], sparse=3, labels=2, bytes=2, images=1, tensors=4, padded=2"
    assert repr(batch(record())) == f"Batch(rows=5, epoch=3, {kinds})"


def test_views_are_not_pickled() -> None:
    """What is there anyhow does not go along, though all arrays are made once one is looked at."""
    b = batch(record(200))
    before = len(pickle.dumps(b))
    assert b.dense is not None
    assert b.sparse["ids"] is not None
    assert len(pickle.dumps(b)) == before
    assert not pickle.loads(pickle.dumps(b)).dense.flags.writeable


def test_parts_of_rows() -> None:
    part = pa.field("_part", pa.int32(), nullable=False)
    parts = record().select(["_row"]).append_column(part, pa.array([0, 1, 2, 0, 0], pa.int32()))
    assert batch(parts).parts.tolist() == [0, 1, 2, 0, 0]


def test_what_a_batch_has_not() -> None:
    b = batch(record().select(["price", "click", "ids"]))
    assert repr(b) == "Batch(rows=5, epoch=3, sparse=1, labels=2)"
    with pytest.raises(UsageError, match=r"penstock\.dense"):
        _ = b.dense
    with pytest.raises(UsageError, match="provenance=True"):
        _ = b.rows
    with pytest.raises(UsageError, match="flat_map"):
        _ = batch(record().select(["_file", "_row"])).parts
    with pytest.raises(UsageError, match="price, click"):
        _ = b.label
    with pytest.raises(KeyError, match="there are: ids"):
        b.sparse["id"]
    with pytest.raises(UsageError, match='format="torch"'):
        b.to("cpu")


def test_a_batch_is_no_tuple_and_no_dictionary() -> None:
    b = batch(record())
    with pytest.raises(TypeError, match=r"use batch\.dense, batch\.sparse\['ids'\], .*, or have .* map=lambda batch:"):
        _, _ = b  # type: ignore[misc]
    with pytest.raises(TypeError, match=r"use batch\.tensors\['flag'\], batch\.padded\['recent'\]\.values, or"):
        batch(record().select(["flag", "recent"]))["flag"]  # type: ignore[index]
    with pytest.raises(TypeError, match=r"batch\.label, or"):
        batch(record().select(["price", "ids"]))["price"]  # type: ignore[index]
    assert not isinstance(b, Iterable)  # else frameworks look for tensors in it


def test_the_only_label() -> None:
    b = batch(record().select(["price"]))
    assert b.label is b.labels["price"]


def test_what_a_batch_holds_is_known_without_pandas(tmp_path: Path) -> None:
    """To import it takes longer than a first batch."""
    (tmp_path / "pandas.py").write_text("raise SystemExit('pandas is imported')")
    program = "import pyarrow; from penstock._flat import Form; Form(pyarrow.schema({'a': pyarrow.float32()}))"
    subprocess.run([sys.executable, "-c", program], check=True,
                   env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])})  # fmt: skip
