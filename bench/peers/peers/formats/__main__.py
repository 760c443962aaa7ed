"""Penstock beside others on their own formats: rows per CPU second of all processes.

`python -m peers.formats` makes datasets, each in a format by the writer of its own and as Parquet, reads them with each
system, and prints rows per CPU second of all processes and rows per second: the median of the passes behind one that is
not measured. All must find the same sums. Systems are at their best settings on local files, with as many processes or
threads as there are CPUs.

    tar:      JPEGs (400 x 300) and captions; decoded, and a random part resized to 224 x 224
    jsonl:    text, ids and numbers in JSON lines, zstd; 5 of 7 columns
    tfrecord: 13 floats and 0 to 50 ids, as tf.train.Example
    mds:      256 tokens, a label and text
    csv:      numbers and text; 4 of 6 columns
    tokens:   documents of 1 to 1,023 tokens of two bytes, as Megatron has them; read as int64

`twin` is Penstock on the same rows as Parquet. SPDL needs FFmpeg's libraries (Debian's libavcodec59, libavformat59,
libavfilter8 and libavdevice59).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from peers import meter
from peers.formats import data as datasets
from peers.formats import fleet, pictures, records, tables, texts
from peers.formats.reading import Found
from peers.passes import outcome_of, rates, record

Reader = Callable[[Path], Callable[[], Found]]
OTHERS: dict[str, dict[str, Reader]] = {
    "tar": {
        "webdataset": pictures.webdataset,
        "spdl": pictures.spdl,
        "spdl-pillow": pictures.spdl_pillow,
        "energon": pictures.energon,
    },
    "jsonl": {"datasets": texts.datasets, "ray": texts.ray, "daft": texts.daft},
    "tfrecord": {"tfdata": records.tfdata},
    "mds": {"streaming": records.streaming},
    "csv": {"arrow": tables.arrow, "pandas": tables.pandas, "datasets": tables.datasets},
    "tokens": {"memmap": tables.memmap},
}
OURS = ("penstock", "twin")


def subject(workload: str, system: str, data: Path, kind: str, name: str, passes: int) -> None:
    """Reads as one system, and prints what each pass took."""
    account = meter.KINDS[kind](name)
    account.join()
    if system in OURS:
        read = fleet.loader(workload, data, twin=system == "twin")
    else:
        read = OTHERS[workload][system](data)
    rows, total = read()
    if rows != datasets.ROWS[workload]:
        raise SystemExit(f"{system} read {rows} rows of {datasets.ROWS[workload]}")
    record(account, total, lambda: read()[0], passes)


def compare(workload: str, systems: list[str], data: Path, kind: str, passes: int) -> list[str]:
    """Runs each system, prints its rates, and how the first one's compare with them; returns those that failed."""
    failed, first, before = [], "", (0.0, 0.0)
    for system in systems:
        try:
            outcome = outcome_of("peers.formats", workload, system, str(data), kind, passes)
        except subprocess.CalledProcessError as err:
            print(f"{workload:8} {system:11} failed with {err.returncode}", flush=True)
            failed.append(f"{workload}: {system}")
            continue
        per_cpu, per_second = rates(outcome)
        if not first:
            first, before = system, (per_cpu, outcome["total"])
        if not np.isclose(outcome["total"], before[1], rtol=1e-6):
            raise SystemExit(f"{workload}: {system} got {outcome['total']}, and {first} {before[1]}")
        print(f"{workload:8} {system:11} {per_cpu:10,.0f} rows per CPU second, {per_second:10,.0f} per second; "
              f"{first} makes {before[0] / per_cpu:5.2f} times as many per CPU second", flush=True)  # fmt: skip
    return failed


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
    parser.add_argument("--workload", choices=tuple(OTHERS), action="append", help="one of them (default: all)")
    parser.add_argument("--system", action="append", help="one of them, which must have the workload (default: all)")
    given = parser.parse_args()
    failed = []
    for workload in given.workload or OTHERS:
        made, systems = datasets.make(workload, given.data), given.system or [*OURS, *OTHERS[workload]]
        failed += compare(workload, systems, made, meter.kind(), given.passes)
    if failed:
        raise SystemExit(f"these failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
