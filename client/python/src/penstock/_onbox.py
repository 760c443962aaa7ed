"""On-box mode: a fleet on this machine, run by the penstock binary in the background for as long as loaders need it.

It feeds loaders' sessions itself (penstock._session.feeder), in place of a `penstock feed`: where it has no worker
processes it is one process, and batches come from its worker without a network between. Loaders of one process share a
fleet; each has a session of its own. The fleet ends with this process, however that dies. Forked children let go of it
at once. All functions may be called from any thread.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import selectors
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock import _binary, _child
from penstock._session import feeder
from penstock.errors import LocalFleetError

START_TIMEOUT = 60.0  # seconds until the fleet is up
STOP_TIMEOUT = 20.0  # seconds for the fleet to end in order; its own processes have 15


class LocalFleet:
    """A use of a fleet on this machine, which runs until its last user in this process has closed it.

    address is its master's, token what it asks for. Raises LocalFleetError if there is no binary, or if the fleet does
    not come up.
    """

    def __init__(self, *, workers: int = 0, memory: int | None = None) -> None:
        """Starts a fleet of so many worker processes, or joins the users of one. 0: its first process is the worker.

        memory: bytes that streams may hold in each worker.
        """
        self._process = _fleets.take(f"--workers={workers}", *([] if memory is None else [f"--memory={memory}"]))
        self._closed = False
        self.address, self.token = self._process.address, self._process.token

    def connect(self) -> feeder.Connection:
        """A connection for a session. Raises LocalFleetError if the fleet has ended."""
        try:
            return self._process.connect()
        except OSError as err:
            self._process.end()
            raise LocalFleetError(self.error() or f"the local fleet does not take a session: {err}") from err

    def error(self) -> str | None:
        """What happened and the log's end if the fleet has ended by itself; None while it runs."""
        return None if self._closed else self._process.error()

    def close(self) -> None:
        """Ends the fleet if this was its last user, and waits for that. A second call does nothing."""
        if not self._closed:
            self._closed = True
            _fleets.give_back(self._process)


class _Fleets:
    """The fleets of this process, by their flags, and who uses them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # held while a fleet starts: who wants the same one waits for it
        self._running: dict[tuple[str, ...], _Process] = {}
        self._users: dict[_Process, int] = {}

    def take(self, *flags: str) -> _Process:
        with self._lock:
            process = self._running.get(flags)
            if process is None or process.error() is not None:
                process = self._running[flags] = _start((*flags, *python_flags()))
                self._users[process] = 0
            self._users[process] += 1
            return process

    def give_back(self, process: _Process) -> None:
        with self._lock:
            if process not in self._users:
                return  # the parent's, of which this is a fork
            self._users[process] -= 1
            if self._users[process] > 0:
                return
            del self._users[process]
            self._running = {f: p for f, p in self._running.items() if p is not process}
        process.close()


@dataclass(frozen=True)
class _Announcement:
    """What the command prints when the fleet is up."""

    address: str
    token: str

    @classmethod
    def parse(cls, line: bytes) -> _Announcement:
        said: dict[str, Any] = json.loads(line)
        return cls(said["address"], Path(said["token_file"]).read_text().strip())


class _Process(feeder.Process):
    """The running command."""

    failure = LocalFleetError

    def __init__(self, binary: Path, flags: tuple[str, ...]) -> None:
        super().__init__(binary, "local", "--feed", "--output=json", *flags, stdout=subprocess.PIPE)
        self._closed = False
        self._prints: threading.Thread | None = None
        try:
            said = self._announced(START_TIMEOUT)
        except BaseException:
            self.close()
            raise
        self.address, self.token = said.address, said.token
        self._prints = threading.Thread(target=_show, args=(self._child.stdout,), name="penstock-prints", daemon=True)
        self._prints.start()

    def _announced(self, timeout: float) -> _Announcement:
        """What it says once the fleet is up."""
        assert self._child.stdout is not None
        deadline = time.monotonic() + timeout
        line = b""
        out = self._child.stdout
        with selectors.DefaultSelector() as selector:
            selector.register(out, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise LocalFleetError(
                        f"the local fleet did not come up in {timeout:g} s; {self._log.words()}\n"
                        "Run `penstock local` to see it start, or give the address of a fleet as master="
                    )
                more = os.read(out.fileno(), 4096)
                if not more:
                    self._child.wait()
                    raise LocalFleetError(self.error())
                line += more
        return _Announcement.parse(line)

    def error(self) -> str | None:
        """What happened if it has ended by itself."""
        status = self._child.poll()
        if status is None or self._closed:
            return None
        return (
            f"the local fleet {_child.ended(status)}; {self._log.words()}\n"
            "A new loader starts a new fleet. Run `penstock local` to see one from outside"
        )

    def close(self) -> None:
        """Asks it to end, and waits."""
        self._closed = True
        self._control.close()
        try:
            self._child.wait(STOP_TIMEOUT)
        except BaseException as err:
            self._child.kill()  # its processes end with it
            self._child.wait()
            if not isinstance(err, subprocess.TimeoutExpired):
                raise
        finally:
            if self._prints is not None:
                self._prints.join(1.0)  # it has read all by then
            elif self._child.stdout is not None:
                self._child.stdout.close()  # not before: writing to what nobody reads would kill it
            self._log.close()


def _show(stdout: Any) -> None:
    """Shows what functions print, as if they did so in this process. Runs in a thread, until the fleet has ended."""
    with io.BufferedReader(stdout) as lines:
        for line in lines:
            with contextlib.suppress(Exception):  # nobody may have a place for it
                said = json.loads(line)
                name = said["op"].partition(" (")[0]
                sys.stdout.write(f"{name}: {said['line']}\n")
                sys.stdout.flush()


def python_flags() -> list[str]:
    """Has the fleet run this program's own functions, as it would: by its interpreter, which finds the same modules.

    Who has the fleet's token is this user, who may run anything anyway.
    """
    own = interpreter_flags()
    return ["--code=by-value", "--python-modules=default=*", *own] if own else []


def interpreter_flags() -> list[str]:
    """Names this program's interpreter, and where it finds modules."""
    if not sys.executable:  # the interpreter is a part of another program
        return []
    path = [Path(folder).absolute() for folder in sys.path]
    known = [f"--python-path=default={f}" for f in path if f.exists() and os.pathsep not in str(f)]
    return [f"--python=default={sys.executable}", *dict.fromkeys(known)]


def _start(flags: tuple[str, ...]) -> _Process:
    try:
        binary = _binary.find()
        if binary is None:
            raise LocalFleetError(
                f"without master= the loader starts a fleet on this machine, but {_binary.advice()}; "
                'or give the address of a fleet, as master="host:7070"'
            )
        return _Process(binary, flags)
    except OSError as err:
        raise LocalFleetError(f"cannot start the local fleet: {err}") from err


_fleets = _Fleets()


def _after_fork_in_child() -> None:
    global _fleets
    _fleets = _Fleets()  # the parent's may be locked


os.register_at_fork(after_in_child=_after_fork_in_child)
