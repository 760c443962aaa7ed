"""What transforms cost: lookups beside Polars' join, expressions beside NumPy, and Transforms of few and of many rows.

`python -m peers.transforms` makes datasets, reads each with a loader that has the transform and with one that has not,
and prints the difference in CPU time of all processes, in ns a row: the median of the passes. The others work on
columns in memory. All must find the same sums.

    lookup: a float32 of a table of 10^7 rows by an int64, drawn uniformly; Polars builds its hash table in each join
    expr:   case when a > 0 then ln(a + 1) / nullif(b, 0) else b end
    apply:  penstock.Transforms, of Criteo's shape: fill_null, clamp, log1p and 26 hashes; us a call
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from peers import meter
from peers.passes import outcome_of, record

TABLE = 10_000_000
ROWS = {"lookup": 16_000_000, "expr": 16_000_000}
BATCH = 8192
GROUP_ROWS = 1 << 20
EXPRESSION = "case when a > 0 then ln(a + 1) / nullif(b, 0) else b end"
SYSTEMS = {"lookup": ("without", "penstock", "polars"), "expr": ("without", "penstock", "numpy")}


def make(workload: str, folder: Path) -> Path:
    """Writes a dataset, and the table of lookups, unless they are there."""
    data = folder / f"transforms-{workload}"
    if data.exists():
        return data
    rng, aside, rows = np.random.default_rng(1), data.with_suffix(".part"), ROWS[workload]
    aside.mkdir(parents=True, exist_ok=True)
    if workload == "lookup":
        keys = rng.permutation(TABLE).astype(np.int64) * 40503
        side = pa.table({"id": keys, "price": rng.standard_normal(TABLE, np.float32)})
        pq.write_table(side, aside / "_side.parquet", use_dictionary=False)
        table = pa.table({"id": keys[rng.integers(0, TABLE, rows)]})
    else:
        b = rng.integers(0, 10, rows).astype(np.float32)
        table = pa.table({"a": rng.standard_normal(rows, np.float32), "b": b})
    pq.write_table(table, aside / "part.parquet", row_group_size=GROUP_ROWS, use_dictionary=False)
    aside.rename(data)
    return data


def loader(workload: str, data: Path, *, bare: bool) -> Callable[[], float]:
    """A loader with a fleet of its own: the sum of what it makes, without null's zeros, once all was read."""
    import penstock

    transforms: list[Any] = []
    features = penstock.label("id") if workload == "lookup" else penstock.dense("a", "b")
    if not bare:
        if workload == "lookup":
            transforms = [penstock.lookup("id", data / "_side.parquet", "price", key="id")]
            features += penstock.dense("price")
        else:
            transforms = [penstock.expr(EXPRESSION, out="made"), penstock.cast("made", to="float32")]
            features += penstock.dense("made")
    opened = penstock.DataLoader(
        f"{data}/*.parquet", features=features, transforms=transforms, batch_size=BATCH, format="numpy"
    )

    def read() -> float:
        total = 0.0
        for batch in opened:
            if not bare:
                total += float(np.nansum(batch.dense[:, -1], dtype=np.float64))
        return total

    return read


def polars(data: Path) -> Callable[[], float]:
    """A join of all rows in memory."""
    import polars as pl

    rows, side = pl.read_parquet(data / "part.parquet"), pl.read_parquet(data / "_side.parquet")
    return lambda: float(rows.join(side, on="id", how="left")["price"].cast(pl.Float64).sum())


def numpy(data: Path) -> Callable[[], float]:
    """The expression on arrays in memory, a batch at a time."""
    table = pq.read_table(data / "part.parquet")
    a, b = (table[name].to_numpy() for name in ("a", "b"))

    def read() -> float:
        total = 0.0
        with np.errstate(all="ignore"):
            for at in range(0, len(a), BATCH):
                x, y = a[at : at + BATCH], b[at : at + BATCH]
                made = np.where(x > 0, np.log(x + np.float32(1)) / np.where(y == 0, np.float32("nan"), y), y)
                total += float(np.nansum(made, dtype=np.float64))
        return total

    return read


def reader(workload: str, system: str, data: Path) -> Callable[[], float]:
    """What makes a pass."""
    if system in ("without", "penstock"):
        return loader(workload, data, bare=system == "without")
    return polars(data) if system == "polars" else numpy(data)


def subject(workload: str, system: str, data: Path, kind: str, name: str, passes: int) -> None:
    """Reads as one system, and prints what each pass took."""
    account = meter.KINDS[kind](name)
    account.join()
    read = reader(workload, system, data)

    def once() -> int:
        read()
        return ROWS[workload]

    record(account, read(), once, passes)


def compare(workload: str, data: Path, kind: str, passes: int) -> None:
    """Runs each system, and prints what a row costs."""
    bare = first = 0.0
    for system in SYSTEMS[workload]:
        outcome = outcome_of("peers.transforms", workload, system, str(data), kind, passes)
        cost = statistics.median(1e9 * one["cpu"] / one["rows"] for one in outcome["passes"])
        if system == "without":
            bare = cost
            print(f"{workload:8} {system:10} {cost:8.1f} ns of CPU a row", flush=True)
            continue
        first = first or outcome["total"]
        if not np.isclose(outcome["total"], first, rtol=1e-4):
            raise SystemExit(f"{workload}: {system} got {outcome['total']}, not {first}")
        print(f"{workload:8} {system:10} {cost - (bare if system == 'penstock' else 0):8.1f} ns", flush=True)


def apply() -> None:
    """How long calls of Transforms take, of rows that are in memory."""
    import penstock

    ints, texts = [f"int_{i}" for i in range(13)], [f"cat_{i}" for i in range(26)]
    rng = np.random.default_rng(1)
    transforms = [
        penstock.fill_null(ints, 0), penstock.clamp(ints, min=0), penstock.log1p(ints),
        penstock.sigrid_hash(texts, max=1_000_000),
    ]  # fmt: skip
    with penstock.Transforms(features=penstock.dense(*ints) + penstock.sparse(*texts), transforms=transforms) as made:
        for rows in (1, 100, 10_000):
            columns: dict[str, Any] = {n: rng.standard_normal(rows, np.float32) for n in ints}
            columns |= {n: [f"{x:08x}" for x in rng.integers(0, 1 << 32, rows)] for n in texts}
            table, took = pa.table(columns), []
            for _ in range(max(5, 500 // rows)):
                began = time.perf_counter()
                made(table)
                took.append(time.perf_counter() - began)
            middle = statistics.median(took)
            print(
                f"apply    {rows:6} rows {1e6 * middle:10,.0f} us a call, {1e6 * middle / rows:8.2f} a row", flush=True
            )


def main() -> None:
    """Makes the datasets and compares, or is one of the subjects."""
    if sys.argv[1:2] == ["--subject"]:
        workload, system, data, kind, name, passes = sys.argv[2:]
        subject(workload, system, Path(data), kind, name, int(passes))
        return
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passes", type=int, default=3, help="that are measured, behind one that is not")
    parser.add_argument("--data", type=Path, default=Path("/tmp/penstock-bench"), help="where datasets lie")
    parser.add_argument("--workload", choices=(*SYSTEMS, "apply"), action="append", help="one of them (default: all)")
    given = parser.parse_args()
    kind = meter.kind()
    for workload in given.workload or (*SYSTEMS, "apply"):
        if workload == "apply":
            apply()
        else:
            compare(workload, make(workload, given.data), kind, given.passes)


if __name__ == "__main__":
    main()
