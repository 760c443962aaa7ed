"""Runs a system in a process of its own, metered, on the CPUs that all have."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from peers import meter
from peers.plan import REPOSITORY, SUBJECTS, Plan, named
from peers.subject import Pass, Run


@dataclass(frozen=True)
class Found:
    """What one run found: the passes that count, and what is of the whole run."""

    system: str
    settings: Mapping[str, Any]
    first_seconds: float  # to the first batch of the first pass
    start_seconds: float  # until imports were done and what serves was up
    passes: list[Pass]
    peak_memory: int
    versions: Mapping[str, str]

    @property
    def rows_per_second(self) -> float:
        return sum(p.rows for p in self.passes) / sum(p.seconds for p in self.passes)

    @property
    def cpu_per_million(self) -> float:
        return 1e6 * sum(p.cpu_seconds for p in self.passes) / sum(p.rows for p in self.passes)

    @property
    def stall(self) -> float:
        """The share of its time that the trainer waited."""
        return sum(p.first_seconds + p.waiting_seconds for p in self.passes) / sum(p.seconds for p in self.passes)


class Runner:
    """Runs systems on one workload's dataset. Whatever is the matter with a system is a RuntimeError."""

    def __init__(self, plan: Plan, made: Mapping[str, Any]) -> None:
        self._plan, self._made, self._meter = plan, made, meter.kind()

    def warm_page_cache(self) -> None:
        """Reads all files once, so that no system is the one that does."""
        for file in self._made["files"]:
            with Path(file).open("rb") as f:
                while f.read(1 << 24):
                    pass

    def run(
        self, system: str, settings: Mapping[str, Any], step_seconds: float = 0.0, passes: int | None = None
    ) -> Found:
        """One run: a pass that warms up, and those that count, by default as many as are planned."""
        said, peak = self._run(system, settings, step_seconds, None, self._plan.passes if passes is None else passes)
        done = [Pass(**p) for p in said["passes"]]
        rows = self._made["workload"]["rows"]
        for p in done:
            if p.rows != rows or p.row_sum != rows * (rows - 1) // 2:
                raise RuntimeError(
                    f"{named(settings)}: it read {p.rows} rows, whose numbers' sum is {p.row_sum}; there are {rows} "
                    f"with {rows * (rows - 1) // 2}: rows are lost or come twice"
                )
        return Found(
            system, settings, done[0].first_seconds, said["start_seconds"], done[1:], peak, said["versions"]
        )  # fmt: skip

    def dump(self, system: str, settings: Mapping[str, Any], folder: Path) -> None:
        """Writes down what a system makes."""
        self._run(system, settings, 0.0, str(folder), 0)

    def profile(self, system: str, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Where the CPU time of a fleet with the Go client goes, as bench/peers/profile.go says it."""
        said, _ = self._run(system, settings, 0.0, None, 0, self._plan.profile)
        profile: dict[str, Any] = said["profile"]
        return profile

    def _run(
        self, system: str, settings: Mapping[str, Any], step_seconds: float, dump: str | None, passes: int,
        profile_seconds: int = 0,
    ) -> tuple[dict[str, Any], int]:  # fmt: skip
        plan, name = self._plan, f"penstock-peers-{uuid.uuid4().hex}"
        account = meter.KINDS[self._meter](name)
        with tempfile.TemporaryDirectory(prefix="peers-", ignore_cleanup_errors=True) as scratch:
            run = Run(
                SUBJECTS[system].module, settings, self._meter, name, len(plan.cpus), self._made["files"],
                self._made["spec"], self._made["recipe"], passes, step_seconds, dump, profile_seconds,
                str(plan.penstock), str(plan.peers), scratch,
            )  # fmt: skip
            try:
                with meter.peak_memory(account) as peak:
                    said = self._process(run)
            finally:
                meter.close(account)
        return said, peak[0]

    def _process(self, run: Run) -> dict[str, Any]:
        config, log = Path(run.scratch) / "run.json", Path(run.scratch) / "log"
        config.write_text(json.dumps(asdict(run)))
        cpus = ",".join(map(str, self._plan.cpus))
        paths = [str(REPOSITORY / "bench/peers"), str(REPOSITORY / "client/python/src")]
        with log.open("wb") as errors:
            process = subprocess.Popen(
                ["taskset", "-c", cpus, sys.executable, "-m", "peers.subject", str(config)],
                stdout=subprocess.PIPE, stderr=errors, start_new_session=True,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
            )  # fmt: skip
        seconds = self._plan.timeout * (1 + run.passes)
        try:
            out, _ = process.communicate(timeout=seconds)
        except BaseException as err:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if isinstance(err, subprocess.TimeoutExpired):
                raise _failure(run, f"not done in {seconds:g} seconds (--timeout)", log) from err
            raise
        if process.returncode != 0 or not out:
            raise _failure(run, f"ended with {process.returncode}", log)
        said: dict[str, Any] = json.loads(out.splitlines()[-1])
        return said


def _failure(run: Run, how: str, log: Path) -> RuntimeError:
    """Says in the first line what a report has room for."""
    tail = log.read_text(errors="replace")[-4000:].strip()
    last = f"; the last it said: {tail.splitlines()[-1]}" if tail else ""
    return RuntimeError(f"{named(run.options)}: {how}{last}\n{tail}")
