"""What the other systems do: deltalake or pyiceberg reads Arrow, of which a DataLoader hands on tensors."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from peers.lakehouse.data import NUMBERS, metadata

Tensors = tuple[Any, Any, Any, Any]  # row, dense, and the bytes of text with their offsets
Batches = Callable[[int, int], Iterable[pa.RecordBatch]]  # of one of so many workers


def deltalake(data: Path) -> Batches:
    """By its own engine, which cannot share a table out: it has one worker, or none."""

    def read(_worker: int, _workers: int) -> Iterable[pa.RecordBatch]:
        from deltalake import DeltaTable, QueryBuilder

        pa.set_cpu_count(1)
        columns = ", ".join(("row", *NUMBERS, "text"))
        table = DeltaTable(str(data / "delta"))
        found = QueryBuilder().register("t", table).execute(f"select {columns} from t")
        yield from pa.RecordBatchReader.from_stream(found)

    return read


def pyiceberg(data: Path) -> Batches:
    """By its scan, whose files the workers share out."""

    def read(worker: int, workers: int) -> Iterable[pa.RecordBatch]:
        from pyiceberg.expressions import AlwaysTrue
        from pyiceberg.io.pyarrow import ArrowScan
        from pyiceberg.table import StaticTable

        pa.set_cpu_count(1)
        table = StaticTable.from_metadata(str(metadata(data)))
        scan = table.scan(selected_fields=("row", *NUMBERS, "text"))
        files = list(scan.plan_files())[worker::workers]
        arrow = ArrowScan(table.metadata, table.io, scan.projection(), AlwaysTrue())
        yield from arrow.to_record_batches(files)

    return read


def tensors(batch: pa.RecordBatch) -> Tensors:
    """Numbers in one matrix, and text as it lies, without a loop over rows."""
    dense = np.empty((len(batch), len(NUMBERS)), np.float32)
    for i, name in enumerate(NUMBERS):
        dense[:, i] = batch.column(name).to_numpy(zero_copy_only=False)
    text = batch.column("text")
    if not pa.types.is_string(text.type):
        text = text.cast(pa.string())
    _, bounds, content = text.buffers()
    offsets = np.frombuffer(bounds, np.int32)[text.offset : text.offset + len(text) + 1]
    characters = np.frombuffer(content, np.uint8)[offsets[0] : offsets[-1]]
    return batch.column("row").to_numpy(), dense, characters, offsets - offsets[0]


def dataloader(read: Batches, workers: int) -> Callable[[], Iterable[Tensors]]:
    """torch's, with as many workers, or in the trainer's process."""
    import torch
    from torch.utils.data import DataLoader, IterableDataset, get_worker_info

    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", "The given NumPy array is not writable")

    class Rows(IterableDataset):  # type: ignore[misc]
        def __iter__(self) -> Iterator[Tensors]:
            worker = get_worker_info()
            mine = (0, 1) if worker is None else (worker.id, worker.num_workers)
            for batch in read(*mine):
                if len(batch):
                    yield tuple(torch.from_numpy(array) for array in tensors(batch))

    more: dict[str, Any] = {"prefetch_factor": 4, "persistent_workers": True} if workers else {}
    loader = DataLoader(Rows(), batch_size=None, num_workers=workers, **more)
    return lambda: loader
