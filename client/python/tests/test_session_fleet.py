"""A session against a real fleet: everything is read once, whatever dies."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock._session import Config, Rows, Session

if TYPE_CHECKING:
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


def spec(data: Dataset, batch_size: int = 1000, epochs: int = 1, shuffle: bool = True, last_batch: str = "keep") -> str:
    return SPEC.format(
        uri=data.uri, batch_size=batch_size, epochs=epochs, shuffle=str(shuffle).lower(), last_batch=last_batch
    )


def configure(fleet: Fleet, text: str, **settings: object) -> Config:
    values: dict[str, object] = {"session": f"s-{uuid.uuid4().hex[:12]}", "spec_text": text, **settings}
    return Config(masters=(fleet.master,), **values)  # type: ignore[arg-type]


def places(record: pa.RecordBatch) -> list[tuple[int, int]]:
    return list(zip(record["_file"].to_pylist(), record["_row"].to_pylist(), strict=True))


def read_epoch(session: Session) -> list[Rows]:
    out = []
    while (rows := session.next()) is not None:
        out.append(rows)
    return out


def test_reads_an_epoch_once(shared_fleet: Fleet, dataset: Dataset) -> None:
    session = Session(configure(shared_fleet, spec(dataset)))
    batches = read_epoch(session)
    session.close()
    assert sorted(p for b in batches for p in places(b.record)) == sorted(dataset.places())
