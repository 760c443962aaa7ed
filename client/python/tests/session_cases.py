"""What the tests of sessions share: specs, configurations, and the rows of batches."""

from __future__ import annotations

import threading
import uuid
from typing import TYPE_CHECKING

import numpy as np

from penstock._session import Config, Rows, Session

if TYPE_CHECKING:
    import pyarrow as pa

    from tests.conftest import Dataset, Fleet

SPEC = """
dataset: {{uri: "{uri}"}}
features:
- {{name: "int_*", layout: dense}}
- {{name: "cat_*", layout: sparse}}
- {{name: label, layout: label}}
transforms:
- {{op: fill_null, in: "int_*", value: 0}}
batch_size: {batch_size}
epochs: {epochs}
seed: 1
shuffle: {shuffle}
provenance: true
last_batch: {last_batch}
"""


def spec(
    data: Dataset, batch_size: int = 1000, epochs: int = 1, shuffle: bool = True, last_batch: str = "uneven"
) -> str:
    return SPEC.format(
        uri=data.uri, batch_size=batch_size, epochs=epochs, shuffle=str(shuffle).lower(), last_batch=last_batch
    )


def name() -> str:
    return f"s-{uuid.uuid4().hex[:12]}"


def configure(fleet: Fleet, text: str, **settings: object) -> Config:
    values: dict[str, object] = {"masters": (fleet.master,), "session": name(), "spec_text": text, **settings}
    return Config(**values)  # type: ignore[arg-type]


def places(record: pa.RecordBatch) -> list[tuple[int, int]]:
    """(_file, _row) of a batch's rows."""
    return list(zip(record["_file"].to_pylist(), record["_row"].to_pylist(), strict=True))


def all_places(batches: list[Rows]) -> list[tuple[int, int]]:
    """Those of all rows but padding."""
    return sorted(p for b in batches for p in places(b.record)[: b.valid])


def read_epoch(session: Session, limit: int | None = None) -> list[Rows]:
    """The rest of the epoch, or so many batches."""
    out: list[Rows] = []
    while limit is None or len(out) < limit:
        rows = session.next()
        if rows is None:
            break
        out.append(rows)
    return out


def check_values(batch: Rows, data: Dataset) -> None:
    """Every value of a batch is the one that pyarrow reads at the row's place."""
    record = batch.record
    names = [n for n in data.files[0].column_names if n.startswith("int_")]
    dense = record.column(0).values.to_numpy().reshape(len(record), len(names))
    for i, (f, r) in enumerate(places(record)):
        want = data.files[f].slice(r, 1).to_pylist()[0]
        assert record["label"][i].as_py() == want["label"]
        assert np.array_equal(dense[i], np.array([want[n] or 0.0 for n in names], np.float32))
        for n in want:
            if n.startswith("cat_"):
                assert record[n][i].as_py() == (want[n] or [])


def threads() -> set[str]:
    """Names of this package's threads."""
    return {t.name for t in threading.enumerate() if t.name.startswith("penstock")}
