"""Penstock: feeds a training loop from a fleet of preprocessing workers, and feels like a DataLoader.

    import penstock
    loader = penstock.DataLoader(
        "s3://bucket/criteo/",
        features=penstock.dense("int_*") + penstock.sparse("cat_*") + penstock.label("label"),
        transforms=[penstock.fill_null("int_*", 0), penstock.sigrid_hash("cat_*", max=1_000_000)],
        batch_size=65536, master="penstock:7070")
    for batch in loader:
        train(batch.dense, batch.sparse["cat_0"].values, batch.label)

DataLoader is all that a program needs; the other names here build its arguments, or are what it yields. The exceptions
are in penstock.errors, events and statistics in penstock.monitor, and Lightning's callback in penstock.lightning.
Importing penstock does not import torch.
"""

from __future__ import annotations

from penstock import _environment, errors, monitor  # noqa: F401
from penstock._diagnosis import Stats
from penstock.batch import Batch, Bytes, Checkpoint, Position, Sparse
from penstock.loader import DataLoader
from penstock.spec import (
    Features,
    Transform,
    bucketize,
    bytes_,
    cast,
    clamp,
    dense,
    fill_null,
    first_x,
    image,
    label,
    log1p,
    ngram,
    normalize,
    op,
    sample,
    sigrid_hash,
    sparse,
)

__all__ = [
    "Batch",
    "Bytes",
    "Checkpoint",
    "DataLoader",
    "Features",
    "Position",
    "Sparse",
    "Stats",
    "Transform",
    "bucketize",
    "bytes_",
    "cast",
    "clamp",
    "dense",
    "errors",
    "fill_null",
    "first_x",
    "image",
    "label",
    "log1p",
    "monitor",
    "ngram",
    "normalize",
    "op",
    "sample",
    "sigrid_hash",
    "sparse",
]
