"""Tars of JPEGs and captions: each picture decoded, and a random part of it resized to a square; batches of uint8."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from peers import photographs
from peers.formats.reading import BATCH, CROP, Found, one_thread, workers
from peers.recipe import Recipe

Samples = Sequence[tuple[bytes, bytes]]  # JPEGs and captions

RECIPE = Recipe("", "", [], False, [], np.empty(0, np.float32), False, [], 0, 0, "jpg", CROP, True, BATCH["tar"])


def tars(data: Path) -> list[str]:
    """The files."""
    return [str(path) for path in sorted(data.glob("*.tar"))]


def read_by(batches: Callable[[], Any]) -> Callable[[], Found]:
    """A pass over batches of pictures and captions."""

    def read() -> Found:
        rows, total = 0, 0.0
        for pictures, captions in batches():
            if tuple(pictures.shape) != (len(captions), CROP, CROP, 3):
                raise SystemExit(f"{len(captions)} pictures of {tuple(pictures.shape)}")
            rows += len(captions)
            total += sum(map(len, captions))
        return rows, total

    return read


def webdataset(data: Path) -> Callable[[], Found]:
    """Its WebDataset under DataLoader: whole batches by Pillow in the workers, handed over in shared memory."""
    import torch
    import webdataset
    from torch.utils.data import DataLoader

    def batch(samples: Samples) -> tuple[Any, list[bytes]]:
        encoded, captions = zip(*samples, strict=True)
        return torch.from_numpy(photographs.decoded(np.array(encoded, object), RECIPE, np.empty)), list(captions)

    one_thread(0)
    dataset = webdataset.WebDataset(tars(data), shardshuffle=False, empty_check=False)
    dataset = dataset.to_tuple("jpg", "txt").batched(BATCH["tar"], collation_fn=batch, partial=True)
    loader = DataLoader(
        dataset, batch_size=None, num_workers=workers(), persistent_workers=True, prefetch_factor=4,
        worker_init_fn=one_thread,
    )  # fmt: skip
    return read_by(lambda: loader)


def energon(data: Path) -> Callable[[], Found]:
    """Megatron-Energon's loader, with a task encoder that does what webdataset's workers do."""
    from peers.formats import energon as task

    return read_by(task.loader(data, RECIPE))


def spdl(data: Path) -> Callable[[], Found]:
    """SPDL with its own decoder: FFmpeg decodes, cuts and resizes."""
    import spdl.io

    def decode(samples: Samples) -> tuple[Any, list[bytes]]:
        frames = []
        for encoded, _ in samples:
            packets = spdl.io.demux_image(encoded)
            left, top, right, bottom = photographs.part(packets.width, packets.height)
            cut = f"crop={right - left}:{bottom - top}:{left}:{top},scale={CROP}:{CROP}:flags=bilinear,format=rgb24"
            frames.append(spdl.io.decode_packets(packets, filter_desc=cut))
        return spdl.io.to_numpy(spdl.io.convert_frames(frames)), [caption for _, caption in samples]

    return read_by(lambda: threads(data, decode))


def spdl_pillow(data: Path) -> Callable[[], Found]:
    """SPDL with Pillow."""

    def decode(samples: Samples) -> tuple[Any, list[bytes]]:
        encoded, captions = zip(*samples, strict=True)
        return photographs.decoded(np.array(encoded, object), RECIPE, np.empty), list(captions)

    return read_by(lambda: threads(data, decode))


def threads(data: Path, decode: Callable[[Samples], Any]) -> Iterator[Any]:
    """Batches by SPDL's pipeline: one thread reads tars, others decode, without the GIL."""
    import spdl.io
    import spdl.pipeline

    def members() -> Iterator[tuple[bytes, bytes]]:
        for path in tars(data):
            one: dict[str, bytes] = {}
            for name, value in spdl.io.iter_tarfile(Path(path).read_bytes()):
                one[name.rpartition(".")[2]] = bytes(value)
                if len(one) == 2:
                    yield one["jpg"], one["txt"]
                    one = {}

    pipeline = (
        spdl.pipeline.PipelineBuilder().add_source(members()).aggregate(BATCH["tar"])
        .pipe(decode, concurrency=workers()).add_sink(4).build(num_threads=workers())
    )  # fmt: skip
    with pipeline.auto_stop():
        yield from pipeline.get_iterator()
