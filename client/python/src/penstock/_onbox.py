"""On-box mode: a fleet on this machine, run by the penstock binary in the background for as long as loaders need it.

It stands beside a loader's session, which reads from it as from any fleet. Loaders of one process share a fleet; each
has a session of its own. `penstock local` ends when its standard input does, and this process holds the other end: so
the fleet ends with this process, however that dies. Forked children let go of it at once. All functions may be called
from any thread.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import threading
import time
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock import _binary, _child
from penstock.errors import LocalFleetError

START_TIMEOUT = 60.0  # seconds until the fleet is up
STOP_TIMEOUT = 20.0  # seconds for the fleet to end in order; its own processes have 15
KEPT_SETTINGS = ("PENSTOCK_LOG_", "PENSTOCK_STORAGE_")  # the other ones in the environment are of another fleet


class LocalFleet:
    """A use of a fleet on this machine, which runs until its last user in this process has closed it.

    address is its master's, token what it asks for. Raises LocalFleetError if there is no binary, or if the fleet does
    not come up.
    """

    def __init__(self, *, workers: int | None = None) -> None:
        """Starts a fleet of so many worker processes, or joins the users of one. None is one worker, with all CPUs."""
        arguments = () if workers is None else (f"--workers={workers}",)
        self._process = _fleets.take(arguments)
        self._closed = False
        self.address, self.token = self._process.address, self._process.token

    def error(self) -> str | None:
        """What happened and the log's end if the fleet has ended by itself; None while it runs."""
        return None if self._closed else self._process.error()

    def close(self) -> None:
        """Ends the fleet if this was its last user, and waits for that. A second call does nothing."""
        if not self._closed:
            self._closed = True
            _fleets.give_back(self._process)


class _Fleets:
    """The fleets of this process, by their arguments, and who uses them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # held while a fleet starts: who wants the same one waits for it
        self._running: dict[tuple[str, ...], _Process] = {}
        self._users: dict[_Process, int] = {}

    def take(self, arguments: tuple[str, ...]) -> _Process:
        with self._lock:
            process = self._running.get(arguments)
            if process is None or process.error() is not None:
                process = self._running[arguments] = _start(arguments)
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
            self._running = {a: p for a, p in self._running.items() if p is not process}
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


class _Process:
    """The running command."""

    def __init__(self, binary: Path, arguments: tuple[str, ...]) -> None:
        self.address = self.token = ""
        self._closed = False
        self._log = _child.Log()
        command = [str(binary), "local", "--output=json", "--end-with-stdin", *arguments]
        kept = {k: v for k, v in os.environ.items() if not k.startswith("PENSTOCK_") or k.startswith(KEPT_SETTINGS)}
        with _spawning:
            self._child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log.file, env=kept, bufsize=0,
                start_new_session=True,  # the terminal's Ctrl-C is for this process, which then closes the fleet
            )  # fmt: skip
            _open.add(self)

    def await_announcement(self, timeout: float) -> None:
        """Sets address and token once the fleet is up."""
        assert self._child.stdout is not None
        deadline = time.monotonic() + timeout
        line = b""
        with selectors.DefaultSelector() as selector:
            selector.register(self._child.stdout, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise LocalFleetError(
                        f"the local fleet did not come up in {timeout:g} s; {self._log.words()}\n"
                        "Run `penstock local` to see it start, or give the address of a fleet as master="
                    )
                more = os.read(self._child.stdout.fileno(), 4096)
                if not more:
                    self._child.wait()
                    raise LocalFleetError(self.error())
                line += more
        try:
            said = _Announcement.parse(line)
        except (ValueError, KeyError, TypeError, OSError) as err:
            raise LocalFleetError(
                f"the local fleet said {line!r}, which does not tell where it is ({err!r}); "
                f"is {self._child.args!r} the binary of this version of penstock?"
            ) from err
        self.address, self.token = said.address, said.token

    def error(self) -> str | None:
        status = self._child.poll()
        if status is None or self._closed:
            return None
        return (
            f"the local fleet {_child.ended(status)}; {self._log.words()}\n"
            "A new loader starts a new fleet. Run `penstock local` to see one from outside"
        )

    def close(self) -> None:
        self.let_go()
        try:
            self._child.wait(STOP_TIMEOUT)
        except BaseException as err:
            self._child.kill()  # its processes end with it
            self._child.wait()
            if not isinstance(err, subprocess.TimeoutExpired):
                raise
        self._log.close()

    def let_go(self) -> None:
        """Closes this process's ends of the pipes, which asks the fleet to end unless another process holds them."""
        self._closed = True
        for pipe in (self._child.stdin, self._child.stdout):
            assert pipe is not None
            pipe.close()


def _start(arguments: tuple[str, ...]) -> _Process:
    try:
        binary = _binary.find()
        if binary is None:
            raise LocalFleetError(
                f"without master= the loader starts a fleet on this machine, but {_binary.advice()}; "
                'or give the address of a fleet, as master="host:7070"'
            )
        process = _Process(binary, arguments)
    except OSError as err:
        raise LocalFleetError(f"cannot start the local fleet: {err}") from err
    try:
        process.await_announcement(START_TIMEOUT)
    except BaseException:
        process.close()
        raise
    return process


# A fork copies the ends of the pipes that hold fleets alive: it waits while one is made, and the child closes its own.
_spawning = threading.Lock()
_open: weakref.WeakSet[_Process] = weakref.WeakSet()
_fleets = _Fleets()


def _after_fork_in_child() -> None:
    global _fleets
    _spawning.release()
    for process in list(_open):
        process.let_go()
    _open.clear()
    _fleets = _Fleets()  # the parent's may be locked


os.register_at_fork(before=_spawning.acquire, after_in_parent=_spawning.release, after_in_child=_after_fork_in_child)
