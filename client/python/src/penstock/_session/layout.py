"""What the columns of a session's records mean: the tensor layout of worker/tensor/README.md.

All streams of a session have the same schema. A record is checked once, when it came, so that nothing later can fail
on it. Everything is immutable.
"""

from __future__ import annotations

import enum
import functools
import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock._flat import Form


class LayoutError(Exception):
    """A schema or a record is not in tensor layout, or not in the session's."""


class Role(enum.Enum):
    """What a column becomes."""

    DENSE = "dense"
    SPARSE = "sparse"
    LABEL = "label"
    BYTES = "bytes"
    IMAGE = "image"
    FILE = "_file"
    ROW = "_row"


@dataclass(frozen=True)
class Column:
    """One tensor of a batch. element is the type of its values; shape is of an image, names are of dense."""

    name: str
    role: Role
    element: pa.DataType
    weighted: bool = False
    names: tuple[str, ...] = ()
    shape: tuple[int, ...] = ()


@dataclass(frozen=True)
class Layout:
    """A stream's schema and what its columns mean."""

    schema: pa.Schema
    columns: tuple[Column, ...]

    @functools.cached_property
    def form(self) -> Form:
        """How its records lie in flat arrays."""
        return Form(self.schema)

    @classmethod
    def parse(cls, schema: pa.Schema) -> Layout:
        """Reads a stream's schema. What is not in tensor layout raises LayoutError, which names the field."""
        columns = []
        for f in schema:
            try:
                columns.append(_column(f))
            except LayoutError as e:
                raise LayoutError(f"schema: field {f.name!r}: {e}") from None
        dense = [c.name for c in columns if c.role is Role.DENSE]
        if len(dense) > 1:
            raise LayoutError(f"schema: fields {dense} are dense; there may be one")
        return cls(schema, tuple(columns))

    def same(self, schema: pa.Schema) -> bool:
        """Whether another stream's schema means the same tensors."""
        return len(schema) == len(self.schema) and all(
            f.equals(g, check_metadata=True) for f, g in zip(self.schema, schema, strict=True)
        )

    def check(self, record: pa.RecordBatch) -> None:
        """Checks a record of a stream whose schema is the same: offsets inside buffers, and no nulls anywhere."""
        try:
            record.validate(full=True)
        except pa.ArrowInvalid as e:
            raise LayoutError(f"record: {e}") from e
        for column, values in zip(self.columns, record.columns, strict=True):
            n = _nulls(values)
            if n:
                raise LayoutError(f"record: column {column.name!r}: {n} nulls; tensors have none")


def _nulls(values: Any) -> int:
    """Nulls of an array and of what it holds."""
    nulls: int = values.null_count
    if pa.types.is_list(values.type) or pa.types.is_fixed_size_list(values.type):
        nulls += _nulls(values.values)
    elif pa.types.is_struct(values.type):
        nulls += sum(_nulls(values.field(i)) for i in range(values.type.num_fields))
    return nulls


def _column(f: pa.Field) -> Column:
    tag = (f.metadata or {}).get(b"penstock.layout", b"").decode()
    parse = {"dense": _dense, "sparse": _sparse, "label": _label, "bytes": _bytes, "image": _image}.get(tag)
    if parse is not None:
        return parse(f)
    if f.name == "_file":
        _want(f.type.equals(pa.int32()), f.type, "int32")
        return Column(f.name, Role.FILE, f.type)
    if f.name == "_row":
        _want(f.type.equals(pa.int64()), f.type, "int64")
        return Column(f.name, Role.ROW, f.type)
    raise LayoutError(f"metadata penstock.layout is {tag!r}; expected dense, sparse, label, bytes or image")


def _want(ok: bool, got: pa.DataType, expected: str) -> None:
    if not ok:
        raise LayoutError(f"type is {got}; expected {expected}")


def _fixed(f: pa.Field, *elements: pa.DataType) -> int:
    """The width of a fixed-size list of one of some types."""
    ok = pa.types.is_fixed_size_list(f.type) and f.type.value_type in elements
    _want(ok, f.type, " or ".join(f"fixed_size_list<{element}>" for element in elements))
    width: int = f.type.list_size
    return width


def _dense(f: pa.Field) -> Column:
    width = _fixed(f, pa.float32())
    try:
        names = json.loads(f.metadata.get(b"penstock.names", b""))
    except ValueError as e:
        raise LayoutError(f"metadata penstock.names: {e}") from None
    if not isinstance(names, list) or len(names) != width:
        raise LayoutError(f"metadata penstock.names is {names!r}; expected a list of {width} names")
    return Column(f.name, Role.DENSE, pa.float32(), names=tuple(names))


def _sparse(f: pa.Field) -> Column:
    expected = "list<int64>, list<float32> or list<struct<value, weight: float32>>"
    _want(pa.types.is_list(f.type), f.type, expected)
    element, weighted = f.type.value_type, False
    if pa.types.is_struct(element):
        _want(element.num_fields == 2 and element.field(1).type.equals(pa.float32()), f.type, expected)
        element, weighted = element.field(0).type, True
    _want(element.equals(pa.int64()) or element.equals(pa.float32()), f.type, expected)
    return Column(f.name, Role.SPARSE, element, weighted=weighted)


def _label(f: pa.Field) -> Column:
    allowed = (pa.bool_(), pa.int32(), pa.int64(), pa.float32(), pa.float64())
    _want(f.type in allowed, f.type, "bool, int32, int64, float32 or float64")
    return Column(f.name, Role.LABEL, f.type)


def _bytes(f: pa.Field) -> Column:
    _want(f.type.equals(pa.binary()), f.type, "binary")
    return Column(f.name, Role.BYTES, f.type)


def _image(f: pa.Field) -> Column:
    width = _fixed(f, pa.uint8(), pa.float32())
    text = f.metadata.get(b"penstock.shape", b"").decode()
    shape = tuple(int(n) for n in text.split(",") if n.isdecimal())
    if len(shape) != 3 or text.count(",") != 2 or min(shape) < 1:
        raise LayoutError(f"metadata penstock.shape is {text!r}; expected H,W,C or C,H,W")
    if shape[0] * shape[1] * shape[2] != width:
        raise LayoutError(f"metadata penstock.shape is {text!r}, but a row has {width} values")
    return Column(f.name, Role.IMAGE, f.type.value_type, shape=shape)
