"""Tries a loader's Python functions on the first rows of its dataset, before a fleet has to do with them.

`penstock try` runs them as a worker does, in a process of its own: with the ops between them, on no more than some rows
and for no more than some seconds. A fault of the trial itself is none of the functions: then the session shows what
there is. A Trial belongs to one thread.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import os
import subprocess
import tempfile
import warnings
from collections.abc import Mapping
from typing import Any

from penstock import _binary, _onbox
from penstock._session.feeder import KEPT
from penstock.errors import DataError

_TIMEOUT = 30.0  # seconds; the command itself takes half as many at most
_READ = ("dataset", "filter", "features", "transforms", "code", "python", "on_error")  # what decides how a trial ends
_ELSEWHERE = (  # exceptions that say as much of the machine as of the function
    "OSError", "FileNotFoundError", "PermissionError", "ConnectionError", "TimeoutError", "ImportError",
    "ModuleNotFoundError",
)  # fmt: skip

_log = logging.getLogger("penstock")
_done: set[str] = set()  # what this process need not try again: it goes well, or cannot be tried


class Trial:
    """The trial of a spec's functions, which has begun. What went well in this process is not tried again.

    code: the functions' bytes; None: they are by name.
    here: the functions are going to run on this machine. Elsewhere there may be files and packages that are not here.
    """

    def __init__(self, spec: Mapping[str, Any], code: bytes | None, *, here: bool) -> None:
        self._spec, self._here = spec, here
        read = json.dumps([here, *(spec.get(part) for part in _READ)], sort_keys=True)
        self._key = hashlib.sha256(read.encode()).hexdigest()
        self._child: subprocess.Popen[bytes] | None = None
        if self._key in _done:
            return
        request = json.dumps({"spec": spec, "code": base64.b64encode(code or b"").decode()})
        try:
            self._child = _started(request.encode())
        except OSError as err:
            _log.debug("functions were not tried: %s", err)

    def check(self) -> None:
        """Waits for its end. Raises DataError if a function fails. A second call does nothing."""
        child, self._child = self._child, None
        if child is None:
            return
        found = _said(child)
        failed = found.get("failed")
        if failed is not None and not self._passes(failed):
            raise DataError(failed["words"] + "\nNo session was opened for it")
        if found.get("untried"):
            _log.debug("functions were not tried on rows: %s", found["untried"])
        _done.add(self._key)

    def _passes(self, failed: Mapping[str, Any]) -> bool:
        """Whether a session may do all the same: it leaves bad rows out, or its workers have what is not here."""
        if self._spec.get("on_error") and failed["rows"] and not failed["loading"]:
            return True
        if self._here or not (failed["loading"] or failed["what"].startswith(_ELSEWHERE)):
            return False
        warnings.warn(failed["words"] + "\nThat is here; the workers may have what it needs", stacklevel=2)
        return True

    def close(self) -> None:
        """Ends it, if nobody has waited for it."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()  # its process ends with it
            child.communicate()


def _started(request: bytes) -> subprocess.Popen[bytes] | None:
    binary, flags = _binary.find(), _onbox.python_flags()
    if binary is None or not flags:
        return None
    env = {k: v for k, v in os.environ.items() if not k.startswith("PENSTOCK_") or k.startswith(KEPT)}
    with tempfile.TemporaryFile() as stdin:  # a pipe would have to be written to
        stdin.write(request)
        stdin.seek(0)
        return subprocess.Popen(
            [binary, "try", "--output=json", *flags], stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=env, start_new_session=True,
        )  # fmt: skip


def _said(child: subprocess.Popen[bytes]) -> dict[str, Any]:
    """What `penstock try` found."""
    try:
        out, err = child.communicate(timeout=_TIMEOUT)
        if child.returncode == 0:
            said: dict[str, Any] = json.loads(out)
            return said
        return {"untried": err.decode(errors="replace").strip()}
    except subprocess.TimeoutExpired as late:
        return {"untried": str(late)}
    finally:
        if child.returncode is None:
            child.kill()
            child.communicate()
