"""Click prediction on Criteo's logs, from the fit to the service.

    penstock convert day_*.tsv --out criteo --columns criteo
    python criteo.py --data criteo/ --work /tmp/criteo

It fits vocabularies, medians and means to the training rows, trains a logistic regression in NumPy, says how good that
is on validation rows, and serves these by the same spec, which is pinned to the fitted file and the ops.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import penstock
import pyarrow as pa
import pyarrow.dataset as ds

TRAIN, VALIDATION = "hash(row(), 7) % 100 < 90", "hash(row(), 7) % 100 >= 90"
TRANSFORMS = [
    penstock.map_id("cat_*", vocabulary="fit", min_count=3, buckets=1),
    penstock.fill_null("int_*", penstock.Fit("median")),
    penstock.clamp("int_*", min=0),
    penstock.log1p("int_*"),
    penstock.scale_to_z_score("int_*", of="fit"),
]
FEATURES = penstock.label("label") + penstock.dense("int_*") + penstock.sparse("cat_*")


class Model:
    """A logistic regression: a weight for each dense feature, and for each id of each column."""

    def __init__(self, dense: int, sizes: dict[str, int]) -> None:
        self.bias, self.dense = 0.0, np.zeros(dense, np.float32)
        self.ids = {name: np.zeros(size, np.float32) for name, size in sizes.items()}

    def scores(self, batch: penstock.Batch) -> np.ndarray[Any, Any]:
        logits = batch.dense @ self.dense + self.bias
        for name, weights in self.ids.items():
            logits = logits + weights[batch.sparse[name].values]  # one id in each row
        result: np.ndarray[Any, Any] = 1 / (1 + np.exp(-logits))
        return result

    def step(self, batch: penstock.Batch, rate: float = 0.05) -> float:
        """A step of gradient descent. It returns the loss before it."""
        p = self.scores(batch)
        error = (p - batch.label).astype(np.float32)
        self.bias -= rate * float(error.mean())
        self.dense -= rate * (batch.dense.T @ error) / len(error)
        for name, weights in self.ids.items():
            np.subtract.at(weights, batch.sparse[name].values, rate * error)
        return loss(p, batch.label)


def loss(p: np.ndarray[Any, Any], label: np.ndarray[Any, Any]) -> float:
    p = np.clip(p, 1e-6, 1 - 1e-6)
    return float(-np.where(label == 1, np.log(p), np.log(1 - p)).mean())


def main(data: str, work: Path, epochs: int = 3, batch_size: int = 128) -> dict[str, float]:
    work.mkdir(parents=True, exist_ok=True)
    fitted = penstock.fit(data, transforms=TRANSFORMS, filter=TRAIN, out=work / "criteo.fitted.parquet")
    # Ids of a vocabulary: 0 of null, one bucket, and its values.
    sizes = {s.of: 2 + s.size for s in fitted.statistics if s.size is not None}
    options: dict[str, Any] = {"transforms": TRANSFORMS, "features": FEATURES, "fitted": fitted, "format": "numpy"}

    model, losses = Model(13, sizes), []
    with penstock.DataLoader(
        data, filter=TRAIN, shuffle=True, epochs=epochs, batch_size=batch_size, **options
    ) as loader:
        for _ in range(epochs):
            losses.append(float(np.mean([model.step(batch) for batch in loader])))
        (work / "criteo.pinned.yaml").write_text(loader.pinned_spec())  # is kept with the model
    with penstock.DataLoader(
        data, filter=VALIDATION, epochs=1, batch_size=batch_size, name="validation",
        data=penstock.Data(provenance=True), **options,
    ) as loader:  # fmt: skip
        held_out = list(loader)
    validation = float(np.mean([loss(model.scores(batch), batch.label) for batch in held_out]))
    print(f"loss {losses[0]:.4f} to {losses[-1]:.4f}, {validation:.4f} on validation rows")

    schema = ds.dataset(data).schema
    with penstock.Transforms(work / "criteo.pinned.yaml", schema=schema) as transforms:
        differences = sum(differs(batch, served(transforms, data, batch), model) for batch in held_out)
    print(f"{differences} of {len(held_out)} batches differ in serving")
    return {"first": losses[0], "last": losses[-1], "validation": validation, "differences": differences}


def served(transforms: penstock.Transforms, data: str, batch: penstock.Batch) -> penstock.Batch:
    """The rows of a batch, as a service gets them: without the label."""
    files = sorted(ds.dataset(data).files)
    rows = [ds.dataset(files[f]).take(pa.array([r])) for f, r in zip(batch.files, batch.rows, strict=True)]
    return transforms(pa.concat_tables(rows).drop_columns(["label"]))


def differs(trained: penstock.Batch, served: penstock.Batch, model: Model) -> bool:
    """Whether one bit is another in what the model gets, or says."""
    same = trained.dense.tobytes() == served.dense.tobytes()
    for name in model.ids:
        same = same and np.array_equal(trained.sparse[name].values, served.sparse[name].values)
    return not (same and model.scores(trained).tobytes() == model.scores(served).tobytes())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder of Parquet files with the columns of Criteo's logs")
    parser.add_argument("--work", required=True, type=Path, help="folder for the fitted file")
    given = parser.parse_args()
    main(given.data, given.work)
