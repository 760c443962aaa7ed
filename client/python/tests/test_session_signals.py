"""Interrupts, forks and the process's end: nothing is lost, and nothing hangs."""

from __future__ import annotations

import contextlib
import errno
import gc
import itertools
import json
import linecache
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

import penstock
from penstock import _checkpoint, _reader, _reading, errors
from penstock._session import Security, Session, events, exchange, feeder, rows
from penstock._session import session as session_module
from tests.session_cases import all_places, configure, name, read_epoch, spec, threads
from tests.test_loader import make, places, take

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType, ModuleType

    from penstock._session import Rows, State
    from penstock._session.feeder import Message
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
            assert self.session.state() == self.session.state(self.batches[-1].after)


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


class At:
    """Traces calls, and acts once, as a handler of a signal would, where some modules come to their n-th line."""

    def __init__(self, n: int, act: Callable[[], object], modules: tuple[ModuleType, ...]) -> None:
        self.left, self.act = n, act
        self.files = {module.__file__ for module in modules}

    def __call__(self, frame: FrameType, event: str, argument: Any) -> At | None:
        # What lets go of memory runs where its last user is.
        if frame.f_code.co_filename not in self.files or frame.f_code.co_name in ("_let_go", "_end"):
            return None
        if event == "line" and not self._returns(frame):
            self.left -= 1
            if self.left == 0:
                self.act()
        return self

    def _returns(self, frame: FrameType) -> bool:
        """Python does not look for signals before a mere return."""
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
        return line.startswith("return ") and "(" not in line

    def __enter__(self) -> None:
        self.before = sys.gettrace()
        sys.settrace(self)

    def __exit__(self, *_: object) -> None:
        sys.settrace(self.before)


ENOUGH = 10  # batches, each of which is interrupted at all of its lines


def tracing(at: At, batches: int) -> contextlib.AbstractContextManager[object]:
    """Traces the first batches."""
    return at if batches < ENOUGH else contextlib.nullcontext()


class OtherError(Exception):
    """What no part of the package knows."""


@pytest.mark.parametrize(
    "error",
    [
        KeyboardInterrupt(),
        OtherError("SIGUSR1"),
        TimeoutError("watchdog"),
        OSError(errno.EIO, "of the handler's own file"),
        BlockingIOError(errno.EAGAIN, "of the handler's own socket"),
        errors.UsageError("of another loader"),
        ValueError("no number"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_exception_at_any_line_passes_through_and_loses_nothing(
    shared_fleet: Fleet, dataset: Dataset, error: BaseException
) -> None:
    """Each batch is interrupted a line later than the one before, until there is no such line."""

    def fail() -> NoReturn:
        raise error

    n, lines = 0, list[int]()
    batches: list[Rows] = []
    came: list[bytes] = []
    with Session(configure(shared_fleet, spec(dataset, batch_size=50))) as session:
        while session.epoch == 0:
            n += 1
            try:
                with tracing(At(n, fail, (session_module, exchange, feeder, events)), len(batches)):
                    rows = session.next()
            except BaseException as err:
                if err is not error:
                    raise
                continue
            lines.append(n)
            n = 0
            if rows is not None:
                batches.append(rows)
                came.append(rows.tensors.parts[0].tobytes())
            assert session.state().rows == sum(b.valid for b in batches)
    assert max(lines) > 50
    assert [b.tensors.parts[0].tobytes() for b in batches] == came
    assert all_places(batches) == sorted(dataset.places())


def test_a_state_at_any_line_is_that_of_the_last_batch(shared_fleet: Fleet, dataset: Dataset) -> None:
    """Code that runs within next(), at each of its lines in turn, may ask for it, and raise behind that."""
    told: list[dict[str, Any]] = []
    got: list[penstock.Batch] = []
    loader = make(shared_fleet, dataset, batch_size=50)
    modules = (session_module, exchange, feeder, _reader, _reading, _checkpoint)
    with loader:
        batches, n, raises = iter(loader), 0, itertools.cycle([False, True])

        def ask() -> None:
            told.append(loader.state_dict())
            if next(raises):
                raise OtherError

        while True:
            n += 1
            before = loader.state_dict()
            told.clear()
            try:
                with tracing(At(n, ask, modules), len(got)):
                    batch = next(batches)
            except OtherError:
                assert told == [before]
                continue
            except StopIteration:
                break
            assert told in ([], [before])
            n *= bool(told)  # else there is no such line
            got.append(batch)
        assert loader.epoch == 1
    assert Counter(places(got)) == Counter(dataset.places())


def test_an_exception_at_any_line_of_a_loader_loses_nothing(shared_fleet: Fleet, dataset: Dataset) -> None:
    """Nor is an epoch's end lost, or told twice."""

    def fail() -> NoReturn:
        raise OtherError

    modules = (session_module, exchange, feeder, _reader, _reading, _checkpoint)
    got: list[penstock.Batch] = []
    with make(shared_fleet, dataset, batch_size=2000, epochs=2) as loader:
        for epoch in range(2):
            batches, n = iter(loader), 0
            while True:
                n += 1
                try:
                    with At(n, fail, modules):
                        got.append(next(batches))
                except OtherError:
                    continue
                except StopIteration:
                    break
                n = 0
            assert next(batches, None) is None
            assert loader.epoch == epoch + 1
    assert Counter(places(got)) == Counter(2 * list(dataset.places()))
    assert {b.position.number for b in got} == set(range(len(got)))


@pytest.mark.parametrize("raises", [False, True])
def test_a_handler_while_the_loop_waits(shared_fleet: Fleet, dataset: Dataset, raises: bool) -> None:
    """A real signal, where nothing comes: the loop goes on as soon as something does."""
    told: list[dict[str, Any]] = []

    def handle(number: int, frame: FrameType | None) -> None:
        told.append(loader.state_dict())
        loader.stats()
        if raises:
            raise TimeoutError("watchdog")
        reader.start()

    session = name()
    other = make(shared_fleet, dataset, session=session, world_size=2, rank=1, on_break="resume")
    loader = make(shared_fleet, dataset, session=session, world_size=2, rank=0)
    with other, loader:
        got, rest = take(other, 1), list[penstock.Batch]()
        reader = threading.Thread(target=lambda: rest.extend(other))
        batches, at = iter(loader), loader.state_dict()
        before = signal.signal(signal.SIGALRM, handle)
        try:
            with pytest.raises(TimeoutError, match="watchdog") if raises else contextlib.nullcontext():
                signal.setitimer(signal.ITIMER_REAL, 1)  # by then it waits for the other rank
                for batch in batches:
                    got.append(batch)
                    at = loader.state_dict() if not told else at
        finally:
            signal.signal(signal.SIGALRM, before)
        if raises:
            reader.start()
            got += list(batches)
        reader.join(60)
    assert told == [at]
    assert Counter(places([*got, *rest])) == Counter(dataset.places())


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


def start(fleet: Fleet, text: str, program: str, session: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "src")}
    command = [sys.executable, "-c", program, fleet.master, session, text]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def test_ctrl_c_ends_a_waiting_process(shared_fleet: Fleet, dataset: Dataset) -> None:
    with start(shared_fleet, spec(dataset), PROGRAM, name()) as process:
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
    session_id = name()
    with start(shared_fleet, spec(dataset), FORGETFUL, session_id) as process:
        out, err = process.communicate(timeout=60)
    assert (out, err, process.returncode) == ("1000\n", "", 0)
    show = [
        str(shared_fleet.binary),
        "session",
        "show",
        session_id,
        "--master",
        shared_fleet.master,
        "--output",
        "json",
    ]
    shown = json.loads(subprocess.run(show, check=True, capture_output=True).stdout)
    assert not shown["progress"]["ranks"][0].get("present")  # it has left; its lease would be 90 s
    with Session(configure(shared_fleet, spec(dataset), session=session_id)) as session:
        assert sum(b.record.num_rows for b in read_epoch(session)) == dataset.rows - 1000


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


def test_where_no_handshake_can_be_made_nothing_is_waited_for(shared_fleet: Fleet, dataset: Dataset) -> None:
    config = configure(shared_fleet, spec(dataset), security=Security(tls=True), connect_timeout=3600)
    with pytest.raises(errors.MasterUnreachable, match=r"handshake failed.*\n.*tls="):
        Session(config)


FORKS = """
import os, sys
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
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0

forked("before")
print("parent", read("parent"), flush=True)
forked("closed")
with Session(Config((sys.argv[1],), sys.argv[2] + "-own", spec_text=sys.argv[3])) as session:
    first = session.next().record.num_rows
    forked("open")
    print("still", first + rows(session))
"""


def test_a_fork_opens_sessions_of_its_own(shared_fleet: Fleet, dataset: Dataset) -> None:
    with start(shared_fleet, spec(dataset), FORKS, name()) as process:
        out, err = process.communicate(timeout=60)
    said = dict(line.split(" ", 1) for line in out.splitlines())
    assert said == dict.fromkeys(("before", "parent", "closed", "open", "still"), str(dataset.rows)), err


def test_memory_of_a_batch_that_came_late(
    shared_fleet: Fleet, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an interrupted call saw of it may go before the batch does."""
    make = rows.parts

    def interrupted(*arguments: Any) -> NoReturn:
        monkeypatch.setattr(session_module, "parts", make)
        assert all(part.nbytes >= 0 for part in make(*arguments))
        raise KeyboardInterrupt

    with Session(configure(shared_fleet, spec(dataset, batch_size=50))) as session:
        monkeypatch.setattr(session_module, "parts", interrupted)
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
        asked: list[Message] = []

        def interrupted(request: Message) -> None:
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
    states: list[State] = []

    def handle(number: int, frame: FrameType | None) -> None:
        states.append(session.state())
        session.close()

    with waiting_session(shared_fleet, dataset) as session:
        before = signal.signal(signal.SIGALRM, handle)
        try:
            signal.setitimer(signal.ITIMER_REAL, 1)
            read_until_closed(session)
        finally:
            signal.signal(signal.SIGALRM, before)
    assert len(states) == 1


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

        def interrupted(request: Message) -> None:
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

    def interrupted(request: Message) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(session._exchange, "ask", interrupted)
    with pytest.raises(KeyboardInterrupt):
        session.close()
    batches[0].tensors.parts[0].sum()  # batches stay
    del batches
    gc.collect()
    assert session._connection._socket.fileno() < 0


def test_a_process_that_is_stopped(shared_fleet: Fleet, dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    with Session(configure(shared_fleet, spec(dataset, batch_size=50))) as session:
        batches = read_epoch(session, 3)
        monkeypatch.setattr(exchange, "LOOKS", 2)
        monkeypatch.setattr(exchange, "WAIT", 0.05)
        os.kill(session._connection.pid, signal.SIGSTOP)
        os.waitpid(session._connection.pid, os.WUNTRACED)  # until then it may answer
        try:
            for ask in (session.next, session.next, lambda: session.state(batches[0].after)):
                with pytest.raises(errors.Error, match=r"has not answered for .*kill -CONT"):
                    ask()
        finally:
            os.kill(session._connection.pid, signal.SIGCONT)
        monkeypatch.setattr(exchange, "LOOKS", 1000)
        batches += read_epoch(session)
    assert all_places(batches) == sorted(dataset.places())
