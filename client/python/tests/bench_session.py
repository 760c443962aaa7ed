"""Rows per second of this client beside the Go client's, on one fleet: python tests/bench_session.py BINARY URI.

URI holds Parquet files of Criteo's shape (int_*, cat_*, label); `penstock demo dataset` makes such. Both clients read
one epoch in turns. Where other programs run beside, the CPU times tell more than the rates.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

from penstock._session import Config, Session
from tests.conftest import Fleet

SPEC = """
dataset: {{uri: "{uri}"}}
features:
- {{name: "int_*", layout: dense}}
- {{name: "cat_*", layout: sparse}}
- {{name: label, layout: label}}
transforms:
- {{op: fill_null, in: "int_*", value: 0}}
- {{op: log1p, in: "int_*"}}
- {{op: sigrid_hash, in: "cat_*", salt: 0, max: 1000000}}
- {{op: first_x, in: "cat_*", x: 20}}
batch_size: {batch_size}
seed: 1
shuffle: true
"""
ROUNDS = 4


def cpu(who: int) -> float:
    """Seconds of CPU so far."""
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def go(fleet: Fleet, spec: Path) -> float:
    command = [str(fleet.binary), "read", str(spec), f"--master={fleet.master}", "--output=json"]
    before = cpu(resource.RUSAGE_CHILDREN)
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    print(f"  Go: {cpu(resource.RUSAGE_CHILDREN) - before:.2f} s of CPU")
    rate: float = json.loads(out.splitlines()[-1])["rows_per_second"]
    return rate


def python(fleet: Fleet, spec: Path) -> float:
    begin, before = time.perf_counter(), cpu(resource.RUSAGE_SELF)
    session = Session(Config((fleet.master,), uuid.uuid4().hex, spec_text=spec.read_text()))
    rows = 0
    first = last = begin
    while (batch := session.next()) is not None:
        rows += batch.record.num_rows
        last = time.perf_counter()
        first = last if first == begin else first
    end = time.perf_counter()
    seconds = cpu(resource.RUSAGE_SELF) - before
    stats = session.stats()
    session.close()
    print(
        f"  Python: first batch after {first - begin:.2f} s, last after {last - begin:.2f} s; {seconds:.2f} s of CPU, "
        f"{stats.stall_seconds:.2f} s stalled, {stats.streams} streams, {stats.bytes >> 20} MiB"
    )
    return rows / (end - begin)


def main() -> None:
    binary, uri = Path(sys.argv[1]).resolve(), sys.argv[2]
    with tempfile.TemporaryDirectory() as folder:
        fleet = Fleet(binary, Path(folder)).start(workers=2)
        try:
            for batch_size in (65536, 4096):
                spec = Path(folder) / f"spec-{batch_size}.yaml"
                spec.write_text(SPEC.format(uri=uri, batch_size=batch_size))
                rates = [(go(fleet, spec), python(fleet, spec)) for _ in range(ROUNDS)]
                ratios = sorted(p / g for g, p in rates)
                print(f"batch_size {batch_size}: rows/s of Go and Python:", [f"{g:,.0f} {p:,.0f}" for g, p in rates])
                print(f"  Python/Go: {statistics.median(ratios):.2f} (median), {ratios[0]:.2f} to {ratios[-1]:.2f}")
        finally:
            fleet.stop()


if __name__ == "__main__":
    main()
