"""What to say to arguments and attributes that penstock.DataLoader does not have. People try those of torch's first."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

INSTEAD = {
    "dataset": "the first argument is the dataset's URI",
    "num_workers": (
        "leave it out: workers of the fleet make the batches, in processes of their own. Where no master= is named, "
        "workers=N runs so many on this machine; another fleet has as many as its trainers need"
    ),
    "sampler": "shuffle=True with seed= orders the rows, and filter= and the op sample choose among them",
    "batch_sampler": "batch_size= or global_batch_size= cuts batches, shuffle=True with seed= orders the rows",
    "collate_fn": "map=f changes each batch in the training loop's process, and transforms= on the workers",
    "drop_last": 'drop_last=True is last_batch="drop"',
    "worker_init_fn": "the fleet's workers run no code of the training loop; its ops are transforms=",
    "multiprocessing_context": "no process is forked from this one: leave it out",
    "generator": "seed= decides the order of rows",
    "prefetch_factor": "batches come ahead of the loop by themselves, up to budget= bytes",
    "persistent_workers": "the fleet's workers stay: leave it out",
    "pin_memory_device": "device= names the device",
    "in_order": 'order="deterministic" repeats the order of batches',
}

ATTRIBUTES = INSTEAD | {
    "dataset": (
        "len(loader) is the number of batches where it is known, loader.schema and loader.peek() show what is in them, "
        "and `penstock show URI` tells the number of rows"
    ),
}


def unexpected(given: Iterable[str], known: Iterable[str]) -> str:
    """The words of a TypeError about arguments that are not known."""
    lines = []
    for name in given:
        near = difflib.get_close_matches(name, list(known), 1)
        advice = INSTEAD.get(name) or (f"did you mean {near[0]}=?" if near else "see help(penstock.DataLoader)")
        lines.append(f"DataLoader() has no argument {name!r}: {advice}")
    return "\n".join(lines)
