"""Measures Penstock beside other systems: `make bench-peers`, or `python -m peers --help`."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
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
    made: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return made


def compare(plan: Plan, workload: str) -> dict[str, outputs.Difference]:
    """Has all systems, with all settings, read a small dataset, and compares what they made with what the first made.

    Returns the greatest difference of each system's floats and pictures. Any other ends the program.
    """
    share = 32 if make(plan, workload, plan.change)["recipe"]["photo"] else 1  # pictures are large and slow
    group = 4096 // share
    shape = {"group_rows": group, "batch_size": group // 2} | plan.change
    small = {"rows": max(1, plan.check_rows // share), "file_rows": 3 * shape["group_rows"]}
    # Which parts of pictures are cut out each system draws in its own way; so whole ones are compared.
    made = make(plan, workload, shape | small | {"random": False})
    runner, wanted = Runner(plan, made), None
    off: dict[str, outputs.Difference] = {}
    for system, settings in _tried(plan):
        title = f"{SUBJECTS[system].title} ({named(settings)})"
        with tempfile.TemporaryDirectory(prefix="peers-dump-") as folder:
            runner.dump(system, settings, Path(folder))
            found = outputs.load(Path(folder))
        if wanted is None:
            wanted = found
        problems = outputs.differences(wanted, found)
        if problems:
            sys.exit(
                f"peers: {workload}: {title} does not make what {SUBJECTS[plan.systems[0]].title} does:\n"
                + "\n".join(problems[:20])
            )
        far = outputs.farthest(wanted, found)
        before = off.get(system, far)
        off[system] = outputs.Difference(max(far.ulps, before.ulps), max(far.pixels, before.pixels))
        rows = made["workload"]["rows"]
        say(f"{workload}: {title}: same outputs in {rows} rows, within {far.words()}")
    return off


def _tried(plan: Plan) -> list[tuple[str, Settings]]:
    """The systems with each of their settings, or with the first."""
    return [(s, settings) for s in plan.systems for settings in plan.settings(s)]


def tune(plan: Plan, runner: Runner) -> dict[str, list[Found]]:
    """Runs each system with each of its settings; the one with the most rows a second comes first."""
    tried: dict[str, list[Found]] = {}
    for system in plan.systems:
        settings = plan.settings(system)
        if len(settings) == 1:
            tried[system] = []
            continue
        runs = [runner.run(system, s, passes=1) for s in settings]
        tried[system] = sorted(runs, key=lambda f: -f.rows_per_second)
        for f in tried[system]:
            rate = f"{f.rows_per_second:,.0f} rows/s, {f.cpu_per_million:.2f} CPU s/M"
            say(f"  {SUBJECTS[system].title} ({named(f.settings)}): {rate}")
    return tried


def measure(plan: Plan, workload: str, made: dict[str, Any]) -> dict[str, Any]:
    """All that is found about a workload, as JSON."""
    say(f"{workload}: {made['workload']['rows']:,} rows, {made['bytes'] >> 20} MiB of Parquet")
    off = compare(plan, workload) if plan.check_rows else {}
    runner = Runner(plan, made)
    runner.warm_page_cache()
    tried = tune(plan, runner)
    chosen = {s: tried[s][0].settings if tried[s] else plan.settings(s)[0] for s in plan.systems}
    full: dict[str, list[Found]] = {s: [] for s in plan.systems}
    paced: dict[str, list[Found]] = {}
    for i in range(plan.repeats):
        for s in _turn(plan.systems, i):
            full[s].append(f := runner.run(s, chosen[s]))
            say(f"  {i + 1}. {SUBJECTS[s].title}: {f.rows_per_second:,.0f} rows/s, {f.cpu_per_million:.2f} CPU s/M")
    speed = plan.trainer_rows or 0.5 * max(statistics.median(f.rows_per_second for f in r) for r in full.values())
    step = made["workload"]["batch_size"] / speed
    for s in plan.systems:
        paced[s] = [f := runner.run(s, chosen[s], step)]
        say(f"  {SUBJECTS[s].title}: a trainer of {speed:,.0f} rows/s waits {100 * f.stall:.0f}%")
    return {
        "workload": made["workload"], "bytes": made["bytes"], "off": off, "trainer_rows": speed,
        "tried": _json(tried), "full": _json(full), "paced": _json(paced),
    }  # fmt: skip


def _turn(systems: list[str], i: int) -> list[str]:
    """The systems, each time another one first."""
    i %= len(systems)
    return systems[i:] + systems[:i]


def _json(found: Mapping[str, list[Found]]) -> dict[str, Any]:
    return {
        system: [
            asdict(f) | {"rows_per_second": f.rows_per_second, "cpu_per_million": f.cpu_per_million, "stall": f.stall}
            for f in runs
        ]
        for system, runs in found.items()
    }


def main() -> None:
    """Measures, and writes after each workload."""
    plan = Plan.parse(sys.argv[1:])
    plan.check()
    machine = report.machine(plan)
    found = []
    made = {workload: make(plan, workload, plan.change) for workload in plan.workloads}  # before hours of measuring
    for workload in plan.workloads:
        found.append(measure(plan, workload, made[workload]))
        for path in report.write(plan, machine, found):
            say(f"wrote {path}")
    print(report.summary(found))


if __name__ == "__main__":
    main()
