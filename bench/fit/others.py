"""What bench/fit measures of DuckDB and Polars: the same statistics of the same columns, which lie in memory first."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable

path, memory, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]


def measure(name: str, work: Callable[[], None]) -> None:
    """Print how long a piece of work takes, and the memory of this process."""

    def used() -> float:
        u = resource.getrusage(resource.RUSAGE_SELF)
        return u.ru_utime + u.ru_stime

    began, cpu = time.perf_counter(), used()
    work()
    with open("/proc/self/status") as status:
        peak = next(int(line.split()[1]) >> 10 for line in status if line.startswith("VmHWM"))
    print(f"{name:10} {time.perf_counter() - began:8.2f} s {used() - cpu:8.2f} CPU s   peak {peak} MiB", flush=True)


def duckdb_() -> None:
    """DuckDB: of many ids from the file, of Criteo's columns from a table."""
    import duckdb

    db = duckdb.connect(f"{folder}.duckdb", config={"memory_limit": f"{memory}B", "temp_directory": folder})
    names = [c[0] for c in db.execute(f"describe from '{path}'").fetchall()]
    if names == ["id"]:
        source = f"'{path}'"
    else:
        db.execute("set memory_limit = '12GB'")
        db.execute(f"create temp table data as from '{path}'")
        source = "data"
    shares = [i / 100 for i in range(1, 100)]

    def work() -> None:
        numbers = [n for n in names if n.startswith("int_")]
        if numbers:
            db.execute(
                "select "
                + ", ".join(
                    f"count({n}), avg({n}), stddev_pop({n}), min({n}), max({n}), quantile_disc({n}, {shares})"
                    for n in numbers
                )
                + f" from {source}"
            ).fetchall()
        for n in names:
            if n not in numbers:
                db.execute(
                    f"copy (select {n} v, count(*) c from {source} where v is not null group by v "
                    f"order by c desc, v) to '{folder}.parquet'"
                )

    measure("duckdb", work)


def polars_() -> None:
    """Polars, which has no limit of memory."""
    import polars as pl

    data = pl.read_parquet(path)

    def work() -> None:
        for n in data.columns:
            column = data[n]
            if n.startswith("int_"):
                _ = column.mean(), column.std(0), column.min(), column.max()
                ordered = column.sort()
                _ = [ordered[int(len(ordered) * i / 100)] for i in range(1, 100)]
            else:
                counts = column.drop_nulls().value_counts().sort(["count", n], descending=[True, False])
                counts.write_parquet(f"{folder}.parquet")

    measure("polars", work)


for system in duckdb_, polars_:
    try:
        system()
    except ImportError as e:
        print(f"{e.name} is not there")
