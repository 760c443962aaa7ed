"""The types of what Python functions make: what out= of penstock.op says.

    @penstock.op(out={"tokens": penstock.int32.list(), "picture": penstock.uint8.tensor(3, 224, 224)})

Arrow's types, NumPy's and torch's dtypes, and their names are taken, too. Everything is pure.
"""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from penstock._op_values import Declared
from penstock._values import Message
from penstock.errors import SpecError

_LEVELS = 8  # of lists, at most
_MOST = 2**31 - 1  # values of a tensor


@dataclass(frozen=True)
class Type:
    """The type of a result, one value a row: penstock.int32, penstock.string and so on.

    Any value may be null. list() makes lists of it, and tensor() tensors of one shape.
    """

    _kind: str  # of spec.proto, in lower case
    _levels: int = 0  # of lists
    _shape: tuple[int, ...] = ()
    _text: bool = False

    def list(self) -> Type:
        """A list of any length in each row; of lists, lists of lists."""
        if self._shape:
            raise SpecError(f"{self!r}.list(): lists of tensors have no type; make one tensor of them all, or lists")
        if self._levels == _LEVELS:
            raise SpecError(f"{self!r}.list(): lists have {_LEVELS} levels at most")
        return Type(self._kind, self._levels + 1, (), self._text)

    def tensor(self, *shape: int) -> Type:
        """A tensor of this shape in each row, which penstock.tensor() takes as it is."""
        given = f"{self!r}.tensor({', '.join(map(repr, shape))})"
        if self._levels or self._shape or self._kind == "binary":
            raise SpecError(f"{given}: tensors are of numbers and bools; give penstock.float32.tensor(...) or another")
        if not shape or not all(isinstance(n, numbers.Integral) and not isinstance(n, bool) and n > 0 for n in shape):
            raise SpecError(f"{given}: give its shape without the rows, such as .tensor(3, 224, 224)")
        if math.prod(shape) > _MOST:
            raise SpecError(f"{given}: a row has {math.prod(shape)} values, and may have {_MOST}")
        return Type(self._kind, 0, tuple(int(n) for n in shape))

    def declared(self) -> Declared:
        """As calls of functions know it."""
        is_list = bool(self._levels or self._shape)
        return Declared(self._kind, is_list, max(0, self._levels - 1), self._shape, self._text)

    def message(self, name: str) -> Message:
        """A Result of the spec."""
        declared = self.declared()
        kind = {"kind": self._kind.upper(), "list": declared.list, "nested": declared.nested}
        said = {"name": name, "type": {k: v for k, v in kind.items() if v}, "shape": list(self._shape)}
        return {k: v for k, v in {**said, "text": self._text}.items() if v}

    def __repr__(self) -> str:
        name = "string" if self._text else "bool_" if self._kind == "bool" else self._kind
        shape = f".tensor({', '.join(map(str, self._shape))})" if self._shape else ""
        return f"penstock.{name}" + ".list()" * self._levels + shape


bool_ = Type("bool")
int8, int16, int32, int64 = Type("int8"), Type("int16"), Type("int32"), Type("int64")
uint8, uint16, uint32 = Type("uint8"), Type("uint16"), Type("uint32")
float16, float32, float64 = Type("float16"), Type("float32"), Type("float64")
string = Type("binary", _text=True)
binary = Type("binary")

Given: TypeAlias = Any  # a Type, or what names one: see type_of

_NAMED = {
    **{t._kind: t for t in (int8, int16, int32, int64, uint8, uint16, uint32, float16, float32, float64)},
    **dict.fromkeys(("bool", "bool_"), bool_),
    **dict.fromkeys(("string", "str", "utf8", "large_string", "string_view", "text"), string),
    **dict.fromkeys(("binary", "bytes", "large_binary", "binary_view"), binary),
    "halffloat": float16,
    "half": float16,
    "float": float32,
    "double": float64,  # as Arrow calls them
}
_PYTHON = {bool: bool_, int: int64, float: float64, str: string, bytes: binary}
_ALL = "penstock.int32, .float32, .string or another, its .list(), or its .tensor(3, 224, 224)"


def type_of(given: Given, where: str) -> Type:
    """The type that was given, or that something else names: of Arrow, NumPy, torch or Python, or a text."""
    found = given if isinstance(given, Type) else _of_arrow(given) if isinstance(given, pa.DataType) else _of(given)
    if found is None:
        raise SpecError(f"{where}: found {given!r:.80}; {_advice(given)}")
    return found


def _advice(given: Given) -> str:
    text = str(given)
    if "uint64" in text:
        return f"give penstock.int64, the widest there is, or {_ALL}"
    if "bfloat16" in text:
        return f"give penstock.float32, or {_ALL}"
    if re.search("timestamp|datetime|duration|timedelta|date32|date64|time32|time64", text):
        return f"give penstock.int64, and return the counts, or {_ALL}"
    return f"give {_ALL}"


def _of_arrow(given: pa.DataType) -> Type | None:
    if isinstance(given, pa.FixedShapeTensorType):
        return _tensor(_of_arrow(given.value_type), given.shape)
    if pa.types.is_fixed_size_list(given):
        return _tensor(_of_arrow(given.value_type), [given.list_size])
    if pa.types.is_fixed_size_binary(given):
        return binary
    if any(is_it(given) for is_it in (pa.types.is_list, pa.types.is_large_list, pa.types.is_list_view)):
        inner = _of_arrow(given.value_type)
        return None if inner is None or inner._shape else inner.list()
    return _NAMED.get(str(given))


def _tensor(of: Type | None, shape: Sequence[int]) -> Type | None:
    """Fixed-size lists of fixed-size lists are tensors of both sizes."""
    if of is None or of._levels or of._kind == "binary":
        return None
    return Type(of._kind).tensor(*shape, *of._shape)


def _of(given: Given) -> Type | None:
    if isinstance(given, type) and given in _PYTHON:
        return _PYTHON[given]
    if isinstance(given, str):
        inner = re.fullmatch(r"\s*list\s*<(.*)>\s*", given, re.DOTALL)
        if inner is None:
            return _NAMED.get(given.strip().lower())
        found = _of(inner[1])
        return None if found is None else found.list()
    if type(given).__module__ == "torch":
        return _NAMED.get(str(given).removeprefix("torch."))
    if isinstance(given, np.dtype) or (isinstance(given, type) and issubclass(given, np.generic)):
        dtype = np.dtype(given)
        if dtype.subdtype is not None:
            return _tensor(_of(dtype.subdtype[0]), dtype.subdtype[1])
        return string if dtype.kind == "U" else binary if dtype.kind == "S" else _NAMED.get(dtype.name)
    return None
