"""The same Python function in Penstock's workers, in Ray Data's map_batches, in a DataLoader's workers, and alone.

`python -m peers.functions` makes four datasets, reads each with each system in a process of its own, and prints rows
per CPU second of all its processes, the median of the passes. "alone" is one process that reads with pyarrow and calls
the function: what it takes is what nobody can save. In the pass before those that count each system sums up all that it
got, weighted by the row's number, and all must come to the same.

    identity: a list of 256 float32 a row, returned as it is: what handing over costs
    tokenize: a text of some 60 words a row, which a tokenizer of Hugging Face's makes ids of (it is trained first)
    pandas:   a text with a date a row, of which pandas makes an hour, a weekday and a length
    augment:  a JPEG of 128 x 128 a row, which torchvision crops, resizes, flips and jitters; a 64th of the rows
"""

from __future__ import annotations

import argparse
import io
import logging
import math
import os
import sys
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from peers import meter
from peers.passes import outcome_of, rates, record

Columns = list[pa.Array]

WIDTH = 256
BATCH = 4096
GROUP_ROWS = 16_384
FILES = 4
WORDS = 60
SIDE, CROPPED, PHOTO_ROWS = 128, 64, 64  # pixels of a picture's side, of what is made of it, and rows for each picture
WORKLOADS = ("identity", "tokenize", "pandas", "augment")
SYSTEMS = ("alone", "dataloader", "ray", "penstock")
WORKERS = 2
ONE_THREAD = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1"}


def make(workload: str, rows: int, folder: Path) -> Path:
    """Writes a dataset, unless it is there."""
    data = folder / f"functions-{workload}-{rows}"
    if data.exists():
        return data
    rng, aside = np.random.default_rng(1), data.with_suffix(".part")
    rows = at_once(workload, rows)
    aside.mkdir(parents=True, exist_ok=True)
    vocabulary = ["".join(chr(97 + c) for c in rng.integers(0, 26, rng.integers(2, 9))) for _ in range(20_000)]
    for file in range(FILES):
        n = rows // FILES
        if workload == "identity":
            flat = pa.array(rng.standard_normal(n * WIDTH, dtype=np.float32))
            x: pa.Array = pa.ListArray.from_arrays(WIDTH * np.arange(n + 1, dtype=np.int32), flat)
        elif workload == "tokenize":
            words = rng.zipf(1.2, (n, WORDS)) % len(vocabulary)
            x = pa.array([" ".join(vocabulary[w] for w in row) for row in words])
        elif workload == "augment":
            x = pa.array([_photo(rng) for _ in range(n)])
        else:
            seconds = rng.integers(1_600_000_000, 1_700_000_000, n).astype("datetime64[s]")
            x = pa.array([f"{at} {'x' * int(k)}" for at, k in zip(seconds, rng.integers(0, 40, n), strict=True)])
        table = pa.table({"row": np.arange(file * n, (file + 1) * n), "x": x})
        group = at_once(workload, GROUP_ROWS)
        pq.write_table(table, aside / f"part-{file}.parquet", row_group_size=group, use_dictionary=False)
    if workload == "tokenize":
        _train(x, aside / "_tokenizer.json")  # names that begin so are no data
    aside.rename(data)
    return data


def _photo(rng: np.random.Generator) -> bytes:
    """A picture of colours that run into each other, as those of photos do."""
    from PIL import Image

    coarse = Image.fromarray(rng.integers(0, 256, (8, 8, 3), np.uint8))
    with io.BytesIO() as file:
        coarse.resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(file, "JPEG", quality=90)
        return file.getvalue()


def _train(texts: pa.Array, to: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.train_from_iterator(texts[:5000].to_pylist(), trainers.BpeTrainer(vocab_size=8000, show_progress=False))
    made.save(str(to))


class Identity:
    """Gives back what it gets."""

    def __init__(self, data: str) -> None:
        pass

    def __call__(self, x: pa.Array) -> pa.Array:
        return x


class Tokenize:
    """Ids of a text's tokens."""

    def __init__(self, data: str) -> None:
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(f"{data}/_tokenizer.json")

    def __call__(self, x: pa.Array) -> pa.Array:
        ids = [np.array(found.ids, np.int32) for found in self._tokenizer.encode_batch(x.to_pylist())]
        offsets = np.concatenate([[0], np.cumsum([len(one) for one in ids])]).astype(np.int32)
        return pa.ListArray.from_arrays(offsets, np.concatenate(ids))


class Pandas:
    """The hour and the weekday of a date, a hundred to one, and how long the text is."""

    def __init__(self, data: str) -> None:
        pass

    def __call__(self, x: pa.Array) -> pa.Array:
        import pandas as pd

        text = x.to_pandas()
        at = pd.to_datetime(text.str.slice(0, 19))
        found = at.dt.hour * 10_000 + at.dt.day_of_week * 1000 + text.str.len()
        return pa.array(found.to_numpy(np.int64))


class Augment:
    """A picture as torchvision augments it for training, by a seed of its own bytes."""

    def __init__(self, data: str) -> None:
        from torchvision.transforms import v2

        self._augment = v2.Compose([
            v2.RandomResizedCrop(CROPPED, antialias=True), v2.RandomHorizontalFlip(), v2.ColorJitter(0.4, 0.4, 0.4),
        ])  # fmt: skip

    def __call__(self, x: pa.Array) -> pa.Array:
        import torch
        from PIL import Image
        from torchvision.transforms.v2.functional import pil_to_tensor

        torch.set_num_threads(1)
        made = np.empty((len(x), 3, CROPPED, CROPPED), np.uint8)
        for i, photo in enumerate(x.to_pylist()):
            torch.manual_seed(zlib.crc32(photo))
            made[i] = self._augment(pil_to_tensor(Image.open(io.BytesIO(photo)))).numpy()
        return pa.FixedSizeListArray.from_arrays(pa.array(made.reshape(-1)), 3 * CROPPED * CROPPED)


FUNCTIONS: dict[str, type] = {"identity": Identity, "tokenize": Tokenize, "pandas": Pandas, "augment": Augment}


def at_once(workload: str, rows: int) -> int:
    """Rows of a batch, or of a row group: fewer where each is a picture."""
    return rows // PHOTO_ROWS if workload == "augment" else rows


def groups(data: Path) -> list[tuple[Path, int]]:
    """All row groups."""
    return [(f, g) for f in sorted(data.glob("*.parquet")) for g in range(pq.read_metadata(f).num_row_groups)]


def batches(
    workload: str, mine: list[tuple[Path, int]], call: Callable[[pa.Array], pa.Array]
) -> Iterator[tuple[Any, pa.Array]]:
    """Row numbers and what the function makes of the rows, batch by batch."""
    pa.set_cpu_count(1)
    for file, group in mine:
        with pq.ParquetFile(file, memory_map=True, pre_buffer=False) as opened:
            for batch in opened.iter_batches(at_once(workload, BATCH), [group], ["row", "x"], use_threads=False):
                yield batch["row"].to_numpy(), call(batch["x"])


def parts(made: pa.Array) -> tuple[Any, Any]:
    """Values, and offsets where there are lists, as NumPy has them."""
    if pa.types.is_fixed_size_list(made.type):
        return made.flatten().to_numpy(), made.type.list_size * np.arange(len(made) + 1)
    if pa.types.is_list(made.type):
        return made.flatten().to_numpy(), made.offsets.to_numpy() - made.offsets[0].as_py()
    return made.to_numpy(), None


def alone(workload: str, data: Path) -> Callable[[], Iterable[tuple[Any, Any, Any]]]:
    """One process."""
    call, all_groups = FUNCTIONS[workload](str(data)), groups(data)
    return lambda: ((row, *parts(made)) for row, made in batches(workload, all_groups, call))


def dataloader(workload: str, data: Path) -> Callable[[], Iterable[tuple[Any, Any, Any]]]:
    """torch's: workers share out the row groups and yield whole batches."""
    import torch
    from torch.utils.data import DataLoader, IterableDataset, get_worker_info

    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", "The given NumPy array is not writable")
    all_groups = groups(data)

    class Groups(IterableDataset):  # type: ignore[misc]
        def __iter__(self) -> Iterator[tuple[Any, Any, Any]]:
            worker = get_worker_info()
            call = FUNCTIONS[workload](str(data))
            for row, made in batches(workload, all_groups[worker.id :: worker.num_workers], call):
                values, offsets = parts(made)
                lists = None if offsets is None else torch.from_numpy(offsets)
                yield torch.from_numpy(row), torch.from_numpy(values), lists

    loader = DataLoader(Groups(), batch_size=None, num_workers=WORKERS, prefetch_factor=4, persistent_workers=True)

    def read() -> Iterator[tuple[Any, Any, Any]]:
        for row, values, offsets in loader:
            yield row.numpy(), values.numpy(), None if offsets is None else offsets.numpy()

    return read


def ray(workload: str, data: Path) -> Callable[[], Iterable[tuple[Any, Any, Any]]]:
    """Ray Data: the function in actors, as its documentation has it for classes."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray as cluster
    import ray.data

    cluster.init(num_cpus=WORKERS, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR,
                 object_store_memory=2 << 30, _memory=8 << 30)  # fmt: skip
    ray.data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)

    class Call:
        def __init__(self) -> None:
            self._call = FUNCTIONS[workload](str(data))

        def __call__(self, table: pa.Table) -> pa.Table:
            made = self._call(table["x"].combine_chunks())
            return pa.table({"row": table["row"], "x": made})

    files = [str(f) for f in sorted(data.glob("*.parquet"))]
    dataset = ray.data.read_parquet(files, columns=["row", "x"]).map_batches(
        Call, batch_format="pyarrow", batch_size=at_once(workload, BATCH), zero_copy_batch=True,
        compute=ray.data.ActorPoolStrategy(size=1), num_cpus=1,
    )  # fmt: skip

    def read() -> Iterator[tuple[Any, Any, Any]]:
        for table in dataset.iter_batches(
            batch_size=at_once(workload, BATCH), batch_format="pyarrow", prefetch_batches=4
        ):
            yield table["row"].to_numpy(), *parts(table["x"].combine_chunks())

    return read


def penstock(workload: str, data: Path) -> Callable[[], Iterable[tuple[Any, Any, Any]]]:
    """A loader with a fleet of its own."""
    import penstock

    out, made = {
        "identity": (penstock.float32.list(), penstock.sparse("made")),
        "tokenize": (penstock.int32.list(), penstock.sparse("made")),
        "pandas": (penstock.int64, penstock.label("made")),
        "augment": (penstock.uint8.tensor(3, CROPPED, CROPPED), penstock.tensor("made")),
    }[workload]
    call = penstock.op(FUNCTIONS[workload], out={"made": out}, args=(str(data),))
    loader = penstock.DataLoader(
        f"{data}/*.parquet", transforms=[call("x")], features=penstock.label("row") + made,
        batch_size=at_once(workload, BATCH), format="numpy",
    )  # fmt: skip

    def read() -> Iterator[tuple[Any, Any, Any]]:
        for batch in loader:
            if workload == "pandas":
                yield batch.labels["row"], batch.labels["made"], None
            elif workload == "augment":
                pixels = batch.tensors["made"]
                yield batch.label, pixels.reshape(-1), pixels[0].size * np.arange(len(pixels) + 1)
            else:
                yield batch.label, batch.sparse["made"].values, batch.sparse["made"].offsets

    return read


READERS = {"alone": alone, "dataloader": dataloader, "ray": ray, "penstock": penstock}


def total(read: Iterable[tuple[Any, Any, Any]]) -> float:
    """The sum of all values, each times the number of its row."""
    found = 0.0
    for row, values, offsets in read:
        weights = row % 1009 if offsets is None else np.repeat(row % 1009, np.diff(offsets))
        found += float((values.astype(np.float64) * weights).sum())
    return found


def subject(workload: str, system: str, data: Path, kind: str, name: str, passes: int) -> None:
    """Reads as one system, and prints what each pass took."""
    account = meter.KINDS[kind](name)
    account.join()
    read = READERS[system](workload, data)

    def once() -> int:
        rows = 0
        for row, values, _ in read():
            rows += len(row)
            values[:1].sum()
        return rows

    record(account, total(read()), once, passes)


def compare(workload: str, systems: list[str], data: Path, kind: str, passes: int) -> None:
    """Runs each system, and prints the figures beside those of the first."""
    base = first = 0.0
    for system in systems:
        outcome = outcome_of("peers.functions", workload, system, str(data), kind, passes)
        first = first or outcome["total"]
        if not math.isclose(outcome["total"], first, rel_tol=1e-9):
            raise SystemExit(f"{workload}: {system} got other values: {outcome['total']}, not {first}")
        rate, wall = rates(outcome)
        base = base or rate
        cost = f"{1e6 / rate:8.2f} us of CPU a row, {1e6 / rate - 1e6 / base:+8.2f}"
        print(f"{workload:10} {system:12} {rate:12,.0f} rows/CPU s ({rate / base:.2f})  {cost}  {wall:12,.0f} rows/s",
              flush=True)  # fmt: skip


def main() -> None:
    """Makes the datasets and compares, or is one of the subjects."""
    os.environ.update(ONE_THREAD)
    if sys.argv[1:2] == ["--subject"]:
        workload, system, data, kind, name, passes = sys.argv[2:]
        subject(workload, system, Path(data), kind, name, int(passes))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=131_072, help="of each dataset")
    parser.add_argument("--passes", type=int, default=5, help="that are measured, behind one that is not")
    parser.add_argument("--data", type=Path, default=Path("/tmp/penstock-bench"), help="where datasets lie")
    parser.add_argument("--workload", choices=WORKLOADS, action="append", help="one of them (default: all)")
    parser.add_argument("--system", choices=SYSTEMS, action="append", help="one of them (default: all)")
    given = parser.parse_args()
    kind = meter.kind()
    for workload in given.workload or WORKLOADS:
        compare(workload, given.system or list(SYSTEMS), make(workload, given.rows, given.data), kind, given.passes)


if __name__ == "__main__":
    main()
