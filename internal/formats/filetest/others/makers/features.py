"""Rows of features, without TensorFlow."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from makers.case import picture, text

Row = dict[str, Any]
TYPES = {
    "id": pa.int64(), "name": pa.binary(), "image": pa.binary(), "score": pa.float32(), "ids": pa.list_(pa.int64()),
    "vector": pa.list_(pa.float32()), "tags": pa.list_(pa.binary()), "label": pa.int64(), "inner": pa.binary(),
}  # fmt: skip


def rows(n: int) -> list[Row]:
    """Rows with a value of each kind, and with lists of it."""
    return [
        {
            "id": i * (1 << 40) - 3, "name": text(i).encode(), "image": picture(i), "score": i / 8 - 1,
            "ids": [(-1) ** k * i * k for k in range(i % 4)], "vector": [i / 4, -0.5, 1.5, i], "label": i % 10,
            "tags": [text(k).encode() for k in range(i % 3)],
        }
        for i in range(n)
    ]  # fmt: skip
