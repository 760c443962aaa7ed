"""Penstock: penstock.DataLoader without a fleet, which starts one of its own, over the files or over the twin."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from peers.formats.data import DENSE, TOKENS
from peers.formats.reading import BATCH, CROP, Found

FILES = {"tar": "*.tar", "jsonl": "*.jsonl.zst", "tfrecord": "*.tfrecord", "mds": "mds/", "csv": "*.csv",
         "tokens": "*.bin"}  # fmt: skip


def loader(workload: str, data: Path, *, twin: bool) -> Callable[[], Found]:
    """A pass is an epoch of one loader."""
    import penstock

    transforms: list[Any] = []
    if workload == "tar":
        features = penstock.image("jpg") + penstock.bytes_("txt")
        transforms = [penstock.decode_jpeg("jpg"), penstock.random_resized_crop("jpg", size=CROP)]
    elif workload == "jsonl":
        features = penstock.label("id", "label") + penstock.dense("score") + penstock.sparse("ids")
        features += penstock.bytes_("text")
    elif workload == "tfrecord":
        features = penstock.label("label") + penstock.tensor("dense", shape=DENSE) + penstock.sparse("ids")
    elif workload == "csv":
        features = penstock.label("id", "label") + penstock.dense("score") + penstock.bytes_("text")
    elif workload == "tokens":
        features = penstock.sparse("tokens")
    else:
        features = penstock.tensor("tokens", shape=TOKENS) + penstock.label("label") + penstock.bytes_("text")
    opened = penstock.DataLoader(
        f"{data}/twin/*.parquet" if twin else f"{data}/{FILES[workload]}", features=features, transforms=transforms,
        batch_size=BATCH[workload], format="numpy",
    )  # fmt: skip

    def read() -> Found:
        rows, total = 0, 0.0
        for batch in opened:
            rows += len(batch)
            total += COUNTS[workload](batch)
        return rows, total

    return read


def of_tar(batch: Any) -> float:
    """The captions' bytes; pixels are made by chance."""
    if batch.images["jpg"].shape[1:] != (CROP, CROP, 3):
        raise SystemExit(f"pictures of {batch.images['jpg'].shape}")
    return float(len(batch.bytes["txt"].data))


def of_jsonl(batch: Any) -> float:
    """All numbers and the bytes of the text."""
    found = batch.labels["id"].sum() + batch.labels["label"].sum() + batch.sparse["ids"].values.sum()
    return float(found) + float(batch.dense.sum(dtype=np.float64)) + len(batch.bytes["text"].data)


def of_tfrecord(batch: Any) -> float:
    """All numbers."""
    found = batch.labels["label"].sum() + batch.sparse["ids"].values.sum()
    return float(found) + float(batch.tensors["dense"].sum(dtype=np.float64))


def of_mds(batch: Any) -> float:
    """All numbers and the bytes of the text."""
    found = batch.labels["label"].sum() + batch.tensors["tokens"].sum(dtype=np.int64)
    return float(found) + len(batch.bytes["text"].data)


def of_csv(batch: Any) -> float:
    """All numbers and the bytes of the text."""
    found = batch.labels["id"].sum() + batch.labels["label"].sum()
    return float(found) + float(batch.dense.sum(dtype=np.float64)) + len(batch.bytes["text"].data)


def of_tokens(batch: Any) -> float:
    """All tokens."""
    return float(batch.sparse["tokens"].values.sum())


COUNTS: dict[str, Callable[[Any], float]] = {"tar": of_tar, "jsonl": of_jsonl, "tfrecord": of_tfrecord, "mds": of_mds,
                                              "csv": of_csv, "tokens": of_tokens}  # fmt: skip
