"""When rows arrive: the first batch of 1,000 tars that nobody has indexed, and the next one in a large tar's middle.

`python -m peers.formats.arrival` times Penstock, with a master and a worker that are up, beside webdataset under
DataLoader:

    first:  from iter() of a loader to its first batch, of 1,000 tars of 20 samples in an object store that answers 5 ms
            late; and once more, when what was found is known
    resume: from iter() of a loader to the first batch behind the middle of a tar of 1 GiB on this disk. Penstock
            restores a checkpoint on another fleet, and all rows must come once; webdataset reads and drops the first
            half
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from peers.formats.reading import workers
from peers.maps import fleet, read_bytes

LATENCY_MS = 5
BATCH = 64
TARS, SAMPLES, SIZE = 1_000, 20, 4 << 10  # of the many
LARGE, LARGE_SIZE = 15_600, 64 << 10  # samples of the large one, and their bytes


def make(folder: Path) -> tuple[Path, Path]:
    """Writes the folder of many tars and the large one, unless they are there."""
    import webdataset

    many, large = folder / "formats-many/tars", folder / "formats-large.tar"
    rng = np.random.default_rng(5)

    def write(path: Path, numbers: range, size: int) -> None:
        with webdataset.TarWriter(str(path), mtime=0) as out:
            for i in numbers:
                out.write({"__key__": f"{i:08}", "bin": rng.bytes(size), "cls": i})

    if not many.exists():
        aside = many.with_name("aside")
        aside.mkdir(parents=True, exist_ok=True)
        for part in range(TARS):
            write(aside / f"part-{part:04}.tar", range(part * SAMPLES, (part + 1) * SAMPLES), SIZE)
        aside.rename(many)
    if not large.exists():
        write(large.with_suffix(".part"), range(LARGE), LARGE_SIZE)
        large.with_suffix(".part").rename(large)
    return many, large


@contextmanager
def far(root: Path) -> Iterator[str]:
    """The object store's URL."""
    command = [sys.executable, "-m", "peers.formats.slow", str(root), str(LATENCY_MS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        process.stdin.close()


def penstock(uri: str | Path, master: str, name: str) -> Any:
    """A loader of one epoch."""
    import penstock

    features = penstock.bytes_("bin") + penstock.label("cls")
    return penstock.DataLoader(uri, features=features, batch_size=BATCH, format="numpy", epochs=1, master=master,
                               name=name)  # fmt: skip


def webdataset(urls: list[str], skip: int = 0) -> Any:
    """Batches under DataLoader, behind some samples if there is one file and so one process that reads."""
    import webdataset
    from torch.utils.data import DataLoader

    dataset = webdataset.WebDataset(urls, shardshuffle=False, empty_check=False).to_tuple("bin", "cls")
    if skip:
        dataset = dataset.compose(lambda samples: itertools.islice(samples, skip, None))
    processes = min(workers(), len(urls))
    return DataLoader(dataset.batched(BATCH, collation_fn=list), batch_size=None, num_workers=processes)


def timed(what: str, loader: Iterable[Any]) -> Iterator[Any]:
    """Prints how long the first batch took, and returns all of them."""
    began = time.perf_counter()
    iterator = iter(loader)
    first = next(iterator)
    print(f"{what:36} {time.perf_counter() - began:8.3f} seconds", flush=True)
    return itertools.chain([first], iterator)


def first(many: Path) -> None:
    """Times the first batch of many tars."""
    with far(many.parent) as url, tempfile.NamedTemporaryFile("w", suffix=".yaml") as profile:
        profile.write(f"profiles: {{default: {{endpoint: '{url}', path_style: true, credentials: anonymous}}}}")
        profile.flush()
        os.environ["PENSTOCK_STORAGE_CONFIG"] = profile.name
        with fleet() as (master, metrics):
            for name, what in (("unindexed", "without indexes"), ("indexed", "again")):
                with penstock("s3://tars/*.tar", master, name) as loader:
                    timed(f"first: Penstock, {what}", loader)
                print(f"    {read_bytes(metrics) / 1e6:,.1f} MB were read by the worker", flush=True)
        del os.environ["PENSTOCK_STORAGE_CONFIG"]
        urls = [f"pipe:curl -sf {url}/tars/{path.name}" for path in sorted(many.iterdir())]
        timed("first: webdataset", webdataset(urls))


def resume(large: Path) -> None:
    """Times the first batch in the middle of a large tar."""
    half, seen = LARGE // BATCH // 2, []
    with fleet() as (master, _), penstock(large, master, "half") as loader:
        for batch in itertools.islice(timed("resume: Penstock, from the front", loader), half):
            seen.extend(batch.labels["cls"].tolist())
        state = loader.state_dict(after=batch)
    with fleet() as (master, metrics), penstock(large, master, "half") as loader:
        loader.load_state_dict(state)
        rest = timed("resume: Penstock, on another fleet", loader)
        print(f"    {read_bytes(metrics) / 1e6:,.1f} MB were read by the worker", flush=True)
        for batch in rest:
            seen.extend(batch.labels["cls"].tolist())
    if sorted(seen) != list(range(LARGE)):
        raise SystemExit(f"of {LARGE} rows came {len(seen)}, {len(set(seen))} of them different")
    timed("resume: webdataset, dropping half", webdataset([str(large)], half * BATCH))


def main() -> None:
    """Makes the tars, and measures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("/tmp/penstock-bench"), help="where datasets lie")
    parser.add_argument("--only", choices=("first", "resume"), help="one of the two")
    given = parser.parse_args()
    many, large = make(given.data)
    if given.only != "resume":
        first(many)
    if given.only != "first":
        resume(large)


if __name__ == "__main__":
    main()
