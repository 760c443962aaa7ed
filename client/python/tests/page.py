"""The package's page as programs: its blocks of code, with the fleet and the data of a test in place of the user's.

Blocks see what the page says before them: `options`, the modules that they take for granted, and train().
"""

from __future__ import annotations

import collections
import contextlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import penstock

if TYPE_CHECKING:
    from tests.conftest import Dataset, Fleet

PAGE = Path(__file__).parents[1] / "README.md"
BATCH = 500


@dataclass(frozen=True)
class Block:
    """A block of code, under a heading; number counts from 1 below each."""

    heading: str
    number: int
    language: str
    code: str

    @property
    def name(self) -> str:
        return f"{self.heading}-{self.number}"

    @property
    def needs_torch(self) -> bool:
        return re.search(r"^(import|from) (torch|lightning|accelerate)", self.code, re.MULTILINE) is not None


def blocks() -> list[Block]:
    """All of the page, in its order."""
    found = []
    heading, counts = "Start", collections.Counter[str]()
    for part in re.finditer(r"^## ([^\n]+)$|^```(\w+)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        if part[1]:
            heading = part[1]
        else:
            counts[heading] += 1
            found.append(Block(heading, counts[heading], part[2], part[3]))
    return found


def block(name: str) -> Block:
    (found,) = (b for b in blocks() if b.name == name)
    return found


def on(code: str, uri: str, master: str) -> str:
    """A block's code with a test's data and fleet."""
    for ours, theirs in (("s3://bucket/criteo/", uri), ("penstock.default:7070", master), ("65536", str(BATCH))):
        code = code.replace(ours, theirs)
    return code


class Trained:
    """What a block's loop gave to train()."""

    def __init__(self) -> None:
        self.batches: list[penstock.Batch] = []

    def __call__(self, batch: penstock.Batch) -> float:
        self.batches.append(batch)
        return 0.5

    @property
    def rows(self) -> int:
        return sum(len(batch) for batch in self.batches)


def run(name: str, dataset: Dataset, fleet: Fleet, session: str = "run-7", **given: Any) -> dict[str, Any]:
    """Runs a block in this process and returns its names; loaders are closed. session is in place of the page's."""
    names: dict[str, Any] = {
        "penstock": penstock, "collections": collections, "json": json, "np": np, "pa": pa, "Path": Path,
        "train": Trained(), **given,
    }  # fmt: skip
    with contextlib.ExitStack() as stack:
        for part in (block("Start-2"), block(name)):
            code = on(part.code, dataset.uri, fleet.master).replace("run-7", session)
            exec(compile(code, part.name, "exec"), names)
            if isinstance(loader := names.get("loader"), penstock.DataLoader):
                stack.callback(loader.close)
    return names
