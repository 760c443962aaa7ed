"""penstock.Transforms: what a session makes of a dataset's rows, made of rows at hand. One spec trains and serves.

A child process, `penstock apply-rows`, does the work with the code that workers run (cmd/apply, worker/apply). Rows go
to it as an Arrow file over a socket, and arrays come back. It ends with its socket, and so with this process, however
that dies. Forked children let go of it, and start one of their own. A Transforms may be used by any thread.
"""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import os
import socket
import subprocess
import threading
import time
import weakref
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa

from penstock import _binary, _bundle, _child, _onbox, _rows
from penstock import spec as builders
from penstock._columns import Columns
from penstock._flat import OFFSET, Array, Flat, Form
from penstock._op import Transform, functions_of
from penstock._session.feeder import KEPT
from penstock._values import check_integer
from penstock.batch import FORMATS, Batch
from penstock.errors import Closed, DataError, Error, SpecError, UsageError
from penstock.features import Features
from penstock.groups import Data
from penstock.position import Position

MEMORY = 1 << 30
_PREFIX = 4  # bytes that say how long a header is
_ALIGNMENT = 64  # of each array behind a header
_END = 5.0  # seconds until a process ends whose socket is closed

_all: weakref.WeakSet[Transforms] = weakref.WeakSet()


class Transforms:
    """A spec's transforms, to be called with rows. The values are those of training, bit for bit.

        transforms = penstock.Transforms("spec.yaml", schema="train/part-0.parquet")
        batch = transforms({"price": [1.5], "cat_0": [[3, 7]]})
        model(batch.dense, batch.sparse["cat_0"].values)

    Each row gives one: filter, sampling and transforms that are for training only do not run. Ops that draw random
    numbers are refused unless they are marked so: `penstock.flip("photo").training_only()`. Labels whose columns the
    rows lack are left out, which a warning in the log says once.

    Use it as a context manager, or close() it. It may be called by any thread; calls take turns.

    Args:
        spec: the YAML or JSON spec that the model was trained with, its path or its text.
        features, transforms, fitted: what the loader was given, in place of a spec.
        pinned: what loader.pinned_spec() returned, or its path, beside features= and transforms=: SpecError is raised
            where ops, side tables or the fitted file are others than in that training.
        schema: of which types the training's columns are: an Arrow schema, or a Parquet or Arrow file that has it.
            Without it the first rows decide, and in training a column may have had another type.
        outputs: names of the tensors to make; "dense" is that of the dense features. By default all.
        format: "torch", "numpy" or "arrow" arrays; "auto" is torch in programs that have imported it, else NumPy.
        memory: bytes that the rows of a call may take, those of what is made of them, and those of side tables.
        timeout: seconds for a call; behind them its process is ended, and the next call starts another one.

    Raises:
        SpecError: the spec has mistakes, cannot be served, or needs columns that the rows lack.
        DataError: an op or a function refuses a row, or a value has no place in its column.
    """

    def __init__(
        self,
        spec: str | os.PathLike[str] | None = None,
        *,
        features: Features | None = None,
        transforms: Transform | Iterable[Transform] = (),
        fitted: str | os.PathLike[str] = "",
        pinned: str | os.PathLike[str] | None = None,
        schema: pa.Schema | str | os.PathLike[str] | None = None,
        outputs: str | Sequence[str] = (),
        format: str = "auto",  # noqa: A002
        memory: int = MEMORY,
        timeout: float = 60.0,
    ) -> None:
        check_integer("memory", memory, least=1)
        if format not in ("auto", *FORMATS):
            raise UsageError(f'format={format!r}; give "auto", "torch", "numpy" or "arrow"')
        self._format, self._timeout, self._memory = _rows.format_of(format), float(timeout), memory
        self._schema = None if schema is None else _rows.schema_of(schema)
        self._outputs = [outputs] if isinstance(outputs, str) else list(outputs)
        self._spec, self._code = _spec_of(spec, features, transforms, fitted)
        if pinned is not None and spec is not None:
            raise UsageError("pinned= goes with features= and transforms=; give the pinned spec as spec")
        self._pinned = "" if pinned is None else builders.read_text(pinned)
        self._lock = threading.Lock()
        self._child: _Child | None = None
        self._closed = False
        self._number = 0  # of the next batch
        self._said: set[str] = set()  # labels that were left out
        _all.add(self)
        if self._schema is not None:  # else nothing is known of its columns yet
            with self._lock:
                self._opened()

    def __call__(self, rows: pa.Table | pa.RecordBatch | Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> Batch:
        """The tensors of rows, in their order.

        Args:
            rows: an Arrow table or record batch, a mapping of names to arrays or lists, or a list of rows, each a
                mapping of names to values.
        """
        with self._lock:
            if self._closed:
                raise Closed("the transforms are closed")
            table = _rows.record(rows, self._schema)
            try:
                made = self._opened().apply(_rows.file_of(table), self._timeout)
            except _Gone as gone:
                self._end()
                raise Error(str(gone)) from None
            except BaseException as err:
                if not isinstance(err, Error):  # an interrupt: an answer may be under way
                    self._end()
                raise
            if self._schema is None:
                self._schema = table.schema
            number, self._number = self._number, self._number + 1
        self._say(made.without)
        position = Position(0, number, None, _no_state)
        return Batch(made.flat, made.columns, 0, position, self._format)

    def _opened(self) -> _Child:
        """The process, which is started if there is none."""
        if self._child is None:
            child = _Child()
            try:
                what = "spec" if isinstance(self._spec, Mapping) else "spec_text"
                request = {
                    what: self._spec, "pinned": self._pinned, "outputs": self._outputs, "memory": self._memory,
                }  # fmt: skip
                schema = b"" if self._schema is None else _rows.file_of(_rows.none_of(self._schema))
                child.open(request, self._code, schema, self._timeout)
            except _Gone as gone:
                child.close()
                raise Error(str(gone)) from None
            except BaseException:
                child.close()
                raise
            self._child = child
        return self._child

    def _say(self, without: Sequence[str]) -> None:
        """Says once which labels are left out."""
        new = [name for name in without if name not in self._said]
        if new:
            self._said.update(new)
            logging.getLogger("penstock").warning(
                "the rows lack the columns of %s, which %s left out", ", ".join(new), "is" if len(new) == 1 else "are"
            )

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.close()

    def _forked(self) -> None:
        """Lets go of what is the parent's, whose lock another thread may have held."""
        self._lock = threading.Lock()
        child, self._child = self._child, None
        if child is not None:
            child.forget()

    def close(self) -> None:
        """Ends its process. A second call does nothing."""
        with self._lock:
            self._closed = True
            self._end()

    def __enter__(self) -> Transforms:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        given = "..." if isinstance(self._spec, Mapping) or "\n" in self._spec else repr(self._spec)
        return f"penstock.Transforms({given})"


def _spec_of(
    spec: Any,
    features: Features | None,
    transforms: Transform | Iterable[Transform],
    fitted: str | os.PathLike[str],
) -> tuple[Mapping[str, Any] | str, bytes]:
    """The spec as a message or as text, and the code of its functions."""
    steps = [transforms] if isinstance(transforms, Transform) else list(transforms)
    if (spec is None) == (features is None) or (spec is not None and (steps or fitted)):
        raise UsageError(
            "say what is applied: a spec, by its path or its text, or features= and transforms= as the loader has them"
        )
    if spec is not None:
        return builders.read_text(spec), b""
    assert features is not None
    made = builders.build("rows", features, data=Data(), batch_size=1, transforms=steps, fitted=fitted)
    functions = builders.by_value(functions_of(steps))
    return made, _bundle.pickled(functions) if functions else b""


def _no_state() -> Any:
    """Rows at hand are no place in a dataset."""


class _Gone(Exception):
    """The process answers no more."""


class _Made:
    """What a call made."""

    def __init__(self, flat: Flat, columns: Columns, without: Sequence[str]) -> None:
        self.flat, self.columns, self.without = flat, columns, without


class _Child:
    """A process that applies transforms, and the socket to it. It belongs to who has the lock."""

    def __init__(self) -> None:
        binary = _binary.find()
        if binary is None:
            raise UsageError(f"transforms are applied by the penstock binary, but {_binary.advice()}")
        env = {k: v for k, v in os.environ.items() if not k.startswith("PENSTOCK_") or k.startswith(KEPT)}
        self._log = _child.Log()
        self._socket, theirs = socket.socketpair()
        try:
            with theirs:
                self._process = subprocess.Popen(
                    [binary, "apply-rows", *_onbox.python_flags()], stdin=theirs.fileno(), stdout=theirs.fileno(),
                    stderr=self._log.file, env=env, start_new_session=True,
                )  # fmt: skip
        except OSError as err:
            self._socket.close()
            self._log.close()
            raise UsageError(f"{binary} cannot be started: {err}") from err
        self._form: Form | None = None
        self._columns: Columns | None = None

    def open(self, request: Mapping[str, Any], code: bytes, schema: bytes, timeout: float) -> None:
        """Says what is applied."""
        self._ask({"open": request, "parts": [len(code), len(schema)]}, [code, schema], timeout)

    def apply(self, file: Any, timeout: float) -> _Made:
        """Applies it to the rows of an Arrow file."""
        said, data = self._ask({"parts": [len(file)]}, [file], timeout)
        if "schema" in said:
            self._form = Form(pa.ipc.open_stream(base64.b64decode(said["schema"])).schema)
            self._columns = Columns(self._form)
        assert self._form is not None and self._columns is not None
        parts = _arrays(self._form, said["rows"], said["parts"], data)
        return _Made(Flat(self._form, said["rows"], parts), self._columns, said.get("without", ()))

    def _ask(self, header: Mapping[str, Any], parts: Sequence[Any], timeout: float) -> tuple[dict[str, Any], Array]:
        """Sends a request, and returns the answer: its header, and what is behind that."""
        ends = time.monotonic() + timeout
        text = json.dumps(header, separators=(",", ":")).encode()
        try:
            for part in (len(text).to_bytes(_PREFIX, "little") + text, *parts):
                if len(part):
                    self._socket.settimeout(max(0.001, ends - time.monotonic()))
                    self._socket.sendall(part)
            size = int.from_bytes(self._receive(_PREFIX, ends).tobytes(), "little")
            said: dict[str, Any] = json.loads(self._receive(size, ends).tobytes())
            data = self._receive(sum(-(-n // _ALIGNMENT) * _ALIGNMENT for n in said["parts"]), ends)
        except TimeoutError:
            raise _Gone(
                f"no answer came in {timeout:g} s; give fewer rows at once, or a longer timeout= to penstock.Transforms"
            ) from None
        except OSError as err:
            raise _Gone(self._ended(str(err))) from None
        if said.get("error"):
            raise (SpecError if said["kind"] == "spec" else DataError)(said["error"])
        return said, data

    def _receive(self, size: int, ends: float) -> Array:
        """So many bytes, in memory that can be written to."""
        out: Array = np.empty(size, np.uint8)
        view = out.data
        while len(view):
            self._socket.settimeout(max(0.001, ends - time.monotonic()))
            n = self._socket.recv_into(view)
            if n == 0:
                raise ConnectionResetError("it closed its socket")
            view = view[n:]
        return out

    def _ended(self, why: str) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            why = _child.ended(self._process.wait(_END))
        return f"`penstock apply-rows` {why}; {self._log.words()}"

    def close(self) -> None:
        """Ends the process, and waits for that."""
        self._socket.close()
        try:
            self._process.wait(_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()

    def forget(self) -> None:
        """Closes what a fork has of it."""
        self._socket.close()
        self._log.close()
        self._process.returncode = 0  # it is the parent's to wait for


def _arrays(form: Form, rows: int, sizes: Sequence[int], data: Array) -> list[Array]:
    """The arrays of a form, each of which begins at a multiple of 64 bytes."""
    parts: list[Array] = []
    at = 0
    for part, size in zip(form.parts, sizes, strict=True):
        values = data[at : at + size]
        at += -(-size // _ALIGNMENT) * _ALIGNMENT
        if part.dtype == np.bool_:
            parts.append(np.unpackbits(values, count=rows, bitorder="little").view(np.bool_))
        else:
            parts.append(values.view(part.dtype))
    if rows == 0:  # lists of none have no offsets, which end with 0
        for column_and_what, i in form.index.items():
            if column_and_what[1] == "offsets":
                parts[i] = np.zeros(1, OFFSET)
    return parts


def _after_fork_in_child() -> None:
    for transforms in list(_all):
        transforms._forked()


os.register_at_fork(after_in_child=_after_fork_in_child)
