"""The plots: for each figure bars by workload and system."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from peers.plan import SUBJECTS
from peers.report import Result, median

FIGURES: dict[str, tuple[str, Callable[[Result, str], float]]] = {
    "cpu": ("CPU seconds per million rows (less is better)", lambda r, s: median(r, "full", s, "cpu_per_million")),
    "rate": ("million rows a second", lambda r, s: median(r, "full", s, "rows_per_second") / 1e6),
    "memory": ("peak memory, MiB", lambda r, s: median(r, "full", s, "peak_memory") / 2**20),
    "stall": (
        "share of time that a trainer of fixed speed waits, %",
        lambda r, s: 100 * median(r, "paced", s, "stall"),
    ),
    "first": ("seconds to the first batch", lambda r, s: median(r, "full", s, "first_seconds")),
}


def write(folder: Path, found: Sequence[Result]) -> list[Path]:
    """Draws all figures, of the workloads on which not all systems failed."""
    found = [result for result in found if result["full"]]
    written: list[Path] = []
    if not found:
        return written
    for name, (title, value) in FIGURES.items():
        figure, axes = plt.subplots(1, len(found), figsize=(3.4 * len(found) + 1.5, 3.6), squeeze=False)
        for axis, result in zip(axes[0], found, strict=True):
            systems = list(result["full"])
            colours = ["tab:blue" if SUBJECTS[s].penstock else "tab:gray" for s in systems]
            bars = axis.barh([SUBJECTS[s].title for s in systems], [value(result, s) for s in systems], color=colours)
            axis.bar_label(bars, fmt="%.3g", padding=2, fontsize=8)
            axis.invert_yaxis()
            axis.margins(x=0.18)
            axis.set_title(result["workload"]["name"])
            axis.tick_params(labelsize=8)
            if axis is not axes[0][0]:
                axis.set_yticklabels([])
        figure.suptitle(title)
        figure.tight_layout()
        path = folder / f"peers-{name}.png"
        figure.savefig(path, dpi=110)
        plt.close(figure)
        written.append(path)
    return written
