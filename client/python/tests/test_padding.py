"""Batches of padding: what lies in them, and that ranks without rows know the session's schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import penstock
from penstock._flat import Flat
from penstock._pb import control_pb2, spec_pb2
from penstock._session.padding import padded, padding, planned_schema
from penstock.batch import Batch, Columns, Position

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Fleet

ALL = """
dataset: {{uri: "{uri}"}}
features:
- label: [yes, count, big, ratio, exact]
- dense: [ratio, "a \\"<b>&é"]
- sparse: ids
  weights: scores
- sparse: sizes
- bytes: text
- image: photo
  shape: [2, 2, 3]
batch_size: 4
last_batch: pad
provenance: true
"""


def table(rows: int) -> pa.Table:
    return pa.table(
        {
            "yes": pa.array([True] * rows),
            "count": pa.array(range(rows), pa.int32()),
            "big": pa.array(range(rows), pa.int64()),
            "ratio": pa.array(np.arange(1, rows + 1), pa.float32()),
            "exact": pa.array(np.arange(1, rows + 1), pa.float64()),
            'a "<b>&é': pa.array(np.arange(1, rows + 1), pa.float32()),
            "ids": pa.array([[1, 2]] * rows, pa.list_(pa.int64())),
            "scores": pa.array([[0.5, 1.0]] * rows, pa.list_(pa.float32())),
            "sizes": pa.array([[1.5]] * rows, pa.list_(pa.float32())),
            "text": pa.array([b"words"] * rows),
            "photo": pa.array([bytes(range(1, 13))] * rows),
        }
    )


def test_schema_of_a_rank_without_rows(shared_fleet: Fleet, tmp_path: Path) -> None:
    """It is what workers send, in all that Arrow and batches look at."""
    (tmp_path / "data").mkdir()
    pq.write_table(table(6), tmp_path / "data" / "part.parquet")
    (tmp_path / "spec.yaml").write_text(ALL.format(uri=f"file://{tmp_path}/data/"))
    options: dict[str, Any] = {
        "spec": tmp_path / "spec.yaml",
        "master": shared_fleet.master,
        "session": "padding",
        "format": "numpy",
    }
    with penstock.DataLoader(**options) as loader:
        batches = list(loader)
        stats = loader.stats()
        program = spec_pb2.Program.FromString(loader._reading.stream.reader.info.program)  # type: ignore[union-attr]
    planned, sent = planned_schema(program), batches[0].to_arrow().schema
    assert planned.equals(sent), f"{planned}\n\n{sent}"
    assert Columns(planned).__dict__ == Columns(sent).__dict__
    assert [(len(b), b.valid) for b in batches] == [(4, 4), (4, 2)]
    assert stats.rows == 6 and stats.batches == 2
    _check_padding(batches[1])


def _check_padding(batch: Batch) -> None:
    rows = slice(batch.valid, None)
    assert batch.mask.tolist() == [i < batch.valid for i in range(len(batch))]
    assert not batch.dense[rows].any() and not batch.images["photo"][rows].any()
    assert not any(label[rows].any() for label in batch.labels.values())
    assert all((s.lengths[rows] == 0).all() for s in batch.sparse.values())
    assert set(batch.bytes["text"][rows]) == {b""}
    assert (batch.files[rows] == -1).all() and (batch.rows[rows] == -1).all()
    assert batch.to_arrow().validate(full=True) is None


def test_padding_alone() -> None:
    metadata = {b"penstock.layout": b"label"}
    schema = pa.schema([pa.field("big", pa.int64(), nullable=False, metadata=metadata)])
    for record, valid in [
        (Flat.of(padding(schema, 3)), 0),
        (padded(Flat.of(padding(schema, 2)), 3), 2),
        (padded(Flat.of(padding(schema, 3)), 3), 3),
    ]:
        assert record.num_rows == 3 and record.schema.equals(schema, check_metadata=True)
        for kind in ("numpy", "arrow"):
            batch = Batch(record, Columns(schema), 0, Position(0, 0, None, control_pb2.State), kind, valid)
            assert batch.mask.tolist() == [True] * valid + [False] * (3 - valid)
            assert batch.numpy().valid == valid
            assert ("valid" in repr(batch)) == (valid < 3)
