"""CSV of numbers and text under pyarrow, pandas and HF datasets, and documents of tokens by numpy's memmap."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from peers.formats.reading import BATCH, Found, one_thread, workers

COLUMNS = ("id", "label", "score", "text")


def files(data: Path) -> list[str]:
    """The files."""
    return [str(path) for path in sorted(data.glob("*.csv"))]


def found(table: pa.Table) -> tuple[int, float]:
    """Rows and their sum, as numpy arrays have it."""
    id_, label, score = (table.column(name).to_numpy() for name in COLUMNS[:3])
    text = pc.binary_length(table.column("text")).to_numpy()
    total = float(id_.sum() + label.sum() + text.sum()) + float(score.astype(np.float32).sum(dtype=np.float64))
    return len(id_), total


def read_by(parts: Callable[[], Iterator[tuple[int, float]]]) -> Callable[[], Found]:
    """A pass over parts."""

    def read() -> Found:
        rows, total = 0, 0.0
        for n, x in parts():
            rows, total = rows + n, total + x
        return rows, total

    return read


def arrow(data: Path) -> Callable[[], Found]:
    """Pyarrow's datasets, on as many threads as there are CPUs, cut into batches."""
    import pyarrow.dataset as ds

    pa.set_cpu_count(workers())
    dataset = ds.dataset(files(data), format="csv")

    def parts() -> Iterator[tuple[int, float]]:
        for batch in dataset.to_batches(columns=list(COLUMNS), batch_size=BATCH["csv"]):
            if len(batch):
                yield found(pa.Table.from_batches([batch]))

    return read_by(parts)


def pandas(data: Path) -> Callable[[], Found]:
    """Pandas under DataLoader: a worker reads its share of the files, batch by batch."""
    import pandas as pd
    from torch.utils.data import IterableDataset, get_worker_info

    paths = files(data)

    class Share(IterableDataset):  # type: ignore[misc]
        def __iter__(self) -> Iterator[Any]:
            info = get_worker_info()
            for path in paths[info.id :: info.num_workers]:
                for frame in pd.read_csv(path, usecols=list(COLUMNS), chunksize=BATCH["csv"]):
                    text = frame["text"].str.encode("utf-8").tolist()
                    yield *(frame[name].to_numpy() for name in COLUMNS[:3]), text

    return read_by(lambda: map(summed, loader(Share())))


def datasets(data: Path) -> Callable[[], Found]:
    """HF datasets, streaming, under DataLoader: a worker reads its share of the files as Arrow."""
    import datasets
    from torch.utils.data import IterableDataset, get_worker_info

    stream = datasets.load_dataset("csv", data_files=files(data), split="train", streaming=True)
    stream = stream.select_columns(list(COLUMNS)).with_format("arrow")

    class Share(IterableDataset):  # type: ignore[misc]
        def __iter__(self) -> Iterator[Any]:
            info = get_worker_info()
            share = stream.shard(num_shards=info.num_workers, index=info.id)
            for table in share.iter(batch_size=BATCH["csv"]):
                text = table.column("text").cast(pa.binary()).to_pylist()
                yield *(table.column(name).to_numpy() for name in COLUMNS[:3]), text

    return read_by(lambda: map(summed, loader(Share())))


def loader(dataset: Any, **more: Any) -> Any:
    """DataLoader, with a process for each CPU."""
    from torch.utils.data import DataLoader

    more.setdefault("batch_size", None)
    return DataLoader(dataset, num_workers=workers(), persistent_workers=True, worker_init_fn=one_thread, **more)


def summed(batch: Any) -> tuple[int, float]:
    """Rows and sum of arrays and texts."""
    id_, label, score, text = (np.asarray(one) if i < len(COLUMNS) - 1 else one for i, one in enumerate(batch))
    total = float(id_.sum() + label.sum() + sum(map(len, text)))
    return len(id_), total + float(score.astype(np.float32).sum(dtype=np.float64))


def memmap(data: Path) -> Callable[[], Found]:
    """What Megatron's indexed dataset does, under DataLoader: documents are views of a mapped file, by its index."""
    import torch
    from torch.utils.data import Dataset

    class Documents(Dataset):  # type: ignore[misc]
        def __init__(self) -> None:
            self.files = [(np.memmap(path, np.uint16, "r"), lengths_of(path.with_suffix(".idx")))
                          for path in sorted(data.glob("*.bin"))]  # fmt: skip
            self.starts = [np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))) for _, lengths in self.files]
            self.first = np.concatenate(([0], np.cumsum([len(lengths) for _, lengths in self.files])))

        def __len__(self) -> int:
            return int(self.first[-1])

        def __getitem__(self, i: int) -> Any:
            file = int(np.searchsorted(self.first, i, "right")) - 1
            at = i - self.first[file]
            return self.files[file][0][self.starts[file][at] : self.starts[file][at + 1]]

    def collate(documents: list[Any]) -> Any:
        offsets = np.cumsum([0, *map(len, documents)])
        return torch.from_numpy(offsets), torch.from_numpy(np.concatenate(documents).astype(np.int64))

    batches = loader(Documents(), batch_size=BATCH["tokens"], collate_fn=collate)
    return read_by(lambda: ((len(offsets) - 1, float(tokens.numpy().sum())) for offsets, tokens in batches))


def lengths_of(index: Path) -> Any:
    """The documents' lengths, as a Megatron index has them behind its head."""
    head = 9 + 8 + 1
    count = int(np.fromfile(index, np.uint64, 1, offset=head)[0])
    return np.fromfile(index, np.int32, count, offset=head + 16)
