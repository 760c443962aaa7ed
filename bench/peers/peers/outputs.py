"""What systems made, written down and compared row by row.

Batches may come in any order: rows are put in the order of their numbers. Ids, lengths and labels must be the same;
floats may differ by ULPS units in the last place, since logarithms are not exact everywhere. NaN equals NaN.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ULPS = 4
PIXELS = 1.0  # of 255, by which the pixels of a picture may differ on average
Array = np.ndarray[Any, Any]


class Writer:
    """Writes a dump in the format of bench/peers/dump.go: a file for each array."""

    def __init__(self, folder: str) -> None:
        self._folder, self._files, self._sizes = Path(folder), {}, []  # type: ignore[var-annotated]
        self._folder.mkdir(parents=True, exist_ok=True)

    def add(self, batch: Any) -> None:
        """Writes one batch."""
        self._sizes.append(len(batch.row))
        self._write("row.values", batch.row)
        self._write("label.values", batch.label)
        if batch.dense is not None:
            self._write("dense.values", batch.dense)
        if batch.photo is not None:
            self._write("photo.values", batch.photo)
        for name, (values, offsets) in batch.ragged.items():
            self._write(f"{name}.values", values)
            self._write(f"{name}.lengths", np.diff(_numpy(offsets)).astype(np.int32))

    def _write(self, name: str, array: Any) -> None:
        array = np.ascontiguousarray(_numpy(array))
        name = f"{name}.{array.dtype}"
        if name not in self._files:
            self._files[name] = (self._folder / name).open("wb")
        self._files[name].write(array.tobytes())

    def close(self) -> None:
        """Completes the dump."""
        for file in self._files.values():
            file.close()
        (self._folder / "sizes.json").write_text(json.dumps(self._sizes))


def _numpy(array: Any) -> Array:
    return array.numpy() if hasattr(array, "numpy") else np.asarray(array)


def load(folder: Path) -> dict[str, Array]:
    """A dump's arrays by tensor and part, in the order of the rows' numbers."""
    sizes = json.loads((folder / "sizes.json").read_text())
    rows = sum(sizes)
    arrays = {
        path.name.rsplit(".", 1)[0]: np.fromfile(path, np.dtype(path.name.rsplit(".", 1)[1]))
        for path in sorted(folder.iterdir()) if path.name != "sizes.json"
    }  # fmt: skip
    order = np.argsort(arrays["row.values"], kind="stable")
    out = {}
    for name, array in arrays.items():
        tensor, part = name.rsplit(".", 1)
        lengths = arrays.get(f"{tensor}.lengths")
        if part == "lengths" or lengths is None:
            out[name] = array.reshape(rows, -1)[order]
            continue
        begins = np.cumsum(lengths, dtype=np.int64) - lengths
        counts = lengths[order]
        ends = np.cumsum(counts, dtype=np.int64)
        out[name] = array[np.repeat(begins[order] - (ends - counts), counts) + np.arange(len(array))]
    return out


def differences(wanted: dict[str, Array], found: dict[str, Array]) -> list[str]:
    """What is wrong with a system's outputs, in words."""
    problems = [f"{name} is missing" for name in wanted if name not in found]
    problems += [f"{name} is too much" for name in found if name not in wanted]
    for name in wanted:
        if name in found:
            problems += _differ(name, wanted[name], found[name])
    return problems


def _differ(name: str, wanted: Array, found: Array) -> list[str]:
    if wanted.shape != found.shape or wanted.dtype != found.dtype:
        return [f"{name} is {found.dtype}{found.shape}, not {wanted.dtype}{wanted.shape}"]
    if wanted.dtype == np.float32:
        bad = ~((ulps(wanted, found) <= ULPS) | (np.isnan(wanted) & np.isnan(found)))
    elif wanted.dtype == np.uint8:
        off = pixels(wanted, found)
        worst = int(off.argmax())
        return [] if off[worst] <= PIXELS else [f"{name}: pixels of row {worst} differ by {off[worst]:.2f} on average"]
    else:
        bad = wanted != found
    if not bad.any():
        return []
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    return [f"{name}: {int(bad.sum())} of {bad.size} differ, first at {at}: {found[at]}, not {wanted[at]}"]


def ulps(a: Array, b: Array) -> Array:
    """How many floats lie between a and b."""

    def ordered(x: Array) -> Array:
        bits = np.ascontiguousarray(x).view(np.int32).astype(np.int64)
        return np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)

    distance: Array = np.abs(ordered(a) - ordered(b))
    return distance


def pixels(a: Array, b: Array) -> Array:
    """By how much the pixels of each picture differ on average."""
    off: Array = np.array([np.abs(x.astype(np.int16) - y).mean() for x, y in zip(a, b, strict=True)])
    return off


class Difference(NamedTuple):
    """How far a system's outputs are from the first one's at most."""

    ulps: int  # of floats
    pixels: float  # see PIXELS

    def words(self) -> str:
        """What it is, in words."""
        return f"{self.ulps} ulp" + (f" and {self.pixels:.2f}" if self.pixels else "")


def farthest(wanted: dict[str, Array], found: dict[str, Array]) -> Difference:
    """The greatest differences of arrays that are as `differences` wants them."""
    most, off = 0, 0.0
    for name, array in wanted.items():
        if array.dtype == np.float32 and array.size:
            both = ~(np.isnan(array) & np.isnan(found[name]))
            most = max(most, int(ulps(array, found[name])[both].max(initial=0)))
        elif array.dtype == np.uint8:
            off = max(off, float(pixels(array, found[name]).max(initial=0)))
    return Difference(most, off)
