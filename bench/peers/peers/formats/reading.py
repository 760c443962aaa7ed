"""What readers have in common: sizes of batches, and sums by which they are compared."""

from __future__ import annotations

import os

Found = tuple[int, float]  # rows of a pass, and a sum of what they have, which all systems must find

BATCH = {"tar": 64, "jsonl": 4096, "tfrecord": 4096, "mds": 1024, "csv": 4096, "tokens": 1024}
CROP = 224


def workers() -> int:
    """Processes of a loader: as many as there are CPUs."""
    return len(os.sched_getaffinity(0))


def one_thread(_worker: int) -> None:
    """Keeps torch in a worker from starting threads beside the others'."""
    import torch

    torch.set_num_threads(1)
