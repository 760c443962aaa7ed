"""Batches are one copy in aligned memory, which is used again only when nothing sees it any more."""

from __future__ import annotations

import ctypes
import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock._flat import Flat
from penstock._session.blocks import ALIGNMENT, Blocks
from penstock._session.rebatch import Rebatcher, Slice
from tests.test_batch import batch, record

ROWS, WIDTH, LARGE = 512, 600, 1 << 20


def _large(seed: int, rows: int = ROWS) -> pa.RecordBatch:
    """Dense values, an image and a list, different for each seed."""
    rng = np.random.default_rng(seed)
    kinds = [pa.list_(pa.field("item", pa.float32(), nullable=False), WIDTH), pa.list_(pa.uint8(), LARGE // ROWS)]
    schema = pa.schema([
        pa.field("dense", kinds[0], nullable=False, metadata={"penstock.layout": "dense"}),
        pa.field("ids", pa.list_(pa.int64()), nullable=False),
        pa.field("photo", kinds[1], nullable=False),
    ])  # fmt: skip
    ends = np.concatenate([[0], np.cumsum(rng.integers(0, 5, rows))]).astype(np.int32)
    columns = [
        pa.FixedSizeListArray.from_arrays(pa.array(rng.random(rows * WIDTH, np.float32)), type=kinds[0]),
        pa.ListArray.from_arrays(
            pa.array(ends), pa.array(rng.integers(0, 1 << 40, ends[-1])), type=schema.field(1).type
        ),
        pa.FixedSizeListArray.from_arrays(
            pa.array(rng.integers(0, 255, rows * LARGE // ROWS, np.uint8)), type=kinds[1]
        ),
    ]
    return pa.record_batch(columns, schema=schema)


def join(rebatcher: Rebatcher, records: list[pa.RecordBatch]) -> pa.RecordBatch:
    return rebatcher.join([Slice(Flat.of(r), 0, r.num_rows) for r in records]).to_arrow()


def _cut(of: pa.RecordBatch, size: int) -> list[pa.RecordBatch]:
    return [of.slice(i, size) for i in range(0, of.num_rows, size)]


def _misaligned(of: pa.RecordBatch) -> pa.RecordBatch:
    """The record with its first column's values at an odd address, as a message may bring them."""
    values = of.column(0).flatten()
    memory = np.zeros(values.nbytes + 65, np.uint8)
    begin = -int(memory.ctypes.data) % 64 + 1
    memory[begin : begin + values.nbytes] = values.to_numpy().view(np.uint8)
    moved = pa.Array.from_buffers(values.type, len(values), [None, pa.py_buffer(memory[begin : begin + values.nbytes])])
    first = pa.FixedSizeListArray.from_arrays(moved, type=of.schema.field(0).type)
    return pa.RecordBatch.from_arrays([first, *of.columns[1:]], schema=of.schema)


@pytest.mark.parametrize("size", [1, 7, 100, ROWS])
@pytest.mark.parametrize("of", [_large(0), _misaligned(_large(1)), record(), _large(2).select(["dense"])])
def test_rows_and_layout_are_those_of_the_records(of: pa.RecordBatch, size: int) -> None:
    joined = join(Rebatcher(), _cut(of, size))
    joined.validate(full=True)
    assert joined.equals(of, check_metadata=True)
    assert joined.schema.equals(of.schema, check_metadata=True)
    for column in joined.columns:
        assert column.offset == 0
        assert all(b is None or b.address % ALIGNMENT == 0 for b in column.buffers())
    received = {b.address for column in of.columns for b in column.buffers() if b}
    assert received.isdisjoint(b.address for column in joined.columns for b in column.buffers() if b and b.size)


def _address(of: pa.RecordBatch) -> int:
    return int(of.column(0).flatten().buffers()[1].address)


def test_memory_is_used_again() -> None:
    rebatcher, seen = Rebatcher(), set()
    for seed in range(6):
        seen.add(_address(join(rebatcher, _cut(_large(seed), 100))))
    assert len(seen) == 1


def test_a_session_goes_on_with_the_memory_of_another() -> None:
    """Until the last one is closed: fresh memory costs more than to fill it."""
    first, second = Rebatcher(), Rebatcher()
    address = _address(join(first, _cut(_large(0), 100)))
    del first
    assert _address(join(second, _cut(_large(1), 100))) == address
    pool = weakref.ref(second._blocks)
    del second
    assert pool() is None


def test_short_batches_take_no_block_that_is_much_too_large() -> None:
    blocks = Blocks(2)
    assert blocks.take(1000).size == 1000
    assert blocks.take(600).size == 600  # of the block that came back
    kept = blocks.take(499)
    assert kept.size == 499
    assert blocks.take(1000).size == 1000


@pytest.mark.parametrize(
    "view",
    [
        lambda r: r,
        lambda r: batch(r).dense,
        lambda r: batch(r).dense[3:4, 5:].T,
        lambda r: r.column(0).flatten(),
        lambda r: r.slice(5, 1),
        lambda r: r.column(0).flatten().buffers()[1],
        lambda r: memoryview(r.column(0).flatten().buffers()[1]),
        lambda r: np.from_dlpack(r.column(0).flatten()),
        lambda r: pa.Table.from_batches([r]),
    ],
)
def test_whoever_sees_a_batch_keeps_its_memory(view: Callable[[pa.RecordBatch], Any]) -> None:
    rebatcher, of = Rebatcher(), named(0)
    first = join(rebatcher, _cut(of, 100))
    address, kept = _address(first), view(first)
    del first
    gc.collect()
    others = [join(rebatcher, _cut(named(seed), 100)) for seed in range(1, 4)]
    assert address not in map(_address, others)
    assert ctypes.string_at(address, ROWS * WIDTH * 4) == of.column(0).flatten().to_numpy().tobytes()
    del kept
    gc.collect()
    assert _address(join(rebatcher, _cut(named(4), 100))) == address, "comes back"


def named(seed: int) -> pa.RecordBatch:
    """As _large, with the metadata that a Batch reads."""
    of = _large(seed)
    names = b"[" + b",".join(b'"d%d"' % i for i in range(WIDTH)) + b"]"
    field = of.schema.field(0).with_metadata({"penstock.layout": "dense", "penstock.names": names})
    return pa.RecordBatch.from_arrays(of.columns, schema=of.schema.set(0, field))


def test_batches_that_other_threads_keep_do_not_change() -> None:
    """Threads hold some batches and let go of others, while more are made."""
    rebatcher, lock, wrong = Rebatcher(), threading.Lock(), list[int]()
    inputs = [_large(seed) for seed in range(4)]
    waiting: list[tuple[int, np.ndarray[Any, Any]]] = []
    done = threading.Event()

    def check() -> None:
        while not (done.is_set() and not waiting):
            with lock:
                seed, values = waiting.pop(0) if len(waiting) > 3 or (done.is_set() and waiting) else (-1, np.empty(0))
            if seed >= 0 and not np.array_equal(values, inputs[seed].column(0).flatten().to_numpy()):
                wrong.append(seed)
            del values

    threads = [threading.Thread(target=check) for _ in range(2)]
    for t in threads:
        t.start()
    try:
        for i in range(60):
            joined = join(rebatcher, _cut(inputs[i % 4], 100))
            with lock:
                waiting.append((i % 4, joined.column(0).flatten().to_numpy()))
            del joined
    finally:
        done.set()
        for t in threads:
            t.join()
    assert wrong == []
