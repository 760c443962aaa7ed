"""The report: Markdown, plots, and the raw figures as JSON, in bench/results/."""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import statistics
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from peers import meter, outputs
from peers.plan import REPOSITORY, SUBJECTS, WORKLOADS, Plan, named

Result = Mapping[str, Any]
SHORT = 2  # seconds of a pass
PACKAGES = ("numpy", "pyarrow", "pillow", "torch", "ray", "tensorflow", "tensorflow-cpu")  # that make the batches


def machine(plan: Plan) -> dict[str, Any]:
    """Where it was measured."""
    model = [
        line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line
    ]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": model[0] if model else platform.processor(), "cpus": plan.cpus, "memory_gib": round(memory / 2**30),
        "kernel": platform.release(), "python": platform.python_version(), "meter": meter.KINDS[meter.kind()].name,
        "versions": _installed(),
        "go": _said("go", "env", "GOVERSION"), "repeats": plan.repeats, "passes": plan.passes,
        "tune": plan.tune,
    }  # fmt: skip


def run(plan: Plan) -> dict[str, Any]:
    """What tells a workload's run from others."""
    commit = _said("git", "-C", str(REPOSITORY), "describe", "--always", "--dirty")
    return {"arguments": plan.arguments, "load": os.getloadavg()[0], "penstock": commit}


def _said(*command: str) -> str:
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _installed() -> dict[str, str]:
    """The versions of all packages that make batches, which systems need not know of themselves."""
    versions = {}
    for package in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[package.removesuffix("-cpu")] = importlib.metadata.version(package)
    return versions


def write(plan: Plan, where: Mapping[str, Any], found: Sequence[Result]) -> list[Path]:
    """Writes all files, and returns them."""
    plan.results.mkdir(parents=True, exist_ok=True)
    raw, text = plan.results / "peers.json", plan.results / "peers.md"
    found = sorted(found, key=lambda result: WORKLOADS.index(result["workload"]["name"]))
    raw.write_text(json.dumps({"machine": where, "workloads": found}, indent=1) + "\n")
    images = []
    if importlib.util.find_spec("matplotlib"):  # a test's Python has none
        from peers import plots

        images = plots.write(plan.results, found)
    text.write_text(markdown(where, found, [image.name for image in images]))
    return [raw, text, *images]


def others(plan: Plan) -> list[Result]:
    """What the report that is there has of workloads that are not measured now."""
    raw = plan.results / "peers.json"
    found: list[Result] = json.loads(raw.read_text())["workloads"] if raw.exists() else []
    return [result for result in found if result["workload"]["name"] not in plan.workloads]


def median(result: Result, phase: str, system: str, field: str) -> float:
    """The median over a system's runs."""
    return float(statistics.median(run[field] for run in result[phase][system]))


def least_cpu(result: Result, system: str) -> float:
    """CPU seconds per million rows: of Penstock the median, of another the least of its settings, to its favour."""
    usual = median(result, "full", system, "cpu_per_million")
    if SUBJECTS[system].penstock:
        return usual
    return float(min([usual, *(run["cpu_per_million"] for run in result["tried"][system])]))


def ratios(result: Result) -> list[tuple[str, str, float, float]]:
    """Penstock's systems beside each other one: how many times its rows per CPU second, and the target."""
    mine = [s for s in result["full"] if SUBJECTS[s].penstock]
    others = [s for s in result["full"] if not SUBJECTS[s].penstock]
    return [
        (a, b, least_cpu(result, b) / least_cpu(result, a), SUBJECTS[b].target) for b in others for a in mine
    ]  # fmt: skip


def markdown(where: Mapping[str, Any], found: Sequence[Result], images: Sequence[str]) -> str:
    """The report."""
    cpus = ", ".join(map(str, where["cpus"]))
    text = f"""# Penstock beside other systems

Made by `make bench-peers`, with the arguments that stand above each table; docs/performance/method.md says how it is
measured.

- CPU: {where["cpu"]}, CPUs {cpus} for each system (`taskset`); {where["memory_gib"]} GiB; Linux {where["kernel"]}
- {where["go"]}; Python {where["python"]}; {_versions(where, found)}
- CPU time and memory: {where["meter"]}. {_runs(where["repeats"])}, in turns, each of {where["passes"]} pass(es) behind
  one that warms up{"" if where["tune"] else "; each with its first settings, others were not tried"}.
"""
    lines = [*text.splitlines(), ""]
    lines += [line for result in found for line in [*_workload(result), ""]]
    lines += [f"![{image}]({image})" for image in images]
    return "\n".join(lines).rstrip() + "\n"


def _runs(repeats: int) -> str:
    return "One run of each system" if repeats == 1 else f"Medians of {repeats} runs of each system"


def _versions(where: Mapping[str, Any], found: Sequence[Result]) -> str:
    """Those of packages, but as the modules say it themselves where they do: torch's says for which CUDA."""
    said = {k: v for r in found for runs in r["full"].values() for run in runs for k, v in run["versions"].items()}
    return ", ".join(f"{k} {v}" for k, v in sorted((where["versions"] | said).items()))


def _shape(result: Result) -> str:
    """What a workload's rows are, and how they lie in files."""
    w = result["workload"]
    what = "random parts" if w["random"] else "whole ones"
    steps = ", ".join([*["fill", "log"] * bool(w["dense"]), *["hash"] * bool(w["sparse"])])
    parts = {
        f"JPEG pictures of {w['width']} x {w['height']}, {what} resized to {w['crop']} x {w['crop']}": w["width"],
        f"{w['dense']} dense features, {w['null'] / 10.24:.3g}% of whose values are null": w["dense"],
        f"{w['sparse']} sparse features of {w['length']} ids on average": w["sparse"],
        f"{w['generated']} generated ones of {w['borders']:,} borders": w["generated"],
        steps if w["transform"] else "no transforms": w["dense"] or w["sparse"],
        f"files of {w['file_rows']:,} rows": w["file_rows"],
        f"row groups of {w['group_rows']:,}": w["group_rows"],
        f"batches of {w['batch_size']:,}": True,
    }
    size = f"{result['bytes'] / 2**20:,.0f} MiB of Parquet ({'pictures not compressed' if w['width'] else 'zstd'})"
    return f"{w['rows']:,} rows, {size}: {'; '.join(part for part, is_there in parts.items() if is_there)}."


def failures(result: Result) -> list[str]:
    """Which systems failed on a workload, and how."""
    return [f"{SUBJECTS[s].title} failed: {why.splitlines()[0]}" for s, why in result["failed"].items()]


def _workload(result: Result) -> list[str]:
    run = result["run"]
    how = f"Arguments: `{run['arguments']}`" if run["arguments"] else "No arguments"
    began = f"{how}; Penstock {run['penstock']}; load of the machine when it began: {run['load']:.1f}."
    lines = [f"## {result['workload']['name']}", "", _shape(result), _equal(result), began, *_short(result), ""]
    if result["full"]:
        lines += _measured(result)
    for system, profile in result.get("profiles", {}).items():
        lines += _profiled(SUBJECTS[system].title, profile)
    return lines + [line for failure in failures(result) for line in ("", failure)]


def _short(result: Result) -> list[str]:
    """Says so if passes are too short for what they cost to be that of their rows."""
    seconds = {
        s: statistics.median(p["seconds"] for run in runs for p in run["passes"]) for s, runs in result["full"].items()
    }
    short = [s for s, taken in seconds.items() if taken < SHORT]
    if not short:
        return []
    of = "all systems" if len(short) == len(seconds) else ", ".join(SUBJECTS[s].title for s in short)
    return [f"Passes of {of} take less than {SHORT} seconds: what a session costs at its beginning counts in them."]


def _measured(result: Result) -> list[str]:
    columns: list[tuple[str, Callable[[str], str]]] = [
        ("system", lambda s: SUBJECTS[s].title),
        ("settings", lambda s: named(result["full"][s][0]["settings"])),
        ("rows/s", lambda s: f"{median(result, 'full', s, 'rows_per_second'):,.0f}"),
        ("CPU s per million rows", lambda s: f"{median(result, 'full', s, 'cpu_per_million'):.2f}"),
        ("peak memory, MiB", lambda s: f"{median(result, 'full', s, 'peak_memory') / 2**20:,.0f}"),
        ("first batch, s", lambda s: f"{median(result, 'full', s, 'first_seconds'):.2f}"),
        (
            f"stall at {result['trainer_rows']:,.0f} rows/s",
            lambda s: f"{100 * median(result, 'paced', s, 'stall'):.0f}%",
        ),
        ("CPU s per million rows there", lambda s: f"{median(result, 'paced', s, 'cpu_per_million'):.2f}"),
    ]
    lines = _table([name for name, _ in columns], [[of(s) for _, of in columns] for s in result["full"]])
    lines += [
        "",
        "Rows per CPU second, as a multiple of the other system's"
        + (" (of whose settings the least CPU time counts):" if any(result["tried"].values()) else ":"),
        "",
    ]
    rows = [
        [SUBJECTS[a].title, SUBJECTS[b].title, f"{ratio:.2f}", f"{target:g}" if target else "",
         "" if not target else "yes" if ratio >= target else "**no**" if ratio >= 1 else "**no: slower**"]
        for a, b, ratio, target in ratios(result)
    ]  # fmt: skip
    lines += _table(["system", "beside", "times", "target", "met"], rows)
    tried = [
        [SUBJECTS[s].title, named(r["settings"]), f"{r['rows_per_second']:,.0f}", f"{r['cpu_per_million']:.2f}"]
        for s, runs in result["tried"].items()
        for r in runs
    ]
    if tried:
        lines += ["", "Settings tried, of which the one with the most rows a second was taken:", ""]
        lines += _table(["system", "settings", "rows/s", "CPU s per million rows"], tried)
    return lines


def _profiled(title: str, profile: Mapping[str, Any]) -> list[str]:
    """Where the CPU time of a fleet goes: stages, processes, and the functions that take most by themselves."""
    cpu = sum(profile["processes"].values())
    rows = [
        [name, f"{1e6 * seconds / profile['rows']:.2g}", f"{100 * seconds / cpu:.0f}%"]
        for part in ("stages", "processes")
        for name, seconds in sorted(profile[part].items(), key=lambda p: -float(p[1]))
    ]
    lines = ["", f"Where the CPU time of {title} goes, by {profile['samples']:,} samples of profiles:", ""]
    lines += _table(["stage, then process", "CPU s per million rows", "share"], rows)
    lines += ["", "Functions that take most by themselves:", ""]
    return lines + _table(
        ["function", "share"], [[f"`{h['function']}`", f"{h['share']:.1%}"] for h in profile["hottest"]]
    )


def _equal(result: Result) -> str:
    if len(result["off"]) < 2:
        return "Outputs were not compared."
    of_all = ", of all settings," if any(result["tried"].values()) else ""
    off = {SUBJECTS[s].title: outputs.Difference(*of) for s, of in result["off"].items()}
    pixels = f", each picture's pixels within {outputs.PIXELS:g} of 255" if any(d.pixels for d in off.values()) else ""
    return (
        f"Outputs of {result['compared_rows']:,} rows were compared first{of_all} and are equal: ids, lengths and "
        f"labels bit for bit, floats within {outputs.ULPS} ulp of the first system's{pixels} (at most: "
        + "; ".join(f"{title} {difference.words()}" for title, difference in off.items())
        + ")."
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *rows)]


def summary(found: Sequence[Result]) -> str:
    """The ratios, for the terminal."""
    return "\n".join(
        f"{r['workload']['name']}: {SUBJECTS[a].title} {ratio:.2f} times {SUBJECTS[b].title}'s rows per CPU second"
        + (f" (target {target:g}: {'met' if ratio >= target else 'NOT met'})" if target else "")
        for r in found for a, b, ratio, target in ratios(r)
    )  # fmt: skip
