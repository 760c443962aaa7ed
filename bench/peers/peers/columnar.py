"""The transforms in numpy, on whole columns of a batch: what DataLoader's and Ray's workers run. No Python per row.

It is written for speed, as someone would who knows numpy well: outputs have their final layout at once, hashes are
computed in place in pieces that stay in cache, and dividing by a constant, which numpy does with SIMD, replaces the
remainder.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from peers import photographs
from peers.recipe import Recipe

Array = np.ndarray[Any, Any]
Empty = Callable[[Any, Any], Array]
"""Makes an array of a shape and a dtype, as np.empty does: of what a batch keeps, in memory that processes share."""
PIECE = 1 << 15  # ids hashed at a time: 256 KiB of them, and of the scratch


@dataclass
class Columns:
    """A batch in few arrays, which are cheap to hand from process to process.

    Ragged tensor i has the values from starts[i] to starts[i + 1], and the offsets in row i.
    """

    row: Array
    label: Array
    dense: Array  # [rows, D]
    values: Array
    offsets: Array  # [tensors, rows + 1]
    starts: Array
    photos: Array  # [rows, H, W, 3]; of pack, what is encoded

    def parts(self) -> tuple[Array, ...]:
        """All arrays."""
        return self.row, self.label, self.dense, self.values, self.offsets, self.starts, self.photos


def pack(
    recipe: Recipe, batch: pa.RecordBatch, generated: int = 0, empty: Empty = np.empty, columns: Empty = np.empty
) -> Columns:
    """A batch of the files' columns as they are, but that dense ones lie one below the other, [D, rows].

    There is room for some generated features behind the ragged tensors. Memory of the dense ones is made by columns.
    """
    by_name = dict(zip(batch.schema.names, batch.columns, strict=True))
    rows = batch.num_rows
    lists = [ragged(by_name[name]) for name in recipe.sparse]
    starts = np.zeros(len(lists) + generated + 1, np.int64)
    np.cumsum([len(values) for values, _ in lists] + [rows] * generated, out=starts[1:])
    values = empty(int(starts[-1]), np.int64)
    offsets = empty((len(lists) + generated, rows + 1), np.int32)
    for i, (ids, bounds) in enumerate(lists):
        values[starts[i] : starts[i + 1]] = ids
        np.subtract(bounds, bounds[0], out=offsets[i])
    row, label = by_name[recipe.row].to_numpy(), by_name[recipe.label].to_numpy()
    photos = by_name[recipe.photo].to_numpy(zero_copy_only=False) if recipe.photo else np.empty(0, object)
    numbers = dense(recipe, by_name, columns((len(recipe.dense), rows), np.float32))
    return Columns(row, label, numbers, values, offsets, starts, photos)


def transform(recipe: Recipe, batch: pa.RecordBatch, empty: Empty = np.empty) -> Columns:
    """A batch of the files' columns, in tensor layout."""
    c, sparse = pack(recipe, batch, len(recipe.generated), empty), len(recipe.sparse)
    if recipe.buckets:
        sigrid_hash(c.values[: c.starts[sparse]], recipe.salt, recipe.buckets)
    c.offsets[sparse:] = np.arange(len(c.row) + 1, dtype=np.int32)
    for i, (_, source) in enumerate(recipe.generated, sparse):
        c.values[c.starts[i] : c.starts[i + 1]] = bucketize(c.dense[source], recipe.borders)
    if recipe.log:
        np.log1p(c.dense, out=c.dense)
    c.dense = transpose(c.dense, empty)
    c.photos = photographs.decoded(c.photos, recipe, empty) if recipe.photo else np.empty(0, np.uint8)
    return c


def ragged(column: pa.Array) -> tuple[Array, Array]:
    """Values and offsets of a list column, null rows of which are empty."""
    if column.null_count:
        column = column.fill_null([])
    return column.flatten().to_numpy(), column.offsets.to_numpy()


def dense(recipe: Recipe, by_name: dict[str, pa.Array], columns: Array) -> Array:
    """The dense columns one below the other, [D, rows], with nulls filled."""
    for out, name in zip(columns, recipe.dense, strict=True):
        column = by_name[name]
        if recipe.fill and column.null_count:
            column = column.fill_null(0)
        out[:] = column.to_numpy(zero_copy_only=False)  # nulls that are left become NaN
    return columns


def transpose(columns: Array, empty: Empty = np.empty) -> Array:
    """[D, rows] as [rows, D]: by squares that fit the cache, which is several times as fast as numpy's copy."""
    width, rows = columns.shape
    out = empty((rows, width), columns.dtype)
    side = 64
    for top in range(0, rows, side):
        for left in range(0, width, side):
            out[top : top + side, left : left + side] = columns[left : left + side, top : top + side].T
    return out


def bucketize(values: Array, borders: Array) -> Array:
    """How many borders lie below each value."""
    return np.searchsorted(borders, values, side="left")


def sigrid_hash(ids: Array, salt: int, buckets: int) -> None:
    """Hashes int64 ids in place, as TorchArrow's sigrid_hash: Thomas Wang's mix, then CityHash's of two words."""
    scratch = np.empty(PIECE, np.uint64)
    for begin in range(0, len(ids), PIECE):
        piece = ids[begin : begin + PIECE]
        _hash(piece.view(np.uint64), scratch[: len(piece)], np.uint64(salt))
        quotient = scratch[: len(piece)].view(np.int64)
        np.floor_divide(piece, buckets, out=quotient)
        quotient *= buckets
        piece -= quotient


def _hash(x: Array, t: Array, salt: np.uint64) -> None:
    """Hashes x in place with scratch t."""

    def xor_shifted(bits: int) -> None:
        np.right_shift(x, np.uint64(bits), out=t)
        np.bitwise_xor(x, t, out=x)

    np.left_shift(x, np.uint64(21), out=t)
    np.subtract(t, x, out=x)
    np.subtract(x, np.uint64(1), out=x)
    xor_shifted(24)
    np.multiply(x, np.uint64(265), out=x)
    xor_shifted(14)
    np.multiply(x, np.uint64(21), out=x)
    xor_shifted(28)
    np.left_shift(x, np.uint64(31), out=t)
    np.add(x, t, out=x)
    k = np.uint64(0x9DDFEA08EB382D69)
    np.bitwise_xor(x, salt, out=x)
    np.multiply(x, k, out=x)
    xor_shifted(47)
    np.bitwise_xor(x, salt, out=x)
    np.multiply(x, k, out=x)
    xor_shifted(47)
    np.multiply(x, k, out=x)
