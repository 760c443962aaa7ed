"""A batch as a training loop sees it: views of its rows' memory in torch, NumPy or Arrow.

The loader makes a Batch of the rows that the session hands over (_flat.py). Nothing is copied: arrays are views
(docs/internals/tensors.md says of what), all made when the first is asked for, but for Arrow's, and kept. Only Arrow's
bools are packed.

torch tensors may be written in place: no other batch shares their memory. Features of one batch whose rows all have
equally many values may share their offsets. NumPy and Arrow arrays are read-only: write to a copy, such as
batch.dense.copy(). A pickled batch is whole, but is of no loader any more.
A batch belongs to one thread at a time.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

import numpy as np
import pyarrow as pa

from penstock._columns import Columns, Part
from penstock._flat import Flat, arrow
from penstock._lists import Array, Padded, Pickled, Sparse, read_only, torch_for
from penstock.errors import UsageError
from penstock.position import Checkpoint, Position

FORMATS = ("torch", "numpy", "arrow")

_T = TypeVar("_T")
_From = TypeVar("_From")


class Bytes(Sequence[Any]):
    """Byte strings: bytes[i] is row i's, or the list of row i's, and data and offsets have all of them.

    String j is data[offsets[j]:offsets[j + 1]]. Of lists, row i has the strings row_offsets[i] to row_offsets[i + 1];
    else string i is row i's.
    """

    __slots__ = ("_batch", "_data", "_offsets", "_rows", "name")

    def __init__(self, batch: Batch, name: str, data: Part, offsets: Part, rows: Part | None = None) -> None:
        self._batch, self.name, self._data, self._offsets, self._rows = batch, name, data, offsets, rows

    @property
    def data(self) -> Array:
        """uint8, all rows' bytes one after the other."""
        return self._batch._array(self._data)

    @property
    def offsets(self) -> Array:
        """int32, one more than there are strings: [B + 1] where each row has one; the first is 0."""
        return self._batch._array(self._offsets)

    @property
    def row_offsets(self) -> Array | None:
        """int32 [B + 1] of lists, which says which strings are whose; None where each row has one string."""
        return None if self._rows is None else self._batch._array(self._rows)

    def __len__(self) -> int:
        return len(self._batch)

    def __getitem__(self, row: Any) -> Any:
        column = self._batch.to_arrow().column(self.name)
        return column[row].to_pylist() if isinstance(row, slice) else column[row].as_py()

    def __repr__(self) -> str:
        return f"Bytes({self.name!r}, rows={len(self)})"


class Named(Mapping[str, _T], Generic[_T]):
    """Values by name, in the order of the spec."""

    __slots__ = ("_kind", "_make", "_names")

    def __init__(self, kind: str, names: Mapping[str, _From], make: Callable[[_From], _T]) -> None:
        # The names are not copied: that would take longer than to make a value.
        self._kind, self._names, self._make = kind, names, make

    def __getitem__(self, name: str) -> _T:
        try:
            made_from = self._names[name]
        except KeyError:
            names = ", ".join(self._names) or "none"
            raise KeyError(f"no {self._kind} is called {name!r}; there are: {names}") from None
        return self._make(made_from)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"{{{', '.join(map(repr, self._names))}}}"


class Batch:
    """Rows of one epoch in tensor layout; len() is their number: the spec's batch size, or less at the epoch's end.

    valid of them are the dataset's. The rest, at the end, is padding, which last_batch="pad" adds: zeros, empty lists
    and byte strings, of padded features their `value` and length 0, and -1 for files and rows. It may be all of the
    batch.

    Arrays are torch tensors, NumPy or Arrow arrays, as the loader's `format` says. NumPy's and Arrow's are read-only,
    since they are views of what was received: copy what is to be written, as batch.dense.copy().
    """

    __slots__ = (
        "_arrays", "_columns", "_format", "_mask", "_moved", "_padded", "_rows", "_sparse",
        "epoch", "position", "valid",
    )  # fmt: skip

    def __init__(
        self,
        rows: Flat,
        columns: Columns,
        epoch: int,
        position: Position,
        format: str,  # noqa: A002
        valid: int | None = None,  # all rows unless given
    ) -> None:
        self._rows, self._columns, self._format = rows, columns, format
        self._arrays: list[Array | None] | None = None  # those that were made
        self._mask: Array | None = None
        self._moved = False  # arrays are copies elsewhere, not views of the rows
        self._sparse: dict[str, Sparse] | None = None
        self._padded: dict[str, Padded] | None = None
        self.epoch = epoch  # counts from 0
        self.position = position
        self.valid = rows.num_rows if valid is None else valid

    def __len__(self) -> int:
        return self._rows.num_rows

    if not TYPE_CHECKING:  # checkers of types say it themselves

        def __getitem__(self, key: object) -> NoReturn:
            """What `x, y = batch` comes to, too: with __iter__ frameworks would take a batch for something iterable."""
            parts = self._parts()
            few = ", ".join(dict.fromkeys((parts[0], parts[-1])))
            raise TypeError(
                f"a batch is neither a tuple nor a dictionary; use {', '.join(parts)}, or have the loader yield what "
                f"the loop takes, as by map=lambda batch: ({few})"
            )

    def _parts(self) -> list[str]:
        """An array of each kind, as programs write it."""
        c = self._columns
        parts = [] if c.dense is None else ["batch.dense"]
        for kind, array in (("sparse", ""), ("bytes", ""), ("images", ""), ("tensors", ""), ("padded", ".values")):
            parts += [f"batch.{kind}[{name!r}]{array}" for name in list(getattr(c, kind))[:1]]
        if c.labels:
            parts.append("batch.label" if len(c.labels) == 1 else f"batch.labels[{next(iter(c.labels))!r}]")
        return parts

    def __getstate__(self) -> tuple[None, dict[str, Any]]:
        """Views are made anew where it goes to."""
        views = ("_padded", "_sparse") if self._moved else ("_arrays", "_mask", "_padded", "_sparse")
        state = {slot: None if slot in views else getattr(self, slot) for slot in self.__slots__}
        if self._moved:
            state["_arrays"] = [Pickled(tensor) for tensor in self._arrays or ()]
        return None, state

    @property
    def checkpoint(self) -> Checkpoint | None:
        """A named checkpoint that has its place right after this batch, or None.

        Save the model under its name once it is trained on the batch, and before the next one. If the same name comes
        again, with a later step, that one counts.
        """
        return self.position.checkpoint

    @property
    def mask(self) -> Array:
        """Bool [B]: true for rows of the dataset, false for padding."""
        if self._mask is None:
            valid: np.ndarray[Any, Any] = np.arange(len(self)) < self.valid
            self._mask = pa.array(valid) if self._format == "arrow" else _views(self._format)(valid)
        return self._mask

    def __repr__(self) -> str:
        c = self._columns
        parts = [] if c.dense is None else [f"dense=[{len(self)}, {len(c.dense_names)}]"]
        for kind in ("sparse", "labels", "bytes", "images", "tensors", "padded"):
            parts += [f"{kind}={len(getattr(c, kind))}"] if getattr(c, kind) else []
        rows = f"rows={len(self)}" + (f", valid={self.valid}" if self.valid < len(self) else "")
        return f"Batch({rows}, epoch={self.epoch}, {', '.join(parts)})"

    @property
    def dense(self) -> Array:
        """float32 [B, D]; column j is dense_names[j]. Null is NaN."""
        if self._columns.dense is None:
            raise UsageError("the batch has no dense features; add penstock.dense(...) to features=")
        return self._array(self._columns.dense)

    @property
    def dense_names(self) -> tuple[str, ...]:
        """The names of the columns of dense."""
        return self._columns.dense_names

    @property
    def sparse(self) -> Named[Sparse]:
        """Jagged features by name."""
        if self._sparse is None:
            features, array = self._columns.sparse.items(), self._array
            self._sparse = {name: Sparse(name, self._format, *map(array, parts)) for name, parts in features}
        return Named("sparse feature", self._sparse, _as_it_is)

    @property
    def label(self) -> Array:
        """[B], the only label, of the feature's own dtype; labels has several."""
        if len(self._columns.labels) != 1:
            names = ", ".join(self._columns.labels) or "none"
            raise UsageError(f"batch.label is the only label, but there are: {names}; use batch.labels[name]")
        return self._array(next(iter(self._columns.labels.values())))

    @property
    def labels(self) -> Named[Array]:
        """Labels by name, [B] each, of the feature's own dtype: bool, int32, int64, float32 or float64."""
        return Named("label", self._columns.labels, self._array)

    @property
    def bytes(self) -> Named[Bytes]:
        """Byte strings by name, one a row or lists of them."""
        return Named("bytes feature", self._columns.bytes, lambda what: Bytes(self, *what))

    @property
    def images(self) -> Named[Array]:
        """Images by name, uint8 or float32, [B, H, W, C] or [B, C, H, W]."""
        return Named("image", self._columns.images, self._array)

    @property
    def tensors(self) -> Named[Array]:
        """Tensors of one shape by name, [B, *shape], of the feature's own dtype.

        bfloat16 is torch.bfloat16, in NumPy that of the package ml_dtypes, or uint16 (its bits) where that is not
        installed. Arrow has values as they are sent: lists of one length, bools as uint8 and bfloat16 as uint16.
        """
        return Named("tensor", self._columns.tensors, self._array)

    @property
    def padded(self) -> Named[Padded]:
        """Padded features by name: values [B, length] of the list's own dtype, as in tensors, lengths, and a mask."""
        if self._padded is None:
            self._padded = {
                name: Padded(name, self._format, self._array(c.values), self._array(c.lengths), c.left)
                for name, c in self._columns.padded.items()
            }
        return Named("padded feature", self._padded, _as_it_is)

    @property
    def files(self) -> Array:
        """int32 [B]: the index of each row's file in the listing, sorted by URI. Needs Data(provenance=True)."""
        return self._provenance("_file")

    @property
    def rows(self) -> Array:
        """int64 [B]: the row of its file that each row was. Needs Data(provenance=True)."""
        return self._provenance("_row")

    @property
    def parts(self) -> Array:
        """int32 [B]: the number of each row among those that were made of its row of the file, from 0.

        Needs Data(provenance=True), and a function of kind flat_map, which makes them.
        """
        return self._provenance("_part")

    def to(self, device: Any, *, non_blocking: bool = False) -> Batch:
        """The same batch on another device, as torch tensors. non_blocking needs a pinned batch to be of use."""
        torch = self._torch("batch.to()")
        if isinstance(device, torch.dtype):  # to which ids and offsets would be converted, too
            raise UsageError(
                f"batch.to({device}) takes a device; convert tensors one by one, as batch.dense.to({device})"
            )
        return self._mapped(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self, device: Any = None) -> Batch:
        """The same batch in page-locked memory, as torch tensors: one copy, for non-blocking ones to a device."""
        self._torch("batch.pin_memory()")
        return self._mapped(lambda tensor: tensor.pin_memory() if device is None else tensor.pin_memory(device))

    def record_stream(self, stream: Any) -> None:
        """Has a device's memory kept until a stream's present work is done, as TorchRec's pipelines ask of batches."""
        self._torch("batch.record_stream()")
        masks = (feature._mask for feature in (self._padded or {}).values())
        for tensor in (*(self._arrays or ()), self._mask, *masks):
            if tensor is not None and tensor.device.type not in ("cpu", "meta"):
                tensor.record_stream(stream)

    def numpy(self) -> Batch:
        """The same batch as NumPy arrays: views of the memory in which it arrived, not of a device's."""
        return Batch(self._rows, self._columns, self.epoch, self.position, "numpy", self.valid)

    def to_arrow(self) -> pa.RecordBatch:
        """The batch as a record in the wire's layout: a column for each tensor, in the batch's memory."""
        return self._rows.to_arrow()

    def keyed_jagged_tensor(self, names: str | Sequence[str] | None = None, *, dtype: Any = None) -> Any:
        """Sparse features, all or those named, as one torchrec KeyedJaggedTensor: their values are joined by one copy.

        dtype is that of lengths and offsets: torch.int32 (the default) or torch.int64. Weights are those of the
        features; either all or none of them must have some, and all values must have one dtype.
        """
        torch = self._torch("batch.keyed_jagged_tensor()")
        try:
            from torchrec import KeyedJaggedTensor
        except ImportError as err:
            raise UsageError(f"batch.keyed_jagged_tensor() needs torchrec: {err}; pip install torchrec") from err
        wanted = self.sparse if names is None else [names] if isinstance(names, str) else names
        chosen = [self.sparse[name] for name in wanted]
        if not chosen:
            raise UsageError("a KeyedJaggedTensor needs a sparse feature; add penstock.sparse(...) to features=")
        _uniform("dtype", {f.name: f.values.dtype for f in chosen})
        weighted = _uniform("weights", {f.name: f.weights is not None for f in chosen})
        lengths = torch.cat([f.lengths for f in chosen])
        return KeyedJaggedTensor(
            keys=[f.name for f in chosen],
            values=torch.cat([f.values for f in chosen]),
            weights=torch.cat([f.weights for f in chosen]) if weighted else None,
            lengths=lengths if dtype is None else lengths.to(dtype),
        )

    def _provenance(self, name: str) -> Array:
        if not self._columns.provenance:
            raise UsageError(
                "the batch does not say where its rows come from; give the loader data=penstock.Data(provenance=True)"
            )
        if name not in self._columns.provenance:
            raise UsageError(
                "each row is one of a file, so it has no part; only functions of kind flat_map make others"
            )
        return self._array(self._columns.provenance[name])

    def _torch(self, what: str) -> Any:
        return torch_for(what, self._format)

    def _mapped(self, change: Callable[[Array], Array]) -> Batch:
        batch = Batch(self._rows, self._columns, self.epoch, self.position, self._format, self.valid)
        batch._arrays = [change(self._array(part)) for part in range(len(self._rows.parts))]
        batch._mask, batch._moved = change(self.mask), True
        return batch

    def _array(self, part: Part) -> Array:
        if self._arrays is None:
            self._arrays = self._made()
        made = self._arrays[part]
        if made is None:
            made = self._arrays[part] = self._arrow(part)
        return made

    def _made(self) -> list[Array | None]:
        """All arrays at once: a loop that looks at one looks at most, and each by itself takes twice as long."""
        parts = self._rows.parts
        if self._format == "arrow":
            return [None] * len(parts)
        views = [_views(self._format)] * len(parts)
        for part, dtype in self._columns.own.items():
            views[part] = _views(self._format, dtype)
        try:
            arrays = [view(part) for view, part in zip(views, parts, strict=True)]
        except TypeError as err:  # torch's, which names the dtype
            raise UsageError(
                f'torch before 2.3 has no uint16 and uint32: {err}; update torch, or give format="numpy"'
            ) from err
        for part, shape in self._columns.shapes.items():
            arrays[part] = arrays[part].reshape(self._rows.num_rows, *shape)
        return arrays

    def _arrow(self, part: Part) -> pa.Array:
        rows = self._rows
        column, dtype, _ = rows.form.parts[part]
        kind = rows.schema.field(column).type
        if pa.types.is_list(kind) or pa.types.is_binary(kind):
            return arrow(rows.parts[part], pa.from_numpy_dtype(dtype))
        whole = rows.to_arrow().column(column)
        # Of padded features the values, which have a shape, or the lengths.
        return whole.field(0 if part in self._columns.shapes else 1) if pa.types.is_struct(kind) else whole


def _as_it_is(made: _T) -> _T:
    return made


@functools.cache
def _views(format: str, own: str = "") -> Callable[[np.ndarray[Any, Any]], Array]:  # noqa: A002
    """What makes torch's or NumPy's view of an array; own is the dtype of what lies in another one."""
    if own == "bool":
        view = _views(format)
        return lambda array: view(array.view(np.bool_))
    if format == "torch":
        import torch

        if own == "bfloat16":
            return lambda array: torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        from_numpy: Callable[[np.ndarray[Any, Any]], Array] = torch.from_numpy
        return from_numpy
    if own == "bfloat16":
        dtype = _bfloat16()
        return lambda array: read_only(array.view(dtype))
    return read_only


def _bfloat16() -> Any:
    """NumPy's dtype of bfloat16, or that of its bits."""
    try:
        from ml_dtypes import bfloat16
    except ImportError:
        return np.uint16
    return bfloat16


def _uniform(what: str, by_name: dict[str, Any]) -> Any:
    """The one value that all features have."""
    if len(set(by_name.values())) > 1:
        found = ", ".join(f"{name}: {value}" for name, value in by_name.items())
        raise UsageError(
            f"a KeyedJaggedTensor has one {what} for all features, but found {found}; choose some by names="
        )
    return next(iter(by_name.values()))
