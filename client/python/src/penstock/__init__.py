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

import difflib
from typing import TYPE_CHECKING

from penstock import _binary, errors, monitor
from penstock._check import check
from penstock._dataset import schema
from penstock._diagnosis import Stats
from penstock._fit import Fitted, fit
from penstock._lists import Padded, Sparse
from penstock._op import Op, Transform
from penstock._transforms import Transforms
from penstock._types import (
    Type,
    binary,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    string,
    uint8,
    uint16,
    uint32,
)
from penstock._values import Fit
from penstock.batch import Batch, Bytes
from penstock.features import Features, bytes_, dense, image, label, padded, sparse, tensor
from penstock.groups import Connection, Data, Ranks
from penstock.loader import DataLoader
from penstock.ops import (
    box_cox,
    bucketize,
    cartesian,
    cast,
    center_crop,
    clamp,
    cosine_similarity,
    decode_image,
    decode_jpeg,
    decode_png,
    enumerate,  # noqa: A004
    expr,
    fill_null,
    first_x,
    flip,
    has_overlap,
    id_overlap_count,
    intersect,
    jaccard_similarity,
    last_x,
    local_hour,
    log1p,
    logit,
    lookup,
    map_id,
    ngram,
    normalize,
    onehot,
    op,
    positive_modulus,
    random_resized_crop,
    resize,
    sample,
    scale_to_0_1,
    scale_to_z_score,
    score_max,
    score_min,
    score_sum,
    sigrid_hash,
    sort_by_score,
    union,
)
from penstock.position import Checkpoint, Position

__all__ = [
    "Batch",
    "Bytes",
    "Checkpoint",
    "Connection",
    "Data",
    "DataLoader",
    "Features",
    "Fit",
    "Fitted",
    "Op",
    "Padded",
    "Position",
    "Ranks",
    "Sparse",
    "Stats",
    "Transform",
    "Transforms",
    "Type",
    "binary",
    "bool_",
    "box_cox",
    "bucketize",
    "bytes_",
    "cartesian",
    "cast",
    "center_crop",
    "check",
    "clamp",
    "cosine_similarity",
    "decode_image",
    "decode_jpeg",
    "decode_png",
    "dense",
    "enumerate",
    "errors",
    "expr",
    "fill_null",
    "first_x",
    "fit",
    "flip",
    "float16",
    "float32",
    "float64",
    "has_overlap",
    "id_overlap_count",
    "image",
    "int8",
    "int16",
    "int32",
    "int64",
    "intersect",
    "jaccard_similarity",
    "label",
    "last_x",
    "local_hour",
    "log1p",
    "logit",
    "lookup",
    "map_id",
    "monitor",
    "ngram",
    "normalize",
    "onehot",
    "op",
    "padded",
    "positive_modulus",
    "random_resized_crop",
    "resize",
    "sample",
    "scale_to_0_1",
    "scale_to_z_score",
    "schema",
    "score_max",
    "score_min",
    "score_sum",
    "sigrid_hash",
    "sort_by_score",
    "sparse",
    "string",
    "tensor",
    "uint8",
    "uint16",
    "uint32",
    "union",
]

__version__: str

if not TYPE_CHECKING:  # which know what there is

    def __getattr__(name: str) -> object:
        """Looks the version up when it is asked for, and answers the name of an op that is none as the master does."""
        if name == "__version__":
            return _binary.version()
        near = difflib.get_close_matches(name, __all__, n=1)
        hint = f"nearest: {near[0]}" if near else "`penstock ops` lists the ops that there are"
        raise errors.UnknownName(
            f'penstock has no {name}; {hint}. An op that your fleet adds is penstock.op("{name}", ...)'
        )
