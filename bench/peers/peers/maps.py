"""Keys of a map, and the columns that `penstock convert --flatten` makes of them: CPU time, and bytes from storage.

`python -m peers.maps` makes tables whose rows have some 80 of 100 keys, converts each with and without --flatten, reads
3, 10, 30 and 100 of the keys from both with a master, a worker and a loader, and prints rows per CPU second of all
processes (the median of the passes) and the bytes that the worker read. Both layouts must give the same sums. With
--keys there are more keys, fewer rows, and the same shares of the keys are read.

    scalars: map<int64, float32>
    lists:   map<int64, list<int64>>, of 0 to 10 ids drawn from a Zipf distribution
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from peers import meter
from peers.passes import Outcome, outcome_of, record

PRESENT = 0.8  # the share of rows that have a key
ENTRIES = {"scalars": 40_000_000, "lists": 10_000_000}  # keys times rows
CHOSEN = (0.03, 0.1, 0.3, 1.0)  # shares of the keys
LAYOUTS = ("map", "flat")
BATCH = 4096


def make(workload: str, keys: int, folder: Path) -> dict[str, Path]:
    """Writes the table in both layouts, unless they are there."""
    made = {layout: folder / f"maps-{workload}-{keys}-{layout}" for layout in LAYOUTS}
    if all(data.exists() for data in made.values()):
        return made
    folder.mkdir(parents=True, exist_ok=True)
    rng, rows = np.random.default_rng(1), ENTRIES[workload] // keys
    there = rng.random((rows, keys)) < PRESENT
    names = np.broadcast_to(np.arange(keys, dtype=np.int64), there.shape)[there]
    offsets = np.concatenate(([0], np.cumsum(there.sum(axis=1)))).astype(np.int32)
    if workload == "scalars":
        values: pa.Array = pa.array(rng.standard_normal(len(names), np.float32))
    else:
        ends = np.concatenate(([0], np.cumsum(rng.integers(0, 11, len(names))))).astype(np.int32)
        values = pa.ListArray.from_arrays(ends, rng.zipf(1.3, ends[-1]) % 1_000_000)
    table = pa.table({"row": np.arange(rows), "m": pa.MapArray.from_arrays(offsets, names, values)})
    with tempfile.TemporaryDirectory(dir=folder) as aside:
        pq.write_table(table, f"{aside}/part.parquet", row_group_size=1 << 14)
        for layout, data in made.items():
            flat = ["--flatten=m"] if layout == "flat" else []
            subprocess.run(
                [os.environ["PENSTOCK_BINARY"], "convert", f"{aside}/part.parquet", f"--out={data}", "--overwrite",
                 *flat], check=True, stdout=subprocess.DEVNULL,
            )  # fmt: skip
    return made


@contextmanager
def fleet() -> Iterator[tuple[str, str]]:
    """A master and a worker: the master's address, and where the worker's metrics are."""
    with tempfile.TemporaryDirectory() as scratch:
        processes: list[subprocess.Popen[bytes]] = []

        def begin(role: str, *flags: str) -> dict[str, str]:
            command = [os.environ["PENSTOCK_BINARY"], role, "--listen=127.0.0.1:0", "--gossip=127.0.0.1:0", *flags]
            with Path(scratch, f"{role}.log").open("wb") as log:
                process = subprocess.Popen([*command, "--output=json", "--end-with-stdin"],
                                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)  # fmt: skip
            processes.append(process)
            assert process.stdout is not None
            if not (line := process.stdout.readline()):
                raise SystemExit(f"{role} did not come up: {Path(scratch, f'{role}.log').read_text()}")
            said: dict[str, str] = json.loads(line)
            return said

        try:
            master = begin("master", f"--data-dir={scratch}/master", "--join=")
            worker = begin("worker", f"--join={master['gossip']}", "--http=127.0.0.1:0")
            yield master["address"], f"http://{worker['http']}/metrics"
        finally:
            for process in reversed(processes):
                assert process.stdin is not None
                process.stdin.close()
                process.wait(30)


def read_bytes(metrics: str) -> int:
    """What the worker has read from storage so far."""
    with urllib.request.urlopen(metrics, timeout=10) as answer:
        for line in answer.read().decode().splitlines():
            name, _, value = line.partition(" ")
            if name == "penstock_worker_storage_read_bytes_total":
                return int(float(value))
    raise SystemExit(f"{metrics} tells no bytes")


def subject(workload: str, chosen: int, keys: int, data: Path, kind: str, name: str, passes: int) -> None:
    """Reads some of the keys, and prints what each pass took, and the bytes of one."""
    import penstock

    account = meter.KINDS[kind](name)
    account.join()
    names = [f"m.{key}" for key in np.linspace(0, keys - 1, chosen).astype(int)]
    features = penstock.dense(*names) if workload == "scalars" else penstock.sparse(*names)
    with fleet() as (master, metrics):

        def opened(epochs: int) -> penstock.DataLoader:
            return penstock.DataLoader(f"{data}/*.parquet", features=features, batch_size=BATCH, format="numpy",
                                       epochs=epochs, master=master, name=f"epochs-{epochs}")  # fmt: skip

        total = 0.0
        with opened(1) as loader:
            for batch in loader:
                if workload == "scalars":
                    total += float(np.nansum(batch.dense, dtype=np.float64))
                else:
                    total += float(sum(batch.sparse[n].values.sum() for n in names))
        read = read_bytes(metrics)
        with opened(passes + 1) as loader:

            def once() -> int:
                for _ in loader:
                    pass
                return ENTRIES[workload] // keys

            once()
            record(account, total, once, passes, bytes=read)


def compare(workload: str, keys: int, folder: Path, kind: str, passes: int) -> None:
    """Reads both layouts, and prints what they took."""
    made = make(workload, keys, folder)
    for share in CHOSEN:
        chosen = round(share * keys)
        found = {
            layout: outcome_of("peers.maps", workload, f"{chosen}/{keys}", str(data), kind, passes)
            for layout, data in made.items()
        }
        if not np.isclose(found["map"]["total"], found["flat"]["total"], rtol=1e-9):
            raise SystemExit(f"{workload}, {chosen} of {keys} keys: {found}")
        print(f"{workload:8} {chosen:5} of {keys} keys: {told(found['map'], found['flat'])}", flush=True)


def told(before: Outcome, after: Outcome) -> str:
    """Both layouts in words."""
    rates = [statistics.median(one["rows"] / one["cpu"] for one in o["passes"]) for o in (before, after)]
    mb = [o["bytes"] / 1e6 for o in (before, after)]
    return (f"map {rates[0]:9,.0f}, flat {rates[1]:9,.0f} rows per CPU second, {rates[1] / rates[0]:5.2f} times; "
            f"map {mb[0]:6.1f}, flat {mb[1]:6.1f} MB, {1 - mb[1] / mb[0]:4.0%} less")  # fmt: skip


def main() -> None:
    """Makes the tables and compares, or is one of the subjects."""
    if sys.argv[1:2] == ["--subject"]:
        workload, chosen, data, kind, name, passes = sys.argv[2:]
        some, _, keys = chosen.partition("/")
        subject(workload, int(some), int(keys), Path(data), kind, name, int(passes))
        return
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=100, help="of the maps")
    parser.add_argument("--passes", type=int, default=3, help="that are measured, behind two that are not")
    parser.add_argument("--data", type=Path, default=Path("/tmp/penstock-bench"), help="where the tables lie")
    parser.add_argument("--workload", choices=tuple(ENTRIES), action="append", help="one of them (default: all)")
    given = parser.parse_args()
    for workload in given.workload or ENTRIES:
        compare(workload, given.keys, given.data, meter.kind(), given.passes)


if __name__ == "__main__":
    main()
