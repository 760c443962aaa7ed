"""Features of a batch that are lists, jagged or of one length, and what views of arrays have in common.

A batch (batch.py) makes them of its arrays, of torch, NumPy or Arrow. They hold arrays, not the batch. What they make
of these is a copy, and may be kept.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import UsageError

Array: TypeAlias = Any
"""A torch.Tensor, numpy.ndarray or pyarrow.Array, as the loader's `format` says."""


class Sparse:
    """A jagged feature: row i has values[offsets[i]:offsets[i + 1]].

    Attributes:
        values: int64 or float32, all rows' values one after the other.
        offsets: int32 [B + 1]; the first is 0, the last the number of values.
        weights: float32, a score for each value; None where the spec names no weights.
    """

    __slots__ = ("_format", "name", "offsets", "values", "weights")

    def __init__(
        self,
        name: str,
        format: str,  # noqa: A002
        values: Array,
        offsets: Array,
        weights: Array | None = None,
    ) -> None:
        self.name, self._format = name, format  # not the batch, which holds this
        self.values: Array = values
        self.offsets: Array = offsets
        self.weights: Array | None = weights

    @property
    def lengths(self) -> Array:
        """int32 [B], the number of values of each row."""
        offsets = self.offsets
        if isinstance(offsets, pa.Array):
            return pc.subtract(offsets[1:], offsets[:-1])
        return offsets[1:] - offsets[:-1]

    def jagged(self) -> Array:
        """The values as a torch nested tensor of layout torch.jagged, [B, *]; it shares their memory."""
        torch = torch_for("sparse.jagged()", self._format)
        return torch.nested.nested_tensor_from_jagged(self.values, self.offsets)

    def __repr__(self) -> str:
        return f"Sparse({self.name!r}, values={len(self.values)}{'' if self.weights is None else ', weighted'})"


class Padded:
    """Lists of one length: row i has lengths[i] values, and padding on one side of them.

    Attributes:
        name: the feature's.
        values: [B, length], of the list's own dtype.
        lengths: int32 [B], how many values of each row are the dataset's.
        side: where the padding lies, "left" or "right".
    """

    __slots__ = ("_format", "_mask", "lengths", "name", "side", "values")

    def __init__(self, name: str, format: str, values: Array, lengths: Array, left: bool) -> None:  # noqa: A002
        self.name, self._format = name, format  # not the batch, which holds this
        self.values: Array = values
        self.lengths: Array = lengths
        self.side = "left" if left else "right"
        self._mask: Array | None = None

    @property
    def mask(self) -> Array:
        """Bool [B, length]: true where a value is, false where padding is.

        Made when it is first asked for, where the values are (on their device), and kept.
        """
        if self._mask is None:
            self._mask = self._made()
        return self._mask

    def _made(self) -> Array:
        if self._format == "torch":
            import torch

            places = torch.arange(self._length, dtype=torch.int32, device=self.lengths.device)
            return self._filled(places, self.lengths[:, None])
        mask = self._filled(np.arange(self._length, dtype=np.int32), np.asarray(self.lengths)[:, None])
        if self._format == "arrow":
            return pa.FixedSizeListArray.from_arrays(pa.array(mask.ravel()), self._length)
        return read_only(mask)

    def _filled(self, places: Array, lengths: Array) -> Array:
        return places >= self._length - lengths if self.side == "left" else places < lengths

    @property
    def _length(self) -> int:
        return int(self.values.type.list_size if self._format == "arrow" else self.values.shape[1])

    def __repr__(self) -> str:
        return f"Padded({self.name!r}, rows={len(self.lengths)}, length={self._length}, side={self.side!r})"


class Pickled:
    """A tensor, to be pickled: torch (2.14) cannot read its own pickles of uint16 and uint32."""

    __slots__ = ("_tensor",)

    def __init__(self, tensor: Array) -> None:
        self._tensor = tensor

    def __reduce__(self) -> tuple[Any, tuple[Array, Any]]:
        """What is read is the tensor itself."""
        import torch

        dtype = self._tensor.dtype
        lies = {torch.uint16: torch.int16, torch.uint32: torch.int32}.get(dtype, dtype)
        return _viewed, (self._tensor.view(lies), dtype)


def _viewed(tensor: Array, dtype: Any) -> Array:
    return tensor.view(dtype)


def torch_for(what: str, format: str) -> Any:  # noqa: A002
    """The module torch, for what needs its tensors."""
    if format != "torch":
        raise UsageError(f'{what} needs torch tensors, but the loader\'s format is "{format}"; give format="torch"')
    import torch

    return torch


def read_only(array: np.ndarray[Any, Any]) -> Array:
    """A view of the array that cannot be written to."""
    array = array.view()
    array.flags.writeable = False
    return array
