"""Embeddings and padded sequences: Penstock on one machine beside a DataLoader over pyarrow and NumPy.

`python -m peers.shapes` makes two datasets, reads each with each system in a process of its own, and prints rows per
CPU second of all its processes, the median of the passes. In the pass before these each system sums up all that it got,
weighted by the row's number, and all must come to the same.

    embeddings: a list of 256 float32 a row, which becomes float32 [B, 256]
    sequences:  a list of 0 to 400 int64 ids a row, which becomes int64 [B, 200]: the last 200, padded on the left
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from peers import meter
from peers.passes import outcome_of, rates, record

Array = np.ndarray[Any, np.dtype[Any]]

WIDTH, LENGTH = 256, 200
BATCH = 4096
GROUP_ROWS = 16_384
FILES = 4
WORKLOADS = ("embeddings", "sequences")
SYSTEMS = ("dataloader", "dataloader-2", "penstock")


def make(workload: str, rows: int, folder: Path) -> Path:
    """Writes a dataset, unless it is there."""
    data = folder / f"shapes-{workload}-{rows}"
    if data.exists():
        return data
    rng, aside = np.random.default_rng(1), data.with_suffix(".part")
    aside.mkdir(parents=True, exist_ok=True)
    for file in range(FILES):
        n = rows // FILES
        if workload == "embeddings":
            values = pa.array(rng.standard_normal(n * WIDTH, dtype=np.float32))
            column: pa.Array = pa.FixedSizeListArray.from_arrays(values, WIDTH)
        else:
            offsets = np.concatenate([[0], np.cumsum(rng.integers(0, 401, n))]).astype(np.int32)
            column = pa.ListArray.from_arrays(offsets, pa.array(rng.zipf(1.3, offsets[-1]) % 1_000_000))
        table = pa.table({"row": np.arange(file * n, (file + 1) * n), "x": column})
        pq.write_table(table, aside / f"part-{file}.parquet", row_group_size=GROUP_ROWS, use_dictionary=["x"]
                       if workload == "sequences" else False)  # fmt: skip
    aside.rename(data)
    return data


def matrix(column: pa.Array) -> Array:
    """Embeddings as they lie."""
    flat: Array = column.flatten().to_numpy()
    return flat.reshape(-1, WIDTH)


def padded(column: pa.Array) -> Array:
    """The last ids of each row, at its end: by NumPy, without a loop over rows."""
    offsets = column.offsets.to_numpy()
    ends, lengths = offsets[1:], np.minimum(np.diff(offsets), LENGTH)
    out = np.zeros((len(lengths), LENGTH), np.int64)
    places = np.arange(LENGTH)
    has = places >= LENGTH - lengths[:, None]
    out[has] = column.values.to_numpy()[(ends[:, None] - LENGTH + places)[has]]
    return out


def dataloader(workload: str, data: Path, workers: int) -> Callable[[], Iterable[tuple[Any, Any]]]:
    """torch's: workers share out the row groups and yield whole batches."""
    import torch
    from torch.utils.data import DataLoader, IterableDataset, get_worker_info

    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", "The given NumPy array is not writable")
    groups = [(f, g) for f in sorted(data.iterdir()) for g in range(pq.read_metadata(f).num_row_groups)]
    shape = matrix if workload == "embeddings" else padded

    class Groups(IterableDataset):  # type: ignore[misc]
        def __iter__(self) -> Iterator[tuple[Any, Any]]:
            pa.set_cpu_count(1)
            worker = get_worker_info()
            mine = groups if worker is None else groups[worker.id :: worker.num_workers]
            for file, group in mine:
                with pq.ParquetFile(file, memory_map=True, pre_buffer=False) as opened:
                    for batch in opened.iter_batches(BATCH, [group], ["row", "x"], use_threads=False):
                        yield torch.from_numpy(batch["row"].to_numpy()), torch.from_numpy(shape(batch["x"]))

    more: dict[str, Any] = {"prefetch_factor": 4, "persistent_workers": True} if workers else {}
    loader = DataLoader(Groups(), batch_size=None, num_workers=workers, **more)
    return lambda: loader


def penstock(workload: str, data: Path) -> Callable[[], Iterable[tuple[Any, Any]]]:
    """A loader with a fleet of its own."""
    import penstock

    x = penstock.tensor("x") if workload == "embeddings" else penstock.padded("x", length=LENGTH)
    loader = penstock.DataLoader(data, features=penstock.label("row") + x, batch_size=BATCH, format="torch")

    def read() -> Iterator[tuple[Any, Any]]:
        for batch in loader:
            yield batch.label, batch.tensors["x"] if workload == "embeddings" else batch.padded["x"].values

    return read


def subject(workload: str, system: str, data: Path, kind: str, name: str, passes: int) -> None:
    """Reads as one system, and prints what each pass took."""
    account = meter.KINDS[kind](name)
    account.join()
    name, _, workers = system.partition("-")
    read = penstock(workload, data) if name == "penstock" else dataloader(workload, data, int(workers or 0))
    total = sum(float((x.double().sum(1) * (row % 1009)).sum()) for row, x in read())

    def once() -> int:
        rows = 0
        for row, x in read():
            rows += len(row)
            x[0].sum(), row.sum()  # a little of each batch, and all its rows
        return rows

    record(account, total, once, passes)


def compare(workload: str, data: Path, kind: str, passes: int) -> None:
    """Runs each system, and prints the figures beside those of the DataLoader without workers."""
    base = total = 0.0
    for system in SYSTEMS:
        outcome = outcome_of("peers.shapes", workload, system, str(data), kind, passes)
        total = total or outcome["total"]
        if not math.isclose(outcome["total"], total, rel_tol=1e-9):
            raise SystemExit(f"{workload}: {system} got other values: {outcome['total']}, not {total}")
        rate, wall = rates(outcome)
        base = base or rate
        times = f"{rate:12,.0f} rows/CPU s ({rate / base:.2f})"
        print(f"{workload:12} {system:14} {times}  {wall:12,.0f} rows/s", flush=True)


def main() -> None:
    """Makes the datasets and compares, or is one of the subjects."""
    if sys.argv[1:2] == ["--subject"]:
        workload, system, data, kind, name, passes = sys.argv[2:]
        subject(workload, system, Path(data), kind, name, int(passes))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=262_144, help="of each dataset")
    parser.add_argument("--passes", type=int, default=5, help="that are measured, behind one that is not")
    parser.add_argument("--data", type=Path, default=Path("/tmp/penstock-bench"), help="where datasets lie")
    given = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    kind = meter.kind()
    for workload in WORKLOADS:
        compare(workload, make(workload, given.rows, given.data), kind, given.passes)


if __name__ == "__main__":
    main()
