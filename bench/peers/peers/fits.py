"""Statistics of a dataset by Penstock's fit, DuckDB, Polars, and Dask as NVTabular uses it on CPUs.

`python -m peers.fits` makes a Parquet file and has each system, in a process of its own, read it, compute, and write
the vocabularies to Parquet. It prints the rows per CPU second, the time and the greatest memory of each. All must find
the same means and vocabularies of the same sizes.

    criteo: mean, deviation, least, greatest and 100 quantiles of 13 numbers, and 26 vocabularies by frequency, of texts
            with as many distinct values as Criteo's
    ids:    the vocabulary of a column of uniformly drawn int64, with a limit of memory; Polars and Dask have none
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

from peers import meter

DISTINCT = (1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194, 27, 14992, 5461306, 10,
            5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572)  # fmt: skip
NUMBERS = [f"int_{i}" for i in range(13)]
TEXTS = [f"cat_{i}" for i in range(len(DISTINCT))]
PARTS = 100
SYSTEMS = ("penstock", "duckdb", "polars", "dask")
WORKLOADS = {"criteo": 2_000_000, "ids": 100_000_000}  # and how many rows
Found = tuple[dict[str, float], dict[str, int]]  # means, and sizes of vocabularies


def make(workload: str, rows: int, folder: Path) -> Path:
    """Writes a file, unless it is there."""
    import duckdb

    file = folder / f"fits-{workload}-{rows}.parquet"
    if file.exists():
        return file
    folder.mkdir(parents=True, exist_ok=True)

    def drawn(seed: int) -> str:
        return f"(hash(i, {seed}) / 18446744073709551616.0)"

    if workload == "ids":
        columns = [f"(hash(i, 1) % {rows})::bigint * 40503 - 1000000007 as id"]
    else:
        numbers = [f"exp({drawn(i)} * ln(1e5))::int::float as {name}" for i, name in enumerate(NUMBERS)]
        texts = [
            f"format('{{:08x}}', ((exp({drawn(100 + i)} * ln({n})))::bigint * 2654435769) % 4294967296) as {name}"
            for i, (n, name) in enumerate(zip(DISTINCT, TEXTS, strict=True))
        ]
        columns = numbers + texts
    aside = file.with_suffix(".part")
    duckdb.execute(f"copy (select {', '.join(columns)} from range({rows}) r(i)) to '{aside}' (format parquet)")
    aside.rename(file)
    return file


def penstock(file: Path, numbers: list[str], vocabularies: list[str], memory: int, out: Path) -> Found:
    """`penstock fit`, with a fleet of its own."""
    import penstock

    transforms: list[Any] = [penstock.map_id(name, vocabulary="fit") for name in vocabularies]
    for name in numbers:
        borders = penstock.Fit("quantiles", PARTS)
        transforms.append(penstock.bucketize(name, borders, out=f"{name}_part"))
        transforms.append(penstock.scale_to_z_score(name, of="fit"))
    fitted = penstock.fit(file, transforms=transforms, memory=memory, out=out / "fitted.parquet", folder=out / "counts")
    means = {s.of: s.values["mean"] for s in fitted.statistics if s.statistic == "moments"}
    return means, {s.of: s.size or 0 for s in fitted.statistics if s.statistic == "vocabulary"}


def duckdb(file: Path, numbers: list[str], vocabularies: list[str], memory: int, out: Path) -> Found:
    """DuckDB: one statement for the numbers, and one for each vocabulary."""
    import duckdb

    db = duckdb.connect(out / "db", config={"memory_limit": f"{memory}B", "temp_directory": str(out)})
    shares = [i / PARTS for i in range(1, PARTS)]
    means, sizes = {}, {}
    if numbers:
        asked = ", ".join(
            f"avg({n}), stddev_pop({n}), min({n}), max({n}), quantile_disc({n}, {shares})" for n in numbers
        )
        row = db.execute(f"select {asked} from '{file}'").fetchone() or ()
        means = dict(zip(numbers, row[::5], strict=True))
    for n in vocabularies:
        found = db.execute(
            f"copy (select {n}, count(*) c from '{file}' where {n} is not null group by 1 order by c desc, 1) "
            f"to '{out}/{n}.parquet'"
        ).fetchone()
        sizes[n] = found[0] if found else 0
    return means, sizes


def polars(file: Path, numbers: list[str], vocabularies: list[str], memory: int, out: Path) -> Found:
    """Polars: a query for each column."""
    import polars as pl

    data = pl.scan_parquet(file)
    means, sizes = {}, {}
    for n in numbers:
        c = data.select(n).collect()[n].drop_nulls().sort()  # once, in place of once a quantile
        means[n] = c.mean()
        _ = c.std(ddof=0), c.min(), c.max(), c.gather([len(c) * i // PARTS for i in range(1, PARTS)])
    for n in vocabularies:
        counts = data.select(n).drop_nulls().group_by(n).len().sort(["len", n], descending=[True, False]).collect()
        counts.write_parquet(out / f"{n}.parquet")
        sizes[n] = counts.height
    return means, sizes


def dask(file: Path, numbers: list[str], vocabularies: list[str], memory: int, out: Path) -> Found:
    """Dask, as NVTabular's Categorify and Normalize: counts a partition, merged in a tree; its quantiles are near."""
    import dask as d
    import dask.dataframe as dd
    import pandas as pd

    data = dd.read_parquet(file, split_row_groups=8)
    wanted = [data[n].value_counts(split_every=8) for n in vocabularies]
    shares = [i / PARTS for i in range(1, PARTS)]
    for n in numbers:
        c = data[n]
        wanted += [c.mean(), c.std(ddof=0), c.min(), c.max(), c.quantile(shares)]
    computed = d.compute(*wanted)
    sizes = {}
    for n, counts in zip(vocabularies, computed, strict=False):
        table = pd.DataFrame({n: counts.index, "count": counts.to_numpy()})
        table.sort_values(["count", n], ascending=[False, True]).to_parquet(out / f"{n}.parquet")
        sizes[n] = len(counts)
    return dict(zip(numbers, computed[len(vocabularies) :: 5], strict=True)), sizes


READERS = {"penstock": penstock, "duckdb": duckdb, "polars": polars, "dask": dask}


def subject(workload: str, system: str, file: Path, kind: str, name: str, memory: int, out: Path) -> None:
    """Fits by one system, and prints what it took and found."""
    account = meter.KINDS[kind](name)
    account.join()
    numbers, vocabularies = ([], ["id"]) if workload == "ids" else (NUMBERS, TEXTS)
    with meter.peak_memory(account) as peak:
        cpu, began = account.cpu_seconds(), time.perf_counter()
        means, sizes = READERS[system](file, numbers, vocabularies, memory, out)
        seconds = time.perf_counter() - began
    found = {
        "cpu": account.cpu_seconds() - cpu, "seconds": seconds, "peak": peak[0],
        "means": [float(means[n]) for n in numbers], "sizes": [sizes[n] for n in vocabularies],
    }  # fmt: skip
    print(json.dumps(found), flush=True)


def outcome_of(*given: str, out: Path) -> dict[str, Any]:
    """What a subject printed, whose processes had an account of their own."""
    import shutil

    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    workload, system, file, kind, memory = given
    name = f"penstock-fits-{uuid.uuid4().hex[:8]}"
    account = meter.KINDS[kind](name)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "peers.fits", "--subject", workload, system, file, kind, name, memory, str(out)],
            check=True, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
    finally:
        meter.close(account)
        shutil.rmtree(out)
    outcome: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return outcome


def main() -> None:
    """Makes the file and compares, or is one of the subjects."""
    if sys.argv[1:2] == ["--subject"]:
        workload, system, file, kind, name, memory, out = sys.argv[2:]
        subject(workload, system, Path(file), kind, name, int(memory), Path(out))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", choices=WORKLOADS, default="criteo")
    parser.add_argument("--rows", type=int, help="of the file")
    parser.add_argument("--memory", type=int, default=4096, help="MiB, the limit of Penstock and DuckDB")
    parser.add_argument("--data", type=Path, default=Path("/tmp/penstock-bench"), help="where the file lies")
    parser.add_argument("--system", choices=SYSTEMS, action="append", help="one of them (default: all)")
    given = parser.parse_args()
    rows = given.rows or WORKLOADS[given.workload]
    data, kind = make(given.workload, rows, given.data), meter.kind()
    first: dict[str, Any] = {}
    for system in given.system or SYSTEMS:
        found = outcome_of(
            given.workload, system, str(data), kind, str(given.memory << 20), out=given.data / "fits-out"
        )
        first = first or found
        near = all(math.isclose(a, b, rel_tol=1e-6) for a, b in zip(first["means"], found["means"], strict=True))
        if not near or found["sizes"] != first["sizes"]:
            raise SystemExit(f"{given.workload}: {system} found others: {found}, not {first}")
        rate, of_first = rows / found["cpu"], first["cpu"] / found["cpu"]
        print(f"{given.workload:8} {system:10} {rate:12,.0f} rows/CPU s ({of_first:.2f})  {found['seconds']:8.1f} s"
              f"  {found['cpu']:8.1f} CPU s  peak {found['peak'] >> 20:6} MiB",
              flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
