"""The functions that a worker's process has by name: their identity, and what their marks declare.

It runs in the processes that workers keep for functions, and imports the modules of the functions it is asked for.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from penstock import _identity, _named
from penstock._op import Op
from penstock._op_call import Entry, Mistake
from penstock._values import Message, from_message

MOST_FILES, MOST_BYTES = 10_000, 64 << 20  # of a package


class Offered:
    """Functions by their names, whose modules were imported here.

    Args:
        calls: their names. Without any they are all those that the modules have which are listed by their names.
        modules: that a function may be of.

    Raises:
        _named.Absent: there is none by one of the names.
        Mistake: the files of a package cannot be told.
    """

    def __init__(self, calls: Sequence[str], modules: Sequence[str]) -> None:
        before = set(sys.modules)
        self.calls = list(calls) or _named.listed(modules)
        self._ops = [_named.find(call, modules) for call in self.calls]
        tops = {name.partition(".")[0] for name in set(sys.modules) - before}
        self._users = sorted(top for top in tops if top in sys.modules and _identity.is_users(sys.modules[top]))
        libraries = {top for top in tops if _identity.origin(top) == "library"} | {"numpy", "pyarrow"}
        self._distributions = {_identity.distribution(top) for top in libraries}
        self.identity = self._identity()

    def _identity(self) -> Message:
        """A message Code, by the files as they are now."""
        files: dict[str, bytes] = {}

        def digest(call: str, op: Op) -> bytes:
            tops = sorted({*self._users, call.partition(":")[0].partition(".")[0], *_defines(op)})
            for top in tops:
                if top not in files:
                    files[top] = _digest_of_files(top)
            return _identity.mark("by name", call, *(part for top in tops for part in (top, files[top])))

        found = [(call, digest(call, op)) for call, op in zip(self.calls, self._ops, strict=True)]
        return _identity.message(self._distributions, found)

    def stale(self) -> bool:
        """Whether files have changed since they were imported."""
        return self._identity() != self.identity

    def difference(self, digests: Sequence[str]) -> str:
        """What differs from functions of these digests, in words; "": nothing."""
        for function, digest in zip(self.identity["functions"], digests, strict=True):
            if function["digest"] != digest:
                module, _, name = function["name"].partition(":")
                return (
                    f"{module} differs here: the files of {module.partition('.')[0]}, or of what it imports, are not "
                    f"those that {name} had where the session was opened"
                )
        return ""

    def marks(self) -> list[Message]:
        """A message MarkedFunction of each."""
        return [_mark(call, op) for call, op in zip(self.calls, self._ops, strict=True)]

    def entry(self, index: int, call: str, args: Mapping[str, Message]) -> Entry:
        """What is called, with arguments of the spec's."""
        if self.calls[index] != call:
            raise Mistake(f"the session's function {index} is {self.calls[index]}, and {call} is asked for")
        entry, given = self._ops[index].entry(), {name: from_message(value) for name, value in args.items()}
        entry["kwargs"] = {**entry["kwargs"], **given}
        try:
            inspect.signature(entry["call"]).bind_partial(*entry["args"], **entry["kwargs"])
        except TypeError as err:
            raise Mistake(f"{call}: args: {err}; found {', '.join(given)}") from None
        except ValueError:  # of what is written in C the signature may be unknown
            pass
        return entry


def _defines(op: Op) -> list[str]:
    """The user's module that a function was defined in, which may be another one than has it."""
    top = str(getattr(op.function, "__module__", None) or "").partition(".")[0]
    return [top] if top in sys.modules and _identity.is_users(sys.modules[top]) else []


def _mark(call: str, op: Op) -> Message:
    function = {key: value for key, value in op.message(0).items() if key != "index"}
    outs = op.outs if op.only is None else (("", op.only),)
    return {"function": {**function, "call": call}, "results": [kind.message(name) for name, kind in outs]}


def _digest_of_files(top: str) -> bytes:
    """The digest of a top-level module's file, or of all files of a package."""
    parts: list[bytes | str] = []
    many, size = 0, 0
    for name, path in _files(top):
        try:
            content = path.read_bytes() if path.stat().st_size <= MOST_BYTES - size else None
        except OSError as err:
            raise Mistake(f"{top}: {err}; have all its files where the process can read them") from None
        many, size = many + 1, size + len(content or b"")
        if content is None or many > MOST_FILES:
            raise Mistake(
                f"{top}: its folder has more than {MOST_FILES:,} files, or {MOST_BYTES >> 20} MiB of them; its "
                "functions are known by all of them, so keep data outside of it"
            )
        parts += [name, hashlib.sha256(content).digest()]
    if not parts:
        raise Mistake(f"{top}: it has no files; put functions into a file, or a package of files")
    return _identity.mark("files", *parts)


def _files(top: str) -> Iterator[tuple[str, Path]]:
    """Files with their names in the package, in a certain order, without what Python and editors leave there."""
    module = sys.modules[top]
    folders = [Path(folder) for folder in getattr(module, "__path__", ())]
    if not folders and getattr(module, "__file__", None):
        yield top, Path(str(module.__file__))
    for folder in folders:
        for at, below, names in os.walk(folder):
            below[:] = sorted(name for name in below if _counts(name))
            for name in sorted(filter(_counts, names)):
                yield Path(at, name).relative_to(folder).as_posix(), Path(at, name)


def _counts(name: str) -> bool:
    return not name.startswith(".") and name != "__pycache__" and not name.endswith(".pyc")
