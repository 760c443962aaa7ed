"""Measures Penstock beside other systems: `make bench-peers`, or `python -m peers --help`."""

from __future__ import annotations

import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from peers import outputs, report
from peers.plan import SUBJECTS, Plan, Settings, named
from peers.runner import Found, Runner


def say(text: str) -> None:
    """Tells how far it is."""
    print(text, file=sys.stderr, flush=True)


def make(plan: Plan, workload: str, change: Mapping[str, Any]) -> dict[str, Any]:
    """Makes a dataset, and returns what `peers make` says of it."""
    command = [str(plan.peers), "make", workload, f"--dir={plan.data}", f"--change={json.dumps(change)}"]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE)
    if done.returncode:
        sys.exit(f"peers: {workload} cannot be made; the line above says why")
    made: dict[str, Any] = json.loads(done.stdout)
    return made


class Systems:
    """Those that are measured on a workload: all, until one fails. The others go on."""

    def __init__(self, plan: Plan, workload: str) -> None:
        self._workload = workload
        self.left = list(plan.systems)
        self.failed: dict[str, str] = {}

    @contextlib.contextmanager
    def attempt(self, system: str) -> Iterator[None]:
        """Has a system left out from here on, if it fails."""
        try:
            yield
        except RuntimeError as err:
            self.left.remove(system)
            self.failed[system] = str(err)
            say(f"{self._workload}: {SUBJECTS[system].title} failed and is left out: {err}")

    def turn(self, i: int = 0) -> list[str]:
        """Those that have not failed, each time another one first."""
        i %= max(1, len(self.left))
        return self.left[i:] + self.left[:i]


def compare(plan: Plan, workload: str, systems: Systems) -> tuple[dict[str, outputs.Difference], int]:
    """Has all systems, with all settings, read a small dataset, and compares what they made with what the first made.

    Returns the greatest difference of each system's floats and pictures, and how many rows there were. Any other
    difference ends the program.
    """
    share = 32 if make(plan, workload, plan.change)["recipe"]["photo"] else 1  # pictures are large and slow
    group = 4096 // share
    shape = {"group_rows": group, "batch_size": group // 2} | plan.change
    small = {"rows": max(1, plan.check_rows // share), "file_rows": 3 * shape["group_rows"]}
    # Which parts of pictures are cut out each system draws in its own way; so whole ones are compared.
    made = make(plan, workload, shape | small | {"random": False})
    runner, rows = Runner(plan, made), made["workload"]["rows"]
    wanted: dict[str, outputs.Array] = {}
    first = ""
    off: dict[str, outputs.Difference] = {}
    for system in systems.turn():
        with systems.attempt(system):
            for settings in plan.settings(system):
                title = f"{SUBJECTS[system].title} ({named(settings)})"
                found = _dumped(runner, system, settings)
                wanted, first = wanted or found, first or title
                if problems := outputs.differences(wanted, found):
                    sys.exit(
                        f"peers: {workload}: {title} does not make what {first} does:\n" + "\n".join(problems[:20])
                    )
                far = outputs.farthest(wanted, found)
                before = off.get(system, far)
                off[system] = outputs.Difference(max(far.ulps, before.ulps), max(far.pixels, before.pixels))
                say(f"{workload}: {title}: same outputs in {rows} rows, within {far.words()}")
    return off, rows


def _dumped(runner: Runner, system: str, settings: Settings) -> dict[str, outputs.Array]:
    with tempfile.TemporaryDirectory(prefix="peers-dump-") as folder:
        runner.dump(system, settings, Path(folder))
        return outputs.load(Path(folder))


def tune(plan: Plan, runner: Runner, systems: Systems) -> dict[str, list[Found]]:
    """Runs each system with each of its settings; the one with the most rows a second comes first."""
    tried: dict[str, list[Found]] = {}
    for system in systems.turn():
        settings = plan.settings(system)
        tried[system] = []
        if len(settings) == 1:
            continue
        with systems.attempt(system):
            runs = [runner.run(system, s, passes=1) for s in settings]
            tried[system] = sorted(runs, key=lambda f: -f.rows_per_second)
        for f in tried[system]:
            rate = f"{f.rows_per_second:,.0f} rows/s, {f.cpu_per_million:.2f} CPU s/M"
            say(f"  {SUBJECTS[system].title} ({named(f.settings)}): {rate}")
    return tried


def measure(plan: Plan, workload: str, made: dict[str, Any]) -> dict[str, Any]:
    """All that is found about a workload, as JSON."""
    say(f"{workload}: {made['workload']['rows']:,} rows, {made['bytes'] >> 20} MiB of Parquet")
    systems, run = Systems(plan, workload), report.run(plan)
    off, compared = compare(plan, workload, systems) if plan.check_rows else ({}, 0)
    runner = Runner(plan, made)
    runner.warm_page_cache()
    tried = tune(plan, runner, systems)
    chosen = {s: tried[s][0].settings if tried[s] else plan.settings(s)[0] for s in systems.left}
    full: dict[str, list[Found]] = {s: [] for s in systems.left}
    paced: dict[str, list[Found]] = {}
    for i in range(plan.repeats):
        for s in systems.turn(i):
            with systems.attempt(s):
                full[s].append(f := runner.run(s, chosen[s]))
                say(f"  {i + 1}. {SUBJECTS[s].title}: {f.rows_per_second:,.0f} rows/s, {f.cpu_per_million:.2f} CPU s/M")
    speed = plan.trainer_rows or 0.5 * median_rate([full[s] for s in systems.left])
    for s in systems.turn():
        with systems.attempt(s):
            paced[s] = [f := runner.run(s, chosen[s], made["workload"]["batch_size"] / speed)]
            say(f"  {SUBJECTS[s].title}: a trainer of {speed:,.0f} rows/s waits {100 * f.stall:.0f}%")
    profiles: dict[str, Any] = {}
    for s in [s for s in systems.turn() if plan.profile and SUBJECTS[s].module == "go"]:
        with systems.attempt(s):
            profiles[s] = runner.profile(s, chosen[s])
            say(f"  {SUBJECTS[s].title}: profiled, {profiles[s]['samples']} samples")
    left = systems.left
    return {
        "workload": made["workload"], "bytes": made["bytes"], "run": run,
        "off": {s: off[s] for s in left if s in off}, "compared_rows": compared,
        "trainer_rows": speed, "tried": _json(tried, left), "full": _json(full, left), "paced": _json(paced, left),
        "failed": systems.failed, "profiles": profiles,
    }  # fmt: skip


def median_rate(runs: list[list[Found]]) -> float:
    """The rows a second of the median system: of an even number of them the slower of the two."""
    return statistics.median_low(statistics.median(f.rows_per_second for f in r) for r in runs) if runs else 0.0


def _json(found: Mapping[str, list[Found]], systems: list[str]) -> dict[str, Any]:
    return {
        s: [
            asdict(f) | {"rows_per_second": f.rows_per_second, "cpu_per_million": f.cpu_per_million, "stall": f.stall}
            for f in found[s]
        ]
        for s in systems
    }


def main() -> None:
    """Measures, and writes after each workload."""
    plan = Plan.parse(sys.argv[1:])
    plan.check()
    machine = report.machine(plan)
    found = report.others(plan) if plan.add else []
    made = {workload: make(plan, workload, plan.change) for workload in plan.workloads}  # before hours of measuring
    for workload in plan.workloads:
        found.append(measure(plan, workload, made[workload]))
        for path in report.write(plan, machine, found):
            say(f"wrote {path}")
    print(report.summary(found))
    if failures := [f"{result['workload']['name']}: {line}" for result in found for line in report.failures(result)]:
        sys.exit("peers: " + "\npeers: ".join(failures))


if __name__ == "__main__":
    main()
