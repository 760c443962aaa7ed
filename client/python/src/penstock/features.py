"""Builders of features: which columns become tensors, and of which layout.

    features = penstock.dense("int_*") + penstock.sparse("cat_*") + penstock.label("label")

They check nothing but Python's own types. Names may be globs; the language is that of docs/reference/spec.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from penstock._values import Message, Names, Scalar, Value, names_of, value_of, without_none
from penstock.errors import UsageError


@dataclass(frozen=True)
class Feature:
    """Columns, or results of transforms, that become tensors of one layout."""

    name: tuple[str, ...]  # or globs
    layout: str
    weights: str = ""
    shape: tuple[int, ...] = ()
    default: Message | None = None  # a Value

    def message(self) -> Message:
        """A Feature of the spec."""
        named = {"name": list(self.name), "layout": self.layout.upper(), "weights": self.weights}
        return without_none({**named, "shape": [int(n) for n in self.shape], "default": self.default})


class Features:
    """Features in the order in which they were added; `+` joins two."""

    __slots__ = ("_features",)

    def __init__(self, features: Iterable[Feature] = ()) -> None:
        self._features = tuple(features)

    def __add__(self, other: Features) -> Features:
        if not isinstance(other, Features):
            return NotImplemented
        return Features((*self._features, *other._features))

    def __iter__(self) -> Iterator[Feature]:
        return iter(self._features)

    def __len__(self) -> int:
        return len(self._features)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Features) and self._features == other._features

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = (f"{f.layout}({', '.join(map(repr, f.name))})" for f in self._features)
        return " + ".join(shown) or "Features()"


def dense(*names: Names, default: Scalar | None = None) -> Features:
    """Scalar numbers and bools, stacked with all other dense features into the one float32 [B, D] of batch.dense.

    Nulls are NaN.

    Args:
        *names: names of columns or results of transforms, or globs of them.
        default: the value of rows whose file lacks the column.
    """
    return _features(names, "dense", default)


def sparse(*names: Names, weights: str = "", default: Value | None = None) -> Features:
    """Jagged ids or floats, a tensor each: batch.sparse[name] with values (int64 or float32) and offsets (int32 [B+1]).

    A null row is empty.

    Args:
        *names: names of columns or results of transforms, or globs of them.
        weights: names a list feature that holds a float score for each value.
        default: the value, or list of values, of rows whose file lacks the column.
    """
    return _features(names, "sparse", default, weights=weights)


def label(*names: Names, default: Scalar | None = None) -> Features:
    """Scalar numbers and bools, a tensor [B] each, of the feature's own type: batch.label, or batch.labels[name].

    Args:
        *names: names of columns or results of transforms, or globs of them.
        default: the value of rows whose file lacks the column.
    """
    return _features(names, "label", default)


def bytes_(*names: Names, default: str | None = None) -> Features:
    """Strings and byte arrays, one byte string a row: batch.bytes[name]. Null is empty.

    Args:
        *names: names of columns or results of transforms, or globs of them.
        default: the value of rows whose file lacks the column.
    """
    return _features(names, "bytes", default)


def image(*names: Names, shape: tuple[int, int, int] | None = None) -> Features:
    """Images as batch.images[name]: pictures that decode_jpeg() and others made, or byte arrays of raw pixels.

    Args:
        *names: names of columns or results of transforms, or globs of them.
        shape: of raw pixels, (H, W, C): each row has exactly H*W*C bytes, and the tensor is uint8 [B, H, W, C].
            Pictures need none: they are that, too, or float32 after normalize(). With shape (C, H, W) they are
            [B, C, H, W].
    """
    return _features(names, "image", None, shape=tuple(shape or ()))


def _features(names: tuple[Names, ...], layout: str, default: Value | None, **more: Any) -> Features:
    flat = [name for given in names for name in names_of(given)]
    if not flat or not all(isinstance(name, str) for name in flat):
        raise UsageError(
            f'{layout}() takes names or globs, but got {names!r}; write {layout}("a", "b_*") or {layout}(["a"])'
        )
    value = None if default is None else value_of(default, "default")
    return Features([Feature(tuple(flat), layout, default=value, **more)])
