"""A process in which one system runs: `python -m peers.subject RUN.json` prints what it found as JSON.

It joins its meter before it imports anything of the system, and pins nothing itself: `taskset` started it.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from peers import meter, outputs
from peers.recipe import Recipe


@dataclass(frozen=True)
class Run:
    """What to run."""

    system: str
    options: Mapping[str, Any]
    meter: str
    meter_name: str
    cpus: int
    files: Sequence[str]
    spec: str
    recipe: Mapping[str, Any]
    passes: int  # that are measured, behind one that is not
    step_seconds: float  # that the trainer computes on a full batch
    dump: str | None  # a folder for all that the first pass made; nothing is measured then
    profile_seconds: int  # how long its processes are profiled behind the first pass; nothing is measured then, either
    penstock: str
    peers: str  # the Go program
    scratch: str


@dataclass
class Pass:
    """One reading of the dataset."""

    rows: int = 0
    row_sum: int = 0
    batches: int = 0
    first_seconds: float = 0.0
    seconds: float = 0.0
    waiting_seconds: float = 0.0  # but for the first batch, and for the end
    cpu_seconds: float = 0.0


@dataclass
class Batch:
    """What a trainer is handed. Ragged tensors are values and offsets; arrays are numpy's or the framework's own."""

    row: Any
    label: Any
    dense: Any
    ragged: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    photo: Any = None


class System(Protocol):
    """One of systems/: System(run, recipe) imports what it needs."""

    versions: dict[str, str]

    def start(self) -> None:
        """Runs what serves across passes: the fleet, the cluster, the dispatcher."""

    def read(self) -> Iterator[Batch]:
        """Reads the dataset once."""

    def close(self) -> None:
        """Ends everything."""


def one_pass(system: Any, recipe: Recipe, step_seconds: float, dump: str | None) -> Pass:
    """Reads the dataset once as a trainer would."""
    if hasattr(system, "one_pass"):  # its trainer is another program
        return Pass(**system.one_pass(step_seconds, dump))
    seen, sink = Pass(), outputs.Writer(dump) if dump else None
    began = waits = time.perf_counter()
    for batch in system.read():
        now = time.perf_counter()
        if seen.batches == 0:
            seen.first_seconds = now - began
        else:
            seen.waiting_seconds += now - waits
        rows = len(batch.row)
        seen.batches, seen.rows = seen.batches + 1, seen.rows + rows
        seen.row_sum += int(batch.row.sum())
        if sink is not None:
            sink.add(batch)
        if step_seconds:
            time.sleep(step_seconds * rows / recipe.batch_size)
        waits = time.perf_counter()
    seen.seconds = waits - began  # some say late that there are no more
    if sink is not None:
        sink.close()
    return seen


def main() -> None:
    """Runs the system that the file says."""
    run = Run(**json.loads(Path(sys.argv[1]).read_text()))
    account = meter.KINDS[run.meter](run.meter_name)
    account.join()
    began = time.perf_counter()
    recipe = Recipe.parse(run.recipe)
    system = importlib.import_module(f"peers.systems.{run.system}").System(run, recipe)
    system.start()
    started = time.perf_counter() - began
    passes = []
    try:
        for i in range(1 if run.dump or run.profile_seconds else 1 + run.passes):
            before = account.cpu_seconds()
            done = one_pass(system, recipe, run.step_seconds if i else 0.0, run.dump)
            done.cpu_seconds = account.cpu_seconds() - before
            passes.append(asdict(done))
        found: dict[str, Any] = {"start_seconds": started, "passes": passes, "versions": system.versions}
        if run.profile_seconds:
            found["profile"] = system.profile(run.profile_seconds)
    finally:
        system.close()
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
