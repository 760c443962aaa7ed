"""A table of which a tenth of the rows is deleted: Penstock's fleet beside deltalake and pyiceberg under a DataLoader.

`python -m peers.lakehouse` makes a table of Delta Lake with deletion vectors and one of Iceberg with files of
positions, both by Spark, reads them with each system in a process of its own, and prints rows per CPU second of all its
processes: the median of the passes behind one that is not measured, in which each system sums up all that it got. All
must find the same sums. A row has a number, ten columns of numbers, which become float32 [B, 10], and a text of three
words.

delta-whole is Penstock on the same table of Delta Lake before the rows were deleted. deltalake-1 has a worker,
pyiceberg-2 has two; those without a number read in the trainer's process.

To make the tables it needs pyspark (`pip install pyspark==3.5.8`) and Java 17; to read them deltalake==1.6.6 and
pyiceberg==0.12.0.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from peers import meter
from peers.lakehouse import readers
from peers.lakehouse.data import NUMBERS, make
from peers.maps import fleet
from peers.passes import Outcome, outcome_of, rates, record

TABLES = {"delta": "delta+{}/delta", "delta-whole": "delta+{}/delta@v0", "iceberg": "iceberg+{}/ice/db/t"}
OTHERS = {"deltalake": readers.deltalake, "pyiceberg": readers.pyiceberg}
SYSTEMS = ("delta", "delta-whole", "iceberg", "deltalake", "deltalake-1", "pyiceberg", "pyiceberg-2")
BATCH = 8192


def subject(system: str, data: Path, kind: str, name: str, passes: int) -> None:
    """Reads as one system, and prints what each pass took."""
    account = meter.KINDS[kind](name)
    account.join()
    if system in TABLES:
        with fleet() as (master, _), penstock(TABLES[system].format(data), master) as read:
            measure(account, read, passes)
        return
    name, _, workers = system.partition("-")
    measure(account, readers.dataloader(OTHERS[name](data), int(workers or 0)), passes)


def measure(account: meter.Meter, read: Callable[[], Iterable[readers.Tensors]], passes: int) -> None:
    """Sums up a pass, and measures those behind it."""
    total = 0.0
    for row, dense, text, _ in read():
        total += float((dense.double().sum(1) * (row % 1009)).sum()) + len(text)

    def once() -> int:
        rows = 0
        for row, dense, text, offsets in read():
            rows += len(row)
            row.sum(), dense[0].sum(), text[:1].sum(), offsets[-1]  # a little of each batch, and all its rows
        return rows

    record(account, total, once, passes)


@contextmanager
def penstock(uri: str, master: str) -> Iterator[Callable[[], Iterator[readers.Tensors]]]:
    """A loader of a fleet."""
    import penstock

    features = penstock.label("row") + penstock.dense(*NUMBERS) + penstock.bytes_("text")
    with penstock.DataLoader(
        uri, features=features, batch_size=BATCH, format="torch", master=master, name="l"
    ) as loader:

        def read() -> Iterator[readers.Tensors]:
            for batch in loader:
                text = batch.bytes["text"]
                yield batch.label, batch.dense, text.data, text.offsets

        yield read


def compare(systems: list[str], data: Path, passes: int) -> None:
    """Runs each system, and prints the figures."""
    found: dict[str, Outcome] = {}
    for system in systems:
        found[system] = outcome_of("peers.lakehouse", "t", system, str(data), meter.kind(), passes)
        rate, _ = rates(found[system])
        each = sorted(one["rows"] / one["cpu"] for one in found[system]["passes"])
        rows = found[system]["passes"][0]["rows"]
        print(f"{system:12} {rows:10,} rows  {rate:12,.0f} rows per CPU second ({each[0]:,.0f} to {each[-1]:,.0f})",
              flush=True)  # fmt: skip
    totals = {system: outcome["total"] for system, outcome in found.items() if system != "delta-whole"}
    first = next(iter(totals.values()), 0.0)
    if not all(math.isclose(total, first, rel_tol=1e-9) for total in totals.values()):
        raise SystemExit(f"the systems got other values: {totals}")


def main() -> None:
    """Makes the tables and compares, or is one of the subjects."""
    if sys.argv[1:2] == ["--subject"]:
        _, system, data, kind, name, passes = sys.argv[2:]
        subject(system, Path(data), kind, name, int(passes))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4_000_000, help="of the tables, with those that are deleted")
    parser.add_argument("--passes", type=int, default=5, help="that are measured, behind one that is not")
    parser.add_argument("--data", type=Path, default=Path("/tmp/penstock-bench"), help="where the tables lie")
    parser.add_argument("--system", choices=SYSTEMS, action="append", help="one of them (default: all)")
    given = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    compare(given.system or list(SYSTEMS), make(given.rows, given.data), given.passes)


if __name__ == "__main__":
    main()
