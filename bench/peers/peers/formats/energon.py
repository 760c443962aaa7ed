"""Megatron-Energon: its own index, its loader, and a task encoder that makes whole batches by Pillow in the workers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import megatron.energon as energon
import numpy as np

from peers import photographs
from peers.formats.reading import BATCH, workers
from peers.recipe import Recipe


@energon.edataclass
class Encoded(energon.Sample):  # type: ignore[misc]
    """A sample as it stands in the tar."""

    jpg: bytes
    txt: bytes


@energon.stateless  # type: ignore[untyped-decorator]
def cook(sample: dict[str, Any]) -> Encoded:
    """Names the members of a sample."""
    return Encoded(**energon.basic_sample_keys(sample), jpg=sample["jpg"], txt=sample["txt"])


class Encoder(energon.DefaultTaskEncoder):  # type: ignore[misc]
    """Decodes the pictures of a batch."""

    decoder = None
    cookers = (energon.Cooker(cook),)
    recipe: Recipe

    @energon.stateless  # type: ignore[untyped-decorator]
    def batch(self, samples: Sequence[Encoded]) -> Any:
        """Pixels and captions."""
        import torch

        pixels = photographs.decoded(np.array([one.jpg for one in samples], object), self.recipe, np.empty)
        return {"pixels": torch.from_numpy(pixels), "captions": [one.txt for one in samples]}


def loader(data: Path, recipe: Recipe) -> Callable[[], Any]:
    """What gives a pass over all samples: that of its validation datasets, whose epochs end."""
    prepared = data / "energon"
    if not prepared.exists():
        prepare(data, prepared)
    encoder = Encoder()
    encoder.recipe = recipe
    settings = energon.WorkerConfig(rank=0, world_size=1, num_workers=workers())
    dataset = energon.get_val_dataset(
        str(prepared), worker_config=settings, batch_size=BATCH["tar"], task_encoder=encoder
    )
    opened = energon.get_loader(dataset, prefetch_factor=4)
    return lambda: ((batch["pixels"], batch["captions"]) for batch in opened)


def prepare(data: Path, prepared: Path) -> None:
    """Links the tars into a folder, which energon indexes."""
    aside = prepared.with_suffix(".part")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir()
    for path in data.glob("*.tar"):
        os.link(path, aside / path.name)
    command = Path(sys.executable).with_name("energon")
    subprocess.run(
        [command, "prepare", aside, "--non-interactive", "--no-progress", "--split-parts", "val:.*", "--sample-type",
         "CrudeWebdataset"], check=True, stdout=subprocess.DEVNULL, env=os.environ | {"PYTHONPATH": ""},
    )  # fmt: skip
    aside.rename(prepared)
