"""Passes over a dataset by one system in a process of its own, and what they took: for modules that compare systems.

A module runs itself with --subject for each system; that process measures with record(), and the first one gets the
outcome from outcome_of().
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from typing import Any

from peers import meter

Outcome = dict[str, Any]


def record(account: meter.Meter, total: float, read: Callable[[], int], passes: int, **more: Any) -> None:
    """Prints the total of the pass before, and what each further one took. read makes one, and returns its rows.

    more is printed besides.
    """
    found = []
    for _ in range(passes):
        cpu, began = account.cpu_seconds(), time.perf_counter()
        rows = read()
        seconds = time.perf_counter() - began
        found.append({"rows": rows, "cpu": account.cpu_seconds() - cpu, "seconds": seconds})
    print(json.dumps({"total": total, "passes": found, **more}), flush=True)


def outcome_of(module: str, workload: str, system: str, data: str, kind: str, passes: int) -> Outcome:
    """What a module's subject printed, whose processes had an account of their own."""
    name = f"penstock-passes-{uuid.uuid4().hex[:8]}"
    account = meter.KINDS[kind](name)
    try:
        arguments = ["--subject", workload, system, data, kind, name, str(passes)]
        done = subprocess.run([sys.executable, "-m", module, *arguments],
                              check=True, stdout=subprocess.PIPE, text=True)  # fmt: skip
    finally:
        meter.close(account)
    outcome: Outcome = json.loads(done.stdout.splitlines()[-1])
    return outcome


def rates(outcome: Outcome) -> tuple[float, float]:
    """Rows per CPU second and per second, the medians of the passes."""
    found = outcome["passes"]
    return (
        statistics.median(one["rows"] / one["cpu"] for one in found),
        statistics.median(one["rows"] / one["seconds"] for one in found),
    )
