"""What is run: systems, their settings, and the command's arguments."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[3]


Settings = dict[str, Any]


def named(settings: Mapping[str, Any]) -> str:
    """What settings are, in words."""
    return ", ".join(f"{k} {v}" for k, v in settings.items()) or "no settings"


def one(**settings: Any) -> Callable[[int], list[Settings]]:
    """Settings that need no choice: Penstock's are the defaults."""
    return lambda _: [settings]


def of_dataloader(cpus: int) -> list[Settings]:
    """The settings of a DataLoader with workers."""
    return [
        {"num_workers": workers, "prefetch_factor": prefetch}
        for workers, prefetch in ((cpus, 2), (max(1, cpus // 2), 2), (cpus, 4), (2 * cpus, 2))
    ]


def of_ray(_: int) -> list[Settings]:
    """Those of Ray Data, which uses all CPUs."""
    return [{"blocks": 0, "prefetch": 1}, {"blocks": 0, "prefetch": 4}, {"blocks": 16, "prefetch": 2}]


def of_tfdata(_: int) -> list[Settings]:
    """Those of tf.data service, each of whose workers uses all CPUs."""
    return [{"workers": workers} | how for how in ({}, {"transforms": "numpy"}) for workers in (1, 2)]


def of_local(_: int) -> list[Settings]:
    """Those of its worker in the trainer."""
    return [{"workers": 1, "local": True}, {"workers": 1, "local": True, "transforms": "numpy"}]


@dataclass(frozen=True)
class Subject:
    """A system, and the settings among which the fastest is chosen for so many CPUs."""

    title: str
    module: str  # of systems/
    needs: tuple[str, ...]  # modules of Python
    settings: Callable[[int], list[Settings]]
    penstock: bool = False
    target: float = 0.0  # how many times Penstock's rows per CPU second are to be this system's


SUBJECTS = {
    "onbox": Subject("Penstock, Python, on-box", "onbox", ("torch", "penstock"), one(workers=0), penstock=True),
    "fleet": Subject("Penstock, Python, fleet", "fleet", ("torch", "penstock"), one(workers=1), penstock=True),
    "go": Subject("Penstock, Go, fleet", "go", (), one(workers=1), penstock=True),
    "network": Subject("Penstock, Go, by network", "go", (), one(workers=1, network=True), penstock=True),
    "fleet-network": Subject(
        "Penstock, Python, by network", "fleet", ("torch", "penstock"), one(workers=1, network=True), penstock=True
    ),
    "dataloader": Subject("PyTorch DataLoader", "dataloader", ("torch",), of_dataloader, target=3),
    "inline": Subject("DataLoader without workers", "dataloader", ("torch",), one(num_workers=0)),
    "ray": Subject("Ray Data", "ray", ("ray",), of_ray, target=5),
    "tfdata": Subject("tf.data service", "tfdata", ("tensorflow",), of_tfdata, target=10),
    "tfdata-local": Subject("tf.data service in the trainer", "tfdata", ("tensorflow",), of_local, target=10),
    "twin": Subject("pyarrow and numpy alone", "twin", (), one()),
    "floor": Subject("reading and writing the bytes alone", "floor", (), one()),
    "onbox-numpy": Subject("Penstock, on-box, numpy", "onbox", ("penstock",), one(format="numpy"), penstock=True),
}
BY_DEFAULT = [name for name in SUBJECTS if name not in ("twin", "floor", "onbox-numpy")]
WORKLOADS = ["rm1", "rm2", "rm5", "scan", "jpeg"]


def at_least(least: int) -> Callable[[str], int]:
    """Reads a number of the command line that may not be less."""

    def number(text: str) -> int:
        if int(text) < least:
            raise argparse.ArgumentTypeError(f"{text} is less than {least}")
        return int(text)

    return number


def numbers(text: str) -> list[int]:
    """Reads numbers of the command line."""
    try:
        return [int(n) for n in text.split(",")]
    except ValueError as err:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of numbers, such as 0,1") from err


@dataclass(frozen=True)
class Plan:
    """The command's arguments."""

    workloads: list[str]
    systems: list[str]
    change: dict[str, Any]
    add: bool
    check_rows: int
    repeats: int
    passes: int
    tune: bool
    cpus: list[int]
    trainer_rows: int
    timeout: float
    profile: int
    data: Path
    results: Path
    penstock: Path
    peers: Path
    arguments: str  # as they were given

    @classmethod
    def parse(cls, arguments: list[str]) -> Plan:
        """Reads the command line."""
        p = argparse.ArgumentParser(
            "peers", description="Penstock beside other systems: rows per second and per CPU second, memory, stall.",
            epilog="Another shape: --workloads rm2 --change '{\"dense\": 100, \"length\": 5, \"generated\": 10}'; the "
            "fields are those of bench/workload.Workload.",
        )  # fmt: skip
        p.add_argument("--workloads", default=",".join(WORKLOADS), help="of bench/workload (default: %(default)s)")
        p.add_argument(
            "--systems", default=",".join(BY_DEFAULT), help=f"of {', '.join(SUBJECTS)} (default: %(default)s)"
        )
        p.add_argument("--rows", type=at_least(1), help="rows of each workload (default: its own)")
        p.add_argument("--change", type=json.loads, default={}, help="fields of all workloads to change, as JSON")
        p.add_argument(
            "--check-rows", type=at_least(0), default=24_000, help="rows of the comparison of outputs; 0 leaves it out"
        )
        p.add_argument(
            "--repeats", type=at_least(1), default=3, help="runs of each system, in turns (default: %(default)s)"
        )
        p.add_argument(
            "--passes", type=at_least(1), default=1, help="of each run, behind one that warms up (default: %(default)s)"
        )
        p.add_argument("--add", action="store_true", help="keep the other workloads of the report that is there")
        p.add_argument("--no-tune", action="store_true", help="take each system's first settings, and try no others")
        p.add_argument(
            "--cpus", type=numbers, default=[], help="numbers of the CPUs that each system may use (default: all)"
        )
        p.add_argument("--trainer-rows", type=at_least(0), default=0, help="rows a second of the trainer whose stall "
                       "is measured (default: half of what the median system reaches)")  # fmt: skip
        p.add_argument("--timeout", type=float, default=3600.0, help="seconds that a pass may take, and a run so many "
                       "for each of its passes (default: %(default)g)")  # fmt: skip
        p.add_argument("--profile", type=at_least(1), default=0, metavar="SECONDS", help="profile fleets with the Go "
                       "client for so long each, and say where their CPU time goes")  # fmt: skip
        p.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "penstock-bench", help="for datasets")
        p.add_argument("--results", type=Path, help="for the report and the plots (default: bench/results; for a "
                       "run of less, or of anything else, than by default the folder results of --data)")  # fmt: skip
        p.add_argument("--penstock", type=Path, default=REPOSITORY / "penstock", help="the binary")
        p.add_argument("--peers", type=Path, default=REPOSITORY / ".cache/peers", help="the Go program of bench/peers")
        a = p.parse_args(arguments)
        systems, workloads = a.systems.split(","), a.workloads.split(",")
        for flag, given, known in (("systems", systems, list(SUBJECTS)), ("workloads", workloads, WORKLOADS)):
            if unknown := [name for name in given if name not in known]:
                p.error(f"--{flag}: there is no {', '.join(unknown)}; there are {', '.join(known)}")
            if len(set(given)) < len(given):
                p.error(f"--{flag}: {', '.join(given)}: name each once")
        if "floor" in systems and a.check_rows:
            p.error("floor makes nothing that can be compared: give --check-rows 0, too")
        if not isinstance(a.change, dict):
            p.error(f'--change: {a.change!r} is no JSON object, such as {{"dense": 100}}')
        cpus = a.cpus or sorted(os.sched_getaffinity(0))
        change = a.change | ({"rows": a.rows} if a.rows else {})
        whole = (
            [a.workloads, a.systems] == [",".join(WORKLOADS), ",".join(BY_DEFAULT)]
            and not (change or a.no_tune or a.cpus or a.trainer_rows)
            and a.repeats >= p.get_default("repeats") and a.check_rows >= p.get_default("check_rows")
        )  # fmt: skip
        results = a.results or (REPOSITORY / "bench/results" if whole else a.data / "results")
        return cls(
            workloads, systems, change, a.add, a.check_rows, a.repeats, a.passes, not a.no_tune, cpus,
            a.trainer_rows, a.timeout, a.profile, a.data.resolve(), results.resolve(), a.penstock.resolve(),
            a.peers.resolve(), shlex.join(arguments),
        )  # fmt: skip

    def settings(self, system: str) -> list[Settings]:
        """Those of a system that are tried, or the first."""
        all_of_them = SUBJECTS[system].settings(len(self.cpus))
        return all_of_them if self.tune else all_of_them[:1]

    def check(self) -> None:
        """Ends the program if something that the plan needs is missing."""
        import importlib.util

        sys.path.insert(0, str(REPOSITORY / "client/python/src"))
        problems = [
            f"{path} is missing: run `make bench-peers`" for path in (self.penstock, self.peers) if not path.exists()
        ]
        if absent := set(self.cpus) - os.sched_getaffinity(0):
            problems.append(f"--cpus: there is no CPU {min(absent)} that may be used here")
        for name in self.systems:
            for module in SUBJECTS[name].needs:
                if importlib.util.find_spec(module) is None:
                    problems.append(
                        f"{SUBJECTS[name].title} needs the module {module}, which {sys.executable} lacks: make "
                        f".venv-peers/ready installs all; or leave {name} out, by --systems"
                    )
        if problems:
            sys.exit("peers: " + "\npeers: ".join(problems))
