"""A file, its twin, and what they share: values that look like a training set's, the same in each run."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

HERE = Path(__file__).parents[1]
WORDS = ("penstock", "water", "a turbine", "straße", "水力", "naïve", "🐟 ladder", "dam", "weir")


@dataclass(frozen=True)
class Case:
    """One file (or folder) in others/, and what its twin is."""

    file: str
    twin: str
    writer: str
    options: dict[str, Any] = field(default_factory=dict)  # what a reader must be told
    about: str = ""


class Cases:
    """Where one format's files go; it writes the twins and keeps the list."""

    def __init__(self, name: str) -> None:
        self.name, self.folder = name, HERE / name
        self.folder.mkdir(exist_ok=True)
        self.found: list[Case] = []

    def path(self, name: str) -> Path:
        """Where a file goes."""
        return self.folder / name

    def add(self, name: str, twin: pa.Table, writer: str, about: str = "", **options: Any) -> None:
        """Lists a file that was written, and writes the twin beside it."""
        beside = f"{name.rstrip('/')}.parquet"
        pq.write_table(twin, self.folder / beside, compression="zstd")
        self.found.append(Case(f"{self.name}/{name}", f"{self.name}/{beside}", writer, options, about))


def by(*packages: str) -> str:
    """Packages with their versions."""
    return " and ".join(f"{name} {version(name)}" for name in packages)


def python(module: str) -> str:
    """A module of Python's own."""
    return f"Python {sys.version_info.major}.{sys.version_info.minor}'s {module}"


def tool(*command: str | Path) -> str:
    """Runs a command, and returns its name and version."""
    subprocess.run(command, check=True, capture_output=True)
    return version_of(str(command[0]))


def version_of(command: str) -> str:
    """The first line that a command says of its version."""
    said = subprocess.run([command, "--version"], check=True, capture_output=True, text=True)
    return (said.stdout + said.stderr).strip().splitlines()[0].strip("* .")


def without_time(path: Path) -> None:
    """Clears the time in a gzip header, which the writer took from the clock."""
    data = bytearray(path.read_bytes())
    if data[:2] != b"\x1f\x8b":
        raise SystemExit(f"{path} is no gzip")
    data[4:8] = bytes(4)
    path.write_bytes(data)


def text(i: int) -> str:
    """A few words, more than ASCII."""
    return " ".join(WORDS[(i * k) % len(WORDS)] for k in range(1, 2 + i % 5))


def picture(i: int, kind: str = "JPEG") -> bytes:
    """A small gradient."""
    height, width = 12 + i % 5, 16 + i % 7
    y, x = np.mgrid[0:height, 0:width]
    pixels = np.stack([x * 9 + i, y * 11, (x + y) * 5 + 3 * i], axis=-1).astype(np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels if kind == "JPEG" else pixels[..., 0]).save(out, kind, quality=70)
    return out.getvalue()


def columns(rows: Sequence[dict[str, Any]], types: dict[str, pa.DataType] | None = None) -> pa.Table:
    """A table of rows; one that lacks a name has null there."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    types = types or {}
    return pa.table({n: pa.array([row.get(n) for row in rows], types.get(n)) for n in names})


def listed(cases: Sequence[Case]) -> str:
    """The list as JSON, a case a line."""
    lines = [json.dumps({k: v for k, v in case.__dict__.items() if v}, ensure_ascii=False) for case in cases]
    return "[\n" + ",\n".join(lines) + "\n]\n"
