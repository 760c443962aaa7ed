"""JSON lines in zstd: five columns of eight, batches of numpy arrays."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from peers.formats.reading import BATCH, Found, workers

COLUMNS = ("id", "label", "score", "ids", "text")
Arrays = tuple[Any, ...]  # id, label, score, values and offsets of ids, bytes and offsets of text


def files(data: Path) -> list[str]:
    """The files."""
    return [str(path) for path in sorted(data.glob("*.jsonl.zst"))]


def arrays(table: pa.Table) -> Arrays:
    """A batch of Arrow's as numpy arrays, views where they can be."""
    by_name = {name: table.column(name).combine_chunks() for name in COLUMNS}
    ids, text = by_name["ids"], by_name["text"].cast(pa.large_binary())
    _, offsets, content = text.buffers()
    bounds = np.frombuffer(offsets, np.int64)[text.offset : text.offset + len(text) + 1]
    characters = np.frombuffer(content, np.uint8)[bounds[0] : bounds[-1]]
    return (
        *(by_name[name].to_numpy() for name in ("id", "label")), by_name["score"].to_numpy().astype(np.float32),
        ids.flatten().to_numpy(), ids.offsets.to_numpy() - ids.offsets[0].as_py(), characters, bounds - bounds[0],
    )  # fmt: skip


def read_by(batches: Callable[[], Any]) -> Callable[[], Found]:
    """A pass over batches."""

    def read() -> Found:
        rows, total = 0, 0.0
        for id_, label, score, values, _, characters, _ in batches():
            rows += len(id_)
            total += float(id_.sum() + label.sum() + values.sum()) + float(score.sum(dtype=np.float64))
            total += len(characters)
        return rows, total

    return read


def datasets(data: Path) -> Callable[[], Found]:
    """HF datasets, streaming, under DataLoader: a worker reads its share of the files as Arrow."""
    import datasets
    import torch
    from torch.utils.data import DataLoader, IterableDataset, get_worker_info

    stream = datasets.load_dataset("json", data_files=files(data), split="train", streaming=True)
    stream = stream.select_columns(list(COLUMNS)).with_format("arrow")

    class Share(IterableDataset):  # type: ignore[misc]
        def __iter__(self) -> Iterator[Arrays]:
            info = get_worker_info()
            share = stream.shard(num_shards=info.num_workers, index=info.id)
            for table in share.iter(batch_size=BATCH["jsonl"]):
                yield tuple(torch.from_numpy(np.array(one)) for one in arrays(table))

    def one_thread(_worker: int) -> None:
        torch.set_num_threads(1)
        pa.set_cpu_count(1)

    loader = DataLoader(
        Share(), batch_size=None, num_workers=workers(), persistent_workers=True, worker_init_fn=one_thread
    )
    return read_by(lambda: (tuple(one.numpy() for one in batch) for batch in loader))


def ray(data: Path) -> Callable[[], Found]:
    """Ray Data: read_json and iter_batches of Arrow."""
    import logging

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray
    import ray.data

    ray.init(num_cpus=workers(), include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR,
             object_store_memory=4 << 30, _memory=8 << 30)  # fmt: skip
    ray.data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    dataset = ray.data.read_json(files(data), arrow_open_stream_args={"compression": "zstd"})
    dataset = dataset.select_columns(list(COLUMNS))
    return read_by(lambda: map(arrays, dataset.iter_batches(batch_size=BATCH["jsonl"], batch_format="pyarrow")))


def daft(data: Path) -> Callable[[], Found]:
    """Daft's own engine: record batches cut to size."""
    import daft

    frame = daft.read_json(files(data)).select(*COLUMNS)

    def batches() -> Iterator[Arrays]:
        for part in frame.to_arrow_iter():
            table = pa.Table.from_batches([part]) if isinstance(part, pa.RecordBatch) else part
            for at in range(0, len(table), BATCH["jsonl"]):
                batch = table.slice(at, BATCH["jsonl"])
                ids = pc.cast(batch.column("ids"), pa.list_(pa.int64()))
                yield arrays(batch.set_column(batch.column_names.index("ids"), "ids", ids))

    return read_by(batches)
