"""What to make of the files' columns, as bench/workload (recipe.go) says it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Recipe:
    """See bench/workload/recipe.go, whose fields these are."""

    row: str
    label: str
    dense: Sequence[str]
    fill: bool
    generated: Sequence[tuple[str, int]]  # the name, and the index of the dense column that it is made of
    borders: np.ndarray[Any, np.dtype[np.float32]]
    log: bool
    sparse: Sequence[str]
    salt: int
    buckets: int
    photo: str
    crop: int
    random: bool
    batch_size: int

    @classmethod
    def parse(cls, made: Mapping[str, Any]) -> Recipe:
        """Reads what `peers make` printed."""
        place = {name: i for i, name in enumerate(made["dense"])}
        return cls(
            made["row"], made["label"], made["dense"], made["fill"],
            [(g["name"], place[g["in"]]) for g in made["generated"]],
            np.array(made["borders"] or [], np.float32), made["log"], made["sparse"], made["salt"], made["buckets"],
            made["photo"], made["crop"], made["random"], made["batch_size"],
        )  # fmt: skip

    @property
    def columns(self) -> list[str]:
        """All columns that are read."""
        return [self.row, self.label, *self.dense, *self.sparse, *([self.photo] if self.photo else [])]

    @property
    def ragged(self) -> list[str]:
        """All ragged tensors."""
        return [*self.sparse, *(name for name, _ in self.generated)]
