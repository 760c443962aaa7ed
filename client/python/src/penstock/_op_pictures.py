"""A column of decoded pictures, as functions get it: NumPy arrays of uint8, of shape (height, width, channels)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock._op_values import Array


@dataclass(frozen=True)
class Kind:
    """What is known of all pictures of a column."""

    height: int  # 0 if they differ
    width: int
    channels: int

    @property
    def shape(self) -> tuple[int, ...] | None:
        """That of each, if they have one."""
        return (self.height, self.width, self.channels) if self.height else None


class Pictures:
    """A column of pictures. None is a null.

    Args:
        kind: what is known of them.
        each: the pictures, row by row; or one array of all.
    """

    def __init__(self, kind: Kind, each: Sequence[Array | None] | Array) -> None:
        self.kind, self._each = kind, each

    def __len__(self) -> int:
        return len(self._each)

    def __getitem__(self, rows: slice) -> Pictures:
        return Pictures(self.kind, self._each[rows])

    def __iter__(self) -> Iterator[Array | None]:
        return iter(self._each)

    def take(self, rows: Any) -> Pictures:
        """Those of some rows."""
        return Pictures(self.kind, [self._each[row] for row in rows.to_pylist()])

    def first_null(self) -> int | None:
        """The first row that is null, if there is one."""
        if isinstance(self._each, np.ndarray):
            return None
        return next((row for row, picture in enumerate(self._each) if picture is None), None)

    def whole(self) -> Array:
        """All of them: one array if they have one size, else an array of arrays."""
        if isinstance(self._each, np.ndarray):
            return self._each
        shape = self.kind.shape
        if shape is None:
            out = np.empty(len(self._each), object)
            for row, picture in enumerate(self._each):
                out[row] = picture
            return out
        return _read_only(np.array(self._each, np.uint8).reshape(-1, *shape))


def lying(kind: Kind, pixels: Array, ends: Array, sizes: Array, valid: Array | None) -> Pictures:
    """Pictures whose pixels lie one after the other. They end where ends say, the first of which is where they begin.

    Sizes are heights and widths.
    """
    if kind.shape is not None and (valid is None or valid.all()):
        return Pictures(kind, pixels.reshape(-1, *kind.shape))
    each: list[Array | None] = []
    for row, (height, width) in enumerate(sizes.reshape(-1, 2).tolist()):
        if valid is not None and not valid[row]:
            each.append(None)
            continue
        each.append(pixels[ends[row] : ends[row + 1]].reshape(height, width, kind.channels))
    return Pictures(kind, each)


def given(value: Any) -> Pictures | None:
    """Pictures that somebody gave as an array of all, or as a list of arrays and None; else None."""
    if isinstance(value, np.ndarray) and value.dtype == np.uint8 and value.ndim == 4:
        return Pictures(Kind(*value.shape[1:]), _read_only(value))
    if not isinstance(value, (list, tuple)):
        return None
    some = [each for each in value if each is not None]
    if not some or not all(isinstance(e, np.ndarray) and e.dtype == np.uint8 and e.ndim == 3 for e in some):
        return None
    return Pictures(Kind(0, 0, some[0].shape[2]), [each if each is None else _read_only(each) for each in value])


def _read_only(array: Array) -> Array:
    view: Array = array.view()
    view.flags.writeable = False
    return view


__all__ = ["Kind", "Pictures", "given", "lying"]
