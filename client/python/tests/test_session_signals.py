"""Interrupts, forks and the process's end: nothing is lost, and nothing hangs."""

from __future__ import annotations

import contextlib
import gc
import linecache
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from penstock import errors
from penstock._session import Session, feeder
from penstock._session import session as session_module
from tests.session_cases import all_places, configure, name, read_epoch, spec, threads

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from penstock._pb.control_pb2 import State
    from penstock._pb.feed_pb2 import FeedRequest
    from penstock._session import Rows
    from tests.conftest import Dataset, Fleet


class Loop:
    """A training loop that is interrupted at random places inside next, and only there.

    What it got lies in a slot that is filled by the very statement that calls next, as a caller's variable is.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.batches: list[Rows] = []
        self.interrupts = 0
        self.inside = False

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        """The signal's handler. A signal that another thread received may come late."""
        if self.inside:
            self.inside = False
            raise KeyboardInterrupt

    def run(self, pause: float) -> None:
        while True:
            missing = object()
            got: Rows | object | None = missing
            try:
                self.inside = True
                signal.setitimer(signal.ITIMER_REAL, pause)
                got = self.session.next()
                self.inside = False
            except KeyboardInterrupt:
                self.interrupts += 1
                pause *= 1.02  # or a short one would let no call through
            if got is None:
                return
            if got is not missing:
                self.batches.append(got)  # type: ignore[arg-type]
            self.check_state()

    def check_state(self) -> None:
        """The state is as of the last batch that came back."""
        if self.batches:
            state, after = self.session.state(), self.session.state(self.batches[-1].after)
            rows = [iv.SerializeToString() for iv in state.consumed]
            assert rows == [iv.SerializeToString() for iv in after.consumed]


@pytest.mark.skipif(
    sys.version_info < (3, 11), reason="a signal may come between a function's return and the caller's assignment"
)
# An interrupt inside a finaliser is printed by Python and goes no further.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("pause", [0.00001, 0.00003, 0.0001, 0.0003])
def test_interrupts_lose_nothing(shared_fleet: Fleet, dataset: Dataset, pause: float) -> None:
    with Session(configure(shared_fleet, spec(dataset, batch_size=50))) as session:
        loop = Loop(session)
        before = signal.signal(signal.SIGALRM, loop.interrupt)
        try:
            loop.run(pause)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        stats = session.stats()
    assert all_places(loop.batches) == sorted(dataset.places())
    assert (stats.rows, stats.batches) == (dataset.rows, len(loop.batches))
    assert loop.interrupts > 0


class InterruptAt:
    """Traces calls, and raises KeyboardInterrupt once, where the session's code comes to its n-th line."""

    def __init__(self, n: int) -> None:
        self.left = n
        self.files = {session_module.__file__, feeder.__file__}

    def __call__(self, frame: FrameType, event: str, argument: Any) -> InterruptAt | None:
        # What lets go of memory runs where its last user is.
        if frame.f_code.co_filename not in self.files or frame.f_code.co_name in ("_let_go", "_end"):
            return None
        if event == "line" and not self._returns(frame):
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self

    def _returns(self, frame: FrameType) -> bool:
        """Python does not look for signals before a mere return."""
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
        return line.strip() in ("return offer.rows", "return True", "return answer", "return message", "return reply")


def test_an_interrupt_at_any_line_loses_nothing(shared_fleet: Fleet, dataset: Dataset) -> None:
    """Each batch is interrupted a line later than the one before, until there is no such line."""
    tracing, n, lines = sys.gettrace(), 0, []
    batches: list[Rows] = []
    came: list[bytes] = []
    with Session(configure(shared_fleet, spec(dataset, batch_size=50))) as session:
        while session.epoch == 0:
            n += 1
            sys.settrace(InterruptAt(n))
            try:
                rows = session.next()
            except KeyboardInterrupt:
                continue
            finally:
                sys.settrace(tracing)
            lines.append(n)
            n = 0
            if rows is not None:
                batches.append(rows)
                came.append(rows.tensors.parts[0].tobytes())
            assert session.state().rows == sum(b.valid for b in batches)
    assert max(lines) > 50
    assert [b.tensors.parts[0].tobytes() for b in batches] == came
    assert all_places(batches) == sorted(dataset.places())


PROGRAM = """
import sys, time
from penstock._session import Config, Session
session = Session(Config((sys.argv[1],), sys.argv[2], spec_text=sys.argv[3], world_size=2))
session.next()
try:
    print("reading", flush=True)
    while session.next() is not None:  # in the end it waits for the rank that is not there
        pass
except KeyboardInterrupt:
    print("interrupted", flush=True)
    raise
"""


def start(fleet: Fleet, text: str, program: str, name: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "src")}
    command = [sys.executable, "-c", program, fleet.master, name, text]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def test_ctrl_c_ends_a_waiting_process(shared_fleet: Fleet, dataset: Dataset) -> None:
    with start(shared_fleet, spec(dataset), PROGRAM, f"ctrl-c-{os.getpid()}") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "reading\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert out == "interrupted\n"
    assert process.returncode == -signal.SIGINT
    assert err.rstrip().endswith("KeyboardInterrupt")
    assert "Exception ignored" not in err


FORGETFUL = """
import sys
from penstock._session import Config, Session
session = Session(Config((sys.argv[1],), sys.argv[2], spec_text=sys.argv[3]))
batch = session.next()  # which outlives it
print(batch.record.num_rows)
"""


def test_forgotten_session_gives_back(shared_fleet: Fleet, dataset: Dataset) -> None:
    """A process that ends without close leaves all the same: another gets the rest at once, not after a lease."""
    name = f"forgotten-{os.getpid()}"
    with start(shared_fleet, spec(dataset), FORGETFUL, name) as process:
        out, err = process.communicate(timeout=60)
    assert (out, err, process.returncode) == ("1000\n", "", 0)
    with Session(configure(shared_fleet, spec(dataset), session=name)) as session:
        begin = time.monotonic()
        assert sum(b.record.num_rows for b in read_epoch(session)) == dataset.rows - 1000
        assert time.monotonic() - begin < 60  # the lease is 90 s


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_fork_is_told_what_to_do(shared_fleet: Fleet, dataset: Dataset) -> None:
    with Session(configure(shared_fleet, spec(dataset))) as session:
        batches = read_epoch(session, 2)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                session.next()
            except errors.UsageError as e:
                code = 0 if "num_workers=0" in str(e) and "spawn" in str(e) else 2
            finally:
                session.close()
                os._exit(code)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        batches += read_epoch(session)
    assert all_places(batches) == sorted(dataset.places())
    assert not threads()


IMPOLITE = """
import os, sys
from penstock import errors
from penstock._session import Config, Security, Session
from pyarrow import flight

with Session(Config((sys.argv[1],), sys.argv[2], spec_text=sys.argv[3])) as session:
    session.next()
    child = os.fork()
    if child == 0:
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
try:
    tls = Security(tls=True)  # where a handshake failed there is nothing to wait for
    Session(Config((sys.argv[1],), sys.argv[2], spec_text=sys.argv[3], security=tls, connect_timeout=3600))
except errors.MasterUnreachable as e:
    print(e)
try:
    flight.FlightClient(f"grpc+tls://{sys.argv[1]}").do_get(flight.Ticket(b"x"))
except flight.FlightUnavailableError:
    print("unavailable")
"""


def test_grpc_prints_nothing_of_its_own(shared_fleet: Fleet, dataset: Dataset) -> None:
    with start(shared_fleet, spec(dataset), IMPOLITE, f"impolite-{os.getpid()}") as process:
        out, err = process.communicate(timeout=100)
    assert (err, process.returncode) == ("", 0)
    assert "handshake failed" in out
    assert "tls=" in out
    assert out.endswith("unavailable\n")


FORKS = """
import os, sys
from penstock import errors
from penstock._session import Config, Session

def rows(session):
    total = 0
    while (got := session.next()) is not None:
        total += got.record.num_rows
    return total

def read(name):
    with Session(Config((sys.argv[1],), f"{sys.argv[2]}-{name}", spec_text=sys.argv[3])) as session:
        return rows(session)

def forked(name):
    child = os.fork()
    if child == 0:
        try:
            print(name, read(name), flush=True)
        except errors.UsageError as e:
            print(name, e, flush=True)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0

forked("before")
print("parent", read("parent"), flush=True)
forked("closed")
with Session(Config((sys.argv[1],), sys.argv[2] + "-open", spec_text=sys.argv[3])) as session:
    first = session.next().record.num_rows
    forked("open")
    print("still", first + rows(session))
"""


def test_a_fork_opens_a_session_only_if_its_parent_had_none(shared_fleet: Fleet, dataset: Dataset) -> None:
    """gRPC does not survive a fork: a second connection would crash or hang."""
    with start(shared_fleet, spec(dataset), FORKS, f"forks-{os.getpid()}") as process:
        out, err = process.communicate(timeout=60)
    said = dict(line.split(" ", 1) for line in out.splitlines())
    assert said.keys() == {"before", "parent", "closed", "open", "still"}, err
    assert said["before"] == said["parent"] == said["still"] == str(dataset.rows)
    for when in ("closed", "open"):
        assert "spawn" in said[when]
        assert "first loader after the fork" in said[when]


def test_memory_of_a_batch_that_came_late(
    shared_fleet: Fleet, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an interrupted call saw of it may go before the batch does."""
    make = session_module._parts

    def interrupted(*arguments: Any) -> NoReturn:
        monkeypatch.setattr(session_module, "_parts", make)
        assert all(part.nbytes >= 0 for part in make(*arguments))
        raise KeyboardInterrupt

    with Session(configure(shared_fleet, spec(dataset, batch_size=50))) as session:
        monkeypatch.setattr(session_module, "_parts", interrupted)
        try:
            session.next()
        except KeyboardInterrupt:
            batch = session.next()
        assert batch is not None
        gc.collect()
        before = [part.tobytes() for part in batch.tensors.parts]
        read_epoch(session, 10)
        assert [part.tobytes() for part in batch.tensors.parts] == before


def test_the_answer_to_an_interrupted_question_is_no_other_s(
    shared_fleet: Fleet, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Session(configure(shared_fleet, spec(dataset, batch_size=50))) as session:
        batches = read_epoch(session, 3)
        asked: list[FeedRequest] = []

        def interrupted(request: FeedRequest) -> None:
            asked.append(request)
            raise KeyboardInterrupt

        with monkeypatch.context() as m:
            m.setattr(session._connection, "send", interrupted)
            with pytest.raises(KeyboardInterrupt):
                session.state(batches[0].after)
        send = session._connection.send
        with monkeypatch.context() as m:
            m.setattr(
                session._connection, "send", lambda request: (send(asked[0]), send(request))
            )  # as if it came late
            assert session.state(batches[2].after).rows == 150
        assert session.state(batches[0].after).rows == 50


def test_memory_that_cannot_be_lent_ends_the_session(
    shared_fleet: Fleet, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("no such luck")

    with Session(configure(shared_fleet, spec(dataset, batch_size=50))) as session:
        monkeypatch.setattr(session._connection, "memory", fails)
        with pytest.raises(errors.Error, match=r"no such luck.*checkpoint"):
            session.next()


@contextlib.contextmanager
def waiting_session(fleet: Fleet, data: Dataset) -> Iterator[Session]:
    """One whose next waits in the end, for a rank that keeps what it holds."""
    shared = name()
    other, session = (Session(configure(fleet, spec(data), session=shared, world_size=2, rank=rank)) for rank in (1, 0))
    with other, session:
        read_epoch(other, 1)
        yield session


def read_until_closed(session: Session) -> None:
    with pytest.raises(errors.Closed):
        read_epoch(session)


def test_a_handler_of_signals_that_asks_and_closes(shared_fleet: Fleet, dataset: Dataset) -> None:
    said: list[str] = []

    def handle(number: int, frame: FrameType | None) -> None:
        try:
            session.state()
        except errors.UsageError as err:
            said.append(str(err))
        session.close()

    with waiting_session(shared_fleet, dataset) as session:
        before = signal.signal(signal.SIGALRM, handle)
        try:
            signal.setitimer(signal.ITIMER_REAL, 1)
            read_until_closed(session)
        finally:
            signal.signal(signal.SIGALRM, before)
    assert [("do it in the loop" in words) for words in said] == [True]


def test_a_thread_that_asks_and_closes(shared_fleet: Fleet, dataset: Dataset) -> None:
    states: list[State] = []
    with waiting_session(shared_fleet, dataset) as session:
        batches = read_epoch(session, 1)

        def ask() -> None:
            states.extend(session.state(b.after) for b in batches)
            session.close()

        asker = threading.Timer(1, ask)
        asker.start()
        read_until_closed(session)
        asker.join(30)
        assert not asker.is_alive()
    assert [s.rows for s in states] == [1000]


def test_a_batch_that_was_asked_for_twice_comes_once(
    shared_fleet: Fleet, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupt comes between the request for a batch and the note that it was sent."""
    with Session(configure(shared_fleet, spec(dataset, batch_size=50))) as session:
        send, interrupts = session._connection.send, 0

        def interrupted(request: FeedRequest) -> None:
            nonlocal interrupts
            send(request)
            interrupts += 1
            if interrupts % 2 == 0:
                raise KeyboardInterrupt

        monkeypatch.setattr(session._connection, "send", interrupted)
        batches: list[Rows] = []
        while session.epoch == 0:
            with contextlib.suppress(KeyboardInterrupt):
                batches += read_epoch(session, 1)
        monkeypatch.undo()
        assert session.stats().batches == len(batches)
    assert interrupts > 10
    assert all_places(batches) == sorted(dataset.places())


def test_an_interrupted_close(shared_fleet: Fleet, dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends the session as well, whose process would else keep its lease."""
    session = Session(configure(shared_fleet, spec(dataset, batch_size=50)))
    batches = read_epoch(session, 3)

    def interrupted(request: FeedRequest) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(session, "_ask", interrupted)
    with pytest.raises(KeyboardInterrupt):
        session.close()
    batches[0].tensors.parts[0].sum()  # batches stay
    del batches
    gc.collect()
    assert session._connection._socket.fileno() < 0


def test_a_process_that_is_stopped(shared_fleet: Fleet, dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    with Session(configure(shared_fleet, spec(dataset, batch_size=50))) as session:
        batches = read_epoch(session, 3)
        monkeypatch.setattr(session_module, "LOOKS", 2)
        monkeypatch.setattr(session_module, "WAIT", 0.05)
        os.kill(session._connection.pid, signal.SIGSTOP)
        os.waitpid(session._connection.pid, os.WUNTRACED)  # until then it may answer
        try:
            for ask in (session.next, session.next, lambda: session.state(batches[0].after)):
                with pytest.raises(errors.Error, match=r"has not answered for .*kill -CONT"):
                    ask()
        finally:
            os.kill(session._connection.pid, signal.SIGCONT)
        monkeypatch.setattr(session_module, "LOOKS", 1000)
        batches += read_epoch(session)
    assert all_places(batches) == sorted(dataset.places())
