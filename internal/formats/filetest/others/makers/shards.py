"""Mosaic's MDS."""

from __future__ import annotations

import io
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from PIL import Image
from streaming import LocalDataset, MDSWriter

from makers.case import Cases, by, picture, text, tool

Row = dict[str, Any]
PLAIN = {
    "id": "int", "name": "str", "data": "bytes", "image": "jpeg", "meta": "json", "score": "float32",
    "weight": "float64",
    "half": "float16", "small": "int8", "byte": "uint8", "count": "int32",
    "big": "uint64",
    "vector": "ndarray:float32", "grid": "ndarray:int16:2,3",
    "any": "ndarray", "digits": "str_int", "decimal": "str_float",
}  # fmt: skip
META = pa.struct([("caption", pa.string()), ("size", pa.struct([("w", pa.int64()), ("h", pa.int64())])),
                  ("tags", pa.list_(pa.string()))])  # fmt: skip
TYPES = {
    "id": pa.int64(), "name": pa.string(), "data": pa.binary(), "image": pa.binary(), "meta": META,
    "score": pa.float32(),
    "weight": pa.float64(), "half": pa.float16(), "small": pa.int8(), "byte": pa.uint8(),
    "count": pa.int32(),
    "big": pa.uint64(), "vector": pa.list_(pa.float32()), "grid": pa.list_(pa.list_(pa.int16(), 3), 2),
    "any": pa.list_(pa.float64()), "digits": pa.int64(), "decimal": pa.float64(),
}  # fmt: skip


def rows(n: int) -> list[Row]:
    """Rows with a value of each encoding."""
    return [
        {
            "id": i * (1 << 33) - 5, "name": text(i) if i % 6 else "", "data": bytes(range(i % 9)),
            "image": picture(i), "score": np.float32(i / 8), "weight": np.float64(i / 3), "half": np.float16(i / 4),
            "meta": {"caption": text(i + 1), "size": {"w": i, "h": 2 * i}, "tags": [text(k) for k in range(i % 3)]},
            "small": np.int8(i - 10), "byte": np.uint8(200 + i % 56), "count": np.int32(-i * 70_000),
            "big": np.uint64((1 << 63) + i), "vector": np.arange(1 + i % 5, dtype=np.float32) / 2,
            "grid": np.arange(6, dtype=np.int16).reshape(2, 3) - i, "any": np.arange(1 + i % 3, dtype=np.float64) + i,
            "digits": 10**12 + i, "decimal": i / 7,
        }
        for i in range(n)
    ]  # fmt: skip


def twin(given: Sequence[Row], names: Sequence[str]) -> pa.Table:
    """The columns with their types; arrays are lists."""
    made: dict[str, pa.Array] = {}
    for name in names:
        values = [row[name] for row in given]
        made[name] = pa.array([v.tolist() if isinstance(v, np.ndarray) else v for v in values], TYPES[name])
    return pa.table(made)


def make() -> Cases:
    """Writes the datasets, each a folder."""
    cases = Cases("mds")
    few, many = rows(16), rows(60)
    small = ["id", "name", "meta", "score", "vector"]
    add(cases, "plain", few, list(PLAIN))
    add(cases, "shards", many, small, about="several shards", size_limit=3000)
    add(cases, "zstd", many, small, about="several shards, compressed", size_limit=3000, compression="zstd:7")
    add(cases, "hashes", few, small, about="with hashes of the files", compression="zstd", hashes=["sha1", "xxh64"])
    add(cases, "fixed", few, ["id", "score", "grid"], about="all columns have a fixed size")
    return cases


def add(cases: Cases, name: str, given: Sequence[Row], names: Sequence[str], about: str = "", **how: Any) -> None:
    """Writes a dataset and its twin, and reads it again."""
    folder = cases.path(name)
    shutil.rmtree(folder, ignore_errors=True)
    with MDSWriter(out=str(folder), columns={n: PLAIN[n] for n in names}, **how) as out:
        for row in given:
            out.write({n: Image.open(io.BytesIO(row[n])) if n == "image" else row[n] for n in names})
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copytree(folder, scratch, dirs_exist_ok=True)
        for shard in Path(scratch).glob("*.zstd"):
            tool("zstd", "-dq", shard, "-o", shard.with_suffix(""))
        found = list(LocalDataset(scratch))
    kept = [dict(row) for row in given]
    for row, got in zip(kept, found, strict=True):
        for n in names:
            if n == "image":  # which was encoded again
                image = io.BytesIO()
                Image.open(io.BytesIO(row[n])).save(image, "JPEG")
                row[n] = image.getvalue()
                same = np.array_equal(np.asarray(Image.open(image)), np.asarray(got[n]))
            else:
                same = np.array_equal(got[n], row[n])
            if not same:
                raise SystemExit(f"{folder}: streaming reads {got[n]!r} in {n}, not {row[n]!r}")
    cases.add(f"{name}/", twin(kept, names), by("mosaicml-streaming"), about)
