"""The user's face of Penstock: an iterable of batches that a fleet prepares.

    loader = penstock.DataLoader(
        "s3://bucket/criteo/",
        features=penstock.dense("int_*") + penstock.sparse("cat_*") + penstock.label("label"),
        batch_size=65536, master="penstock:7070")
    for batch in loader:
        train(batch.dense, batch.sparse["cat_0"].values, batch.label)

It stands between the training loop and a session (penstock._session), whose process fetches and rebatches. A loader
belongs to one thread, that of the loop; stats() may be called from any.
"""

from __future__ import annotations

import inspect
import json
import numbers
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from penstock import _arguments, _checkpoint, _hosts, _opening, _source, _standing, groups
from penstock._diagnosis import Stats, Watch
from penstock._look import Rows, Schema
from penstock._op import Transform
from penstock._reading import Making, Pass, Reading
from penstock._replica import distributed
from penstock._session import SessionStats, State
from penstock.batch import Batch
from penstock.errors import Closed, EpochsExhausted, SpecError, UsageError
from penstock.features import Features
from penstock.groups import Connection, Data, Ranks
from penstock.position import Checkpoint, Position


class DataLoader:
    """Batches of a dataset, in tensor layout, each row once per epoch over all ranks.

    iter(loader) begins the next epoch, also where the loop broke out of the one before. Right after load_state_dict()
    it reads the rest of the epoch that was saved. With epochs=N it raises EpochsExhausted after the last of them.

    The session opens at the first iter(), len() or use of state. It lives until close(), the end of a `with` block, or
    the end of the process. schema and peek() open no session. In programs that have imported torch, a loader is a
    torch.utils.data.IterableDataset.

    None stands for an argument that is not given, in each of them.

    Args: What to read
        uri: prefixes, globs or files: local paths, or URIs of a store, such as s3://, gs://, az://, https:// or hf://;
            one or several. Or one table: delta+s3://bucket/table@v12, iceberg+s3://bucket/table@tag.
        split: of a folder, the files of a split, such as "train", or "all", as load_dataset of Hugging Face's datasets
            has them. By default all files are read; a dataset of the hub with several splits is an error.
        subset: the subset of the split, where the folder has several. By default the one that its README.md says.
        spec: a YAML or JSON spec, its path or its text, in place of all other arguments of this group.
        features: sums of dense(), sparse(), label(), bytes_(), image(), tensor() and padded().
        transforms: fill_null(), log1p(), sigrid_hash() and so on, and Python functions that op() made ops of: a list,
            applied in order, or a single one.
        filter: chooses rows by columns.
        batch_size: rows of a batch, per rank.
        last_batch: what happens to the last rows of an epoch. "uneven" makes a shorter batch of them. With "drop" and
            "pad" all ranks get equally many full batches: "drop" leaves out the rows that are left, and "pad" fills
            batches up, where batch.mask tells rows from padding. By default one rank gets "uneven", and several get
            "drop", which a warning says once. A session keeps what it was opened with.
        order: "fast" hands rows over as ranks take them, so batches differ from run to run, also with shuffle=False.
            "deterministic" makes the same sequence of batches, bit for bit, whatever workers there are and whatever
            fails, for every world size that divides the lanes.
        seed: of the order of files, shards and rows.
        shuffle: True mixes files, shards and rows anew in each epoch.
        epochs: how many passes there are at most; by default there is no limit.
        python: the workers' environment that Python functions run in, by its name; theirs is "default" unless they have
            several.
        fitted: the file that `penstock fit` wrote, a path or a URI: the statistics that transforms ask for by
            penstock.Fit, of="fit" or vocabulary="fit".
        data: a penstock.Data with the rest: partitions, storage, global_batch_size, lanes, provenance and on_error.

    Args: Who reads
        master: "host:port" of any master, or several. None starts a fleet on this machine.
        workers: worker processes of the fleet that a loader without master= starts. By default there are none: the
            process that makes the batches does the work, and batches cross no network.
        session: the id under which all ranks of the job read. A job that starts again finds its session by it. By
            default it is the job's run id (PENSTOCK_RUN_ID, torchrun, Kubernetes indexed Job, Slurm) with `name`; else
            it is unique.
        name: tells the loaders of one job apart, such as "train" and "validation". Ranks that each read all rows, as
            rank=0 of world_size=1, need a name each, such as f"validation-{rank}": with one name they would be the same
            rank of one session, and all but the newest would get Fenced.
        rank: the data-parallel rank. By default that of torch.distributed, else RANK, else that of srun's task.
        world_size: the number of ranks, found in the same way.
        ranks: a penstock.Ranks with the rest: process_group and mesh of ranks that share replicas, share and
            join_timeout.
        connection: a penstock.Connection: token and TLS, namespace, zone, compression, connect_timeout, and the memory
            of a fleet on this machine.

    Args: What the loop gets
        format: "torch", "numpy" or "arrow" arrays; "auto" is torch in programs that have imported it, else NumPy.
        device: where batches are copied to.
        pin_memory: True copies batches to page-locked memory, from where the copy to a device does not block.
        map: a function of a Batch, applied in this process. The loop gets its result, and loader.position says which
            batch it was.
        on_break: what iter() does after the loop broke out of an epoch. "next" begins the next epoch. What is left goes
            to the ranks that still read it, and to nobody once all have left it; until then state_dict() names the
            rest. "resume" goes on where the loop stopped.
        budget: bytes received ahead. Each worker's stream gets a part of them, or one message.
        timeout: seconds without a row until WorkersUnreachable or MasterUnreachable is raised. Iterating goes on after
            the last batch. Waiting for other ranks does not count.
        progress: shows a progress bar.

    Raises:
        Error: a subclass of penstock.errors.Error. Mistakes in the arguments raise at once. Those that only the master
            sees (SpecError, SessionMismatch and others) raise when the session opens, and failures while reading raise
            in the loop.
    """

    @_arguments.optional
    def __init__(
        self,
        uri: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
        *,
        split: str = "",
        subset: str = "",
        spec: str | os.PathLike[str] | None = None,
        features: Features | None = None,
        transforms: Transform | Sequence[Transform] = (),
        filter: str = "",  # noqa: A002
        batch_size: int | None = None,
        last_batch: str | None = None,
        order: str = "fast",
        seed: int = 0,
        shuffle: bool = False,
        epochs: int | None = None,
        python: str = "",
        fitted: str | os.PathLike[str] = "",
        data: Data | None = None,
        master: str | Sequence[str] | None = None,
        workers: int | None = None,
        session: str | None = None,
        name: str = "train",
        rank: int | None = None,
        world_size: int | None = None,
        ranks: Ranks | None = None,
        connection: Connection | None = None,
        format: str = "auto",  # noqa: A002
        device: Any = None,
        pin_memory: bool = False,
        map: Callable[[Batch], Any] | None = None,  # noqa: A002
        on_break: str = "next",
        budget: int = 256 << 20,
        timeout: float = 300.0,
        progress: bool = False,
        **unexpected: NoReturn,
    ) -> None:
        if unexpected:
            raise TypeError(_arguments.unexpected(unexpected, inspect.signature(DataLoader).parameters, groups.FIELDS))
        self._reading: Reading | None = None
        connection = groups.group("connection", connection, Connection)
        data = groups.group("data", data, Data)
        message, text, code = _source.spec_of(
            spec, uri, features, batch_size, data,
            {
                "transforms": transforms, "filter": filter, "last_batch": last_batch, "order": order, "seed": seed,
                "shuffle": shuffle, "epochs": epochs, "python": python, "fitted": fitted, "split": split,
                "subset": subset,
            },
        )  # fmt: skip
        self._opening = _opening.Opening(
            spec=None if message is None else json.dumps(message), spec_text=text, working_dir=str(Path.cwd()),
            masters=_opening.addresses(master), session=session, name=name, rank=rank, world_size=world_size,
            ranks=groups.group("ranks", ranks, Ranks), connection=connection,
            security=_opening.security(connection), workers=workers, budget=budget, timeout=timeout, code=code,
            accept_code_change=data.accept_code_change, try_functions=data.try_functions,
        )  # fmt: skip
        if on_break not in ("next", "resume"):
            raise UsageError(f'on_break={on_break!r}: give "next" or "resume"')
        self._leaves = on_break == "next"
        self._making = Making(name, format, device, pin_memory, map, progress)
        self._restore: _opening.Restore | None = None
        self._keeps = False  # a framework's callback says what the loop has done: see _follow
        self._unsaid = False  # a framework has begun to iterate, and its callback has not come yet
        self._closed = False
        self._reads = _source.words(uri, spec)
        self._schema: Schema | None = None  # once it was looked for
        _hosts.register(DataLoader, Batch)

    def __iter__(self) -> Iterator[Any]:
        """Begins the next epoch; the present one if no batch of it came yet, as after load_state_dict().

        A new iterator takes over from the one before. With on_break="resume" it reads the rest of the present epoch.
        """
        _hosts.check()
        _hosts.register(DataLoader, Batch)
        reading = self._open()
        self._settle(reading)
        if self._leaves:
            reading.leave_pass()
        if reading.exhausted:
            raise EpochsExhausted(_standing.no_more(self._opening, "all have been read", reading.epochs))
        reading.reads_ahead = _hosts.reads_ahead() or reading.reads_ahead
        return Pass(reading)

    def __len__(self) -> int:
        """Batches of the whole epoch on this rank.

        Known once the master has planned the epoch: with order="deterministic" or last_batch="drop" on each rank, else
        for one rank that reads all rows (no filter, no sampling). Elsewhere it raises TypeError, as for any iterable
        without a length. Processes do not learn it at the same moment, so that Lightning is told it in one alone.
        """
        length = self._open().length()
        dist = distributed()
        if length is None or (dist is not None and dist.get_world_size() > 1 and _hosts.counts()):
            raise TypeError(
                "the number of batches is not known: ranks share the rows as they go, filters and samples leave some "
                "out, or the epoch is not planned yet"
            )
        return length

    def __bool__(self) -> bool:
        return True  # rather than whether len() is 0

    if not TYPE_CHECKING:  # checkers of types say it themselves

        def __getattr__(self, name: str) -> NoReturn:
            """Says of attributes that torch's DataLoader has what is there instead."""
            if name not in _arguments.ATTRIBUTES:
                return object.__getattribute__(self, name)  # raises what it raised
            words = f"'DataLoader' object has no attribute {name!r}: {_arguments.ATTRIBUTES[name]}"
            raise AttributeError(words, name=name, obj=self)

    @property
    def epoch(self) -> int:
        """The epoch that the loop is in, counted from 0; once it has come to its end, the next one, `epochs` at last.

        After a break it is the one that was broken out of, until iter() begins the next one. After load_state_dict() it
        is the one whose rest comes.
        """
        reading = self._open()
        reading.say_earlier()
        return reading.epoch

    @property
    def batch_size(self) -> int:
        """Rows of a batch, per rank."""
        return self._open().batch_size

    @property
    def schema(self) -> Schema:
        """The features of a batch: their names, where in a batch they are, and their dtypes and shapes.

        Nothing is read, and the job's session is not opened, for it.
        """
        self._check_open()
        if self._reading is not None:
            return Schema.of(self._reading.stream.reader.info.schema)
        if self._schema is None:
            self._schema = Schema.of(self._opening.look(0)[0])
        return self._schema

    def peek(self, rows: int = 5) -> Rows:
        """The first rows of the dataset as the loader gives them: filtered and transformed, a column for each feature.

        They come by a session of their own: the loader stands where it stood, and no row counts as read. They are in
        the dataset's order, whatever shuffle= and order= say; where a filter or a sample chooses rows, they are some of
        the first. print() shows them, as notebooks do, and their `table` is Arrow's.
        """
        self._check_open()
        if isinstance(rows, bool) or not isinstance(rows, numbers.Integral) or rows < 1:
            raise UsageError(f"peek({rows!r}): give a number of rows from 1 on")
        schema, records = self._opening.look(int(rows))
        return Rows(schema, records)

    def pinned_spec(self) -> str:
        """The session's spec as YAML, pinned to what this training reads: for penstock.Transforms and `penstock apply`.

        It says of which version each op was when the session was opened, and which side tables, fitted file and Python
        functions by name there were. Serving is refused where one of them is another. Functions of this program have no
        text: then it is no whole spec, and is given to Transforms as pinned=, beside features= and transforms=.
        """
        message = self._open().stream.reader.info.message
        if not message.get("pinned"):
            raise SpecError(f"pinned_spec: {message.get('unpinned', 'the binary is of another release; install both')}")
        text: str = message["pinned"]
        return text

    @property
    def session(self) -> str:
        """The session's id."""
        return self._open().stream.session

    @property
    def restored_from(self) -> Checkpoint | None:
        """The named checkpoint that `penstock session restore` put the session back to, or None.

        A training loop that loads the model that it saved there goes on in step with the data.
        """
        return self._open().restored_from

    @property
    def position(self) -> Position | None:
        """The position of the batch that was yielded last; None before the first."""
        return None if self._reading is None else self._reading.position

    def set_epoch(self, epoch: int) -> None:
        """Says which epoch iter() shall read, counted from 0.

        Nothing happens if it is its turn anyway. Epochs in between, and what is left of the present one, are left as by
        breaking out of them: where several ranks read, all of them call it. There is no way back but a state.
        """
        _hosts.check()
        reading = self._open()
        if epoch == reading.epoch + 1:
            reading.end_epoch_if_read()
        if epoch == reading.epoch:
            return
        if epoch < reading.epoch and _hosts.reads_ahead() is not None:
            return  # it counts the passes of this process, and a state was loaded
        if epoch < reading.epoch:
            raise UsageError(_standing.no_way_back(reading, epoch))
        if epoch >= reading.epochs:
            reason = f"set_epoch({epoch}) counts from 0"
            raise EpochsExhausted(_standing.no_more(self._opening, reason, reading.epochs))
        reading.leave(int(epoch) - 1)

    def state_dict(self, *, after: Batch | Position | None = None) -> dict[str, Any]:
        """Returns this rank's checkpoint: a dictionary that JSON can hold, of some hundred bytes.

        It is as of the batch that was yielded last; or of `after`; or, once done() was called, of the batch that the
        loop was last done with. Loops that read ahead need one of the two. All ranks take theirs at the same step.

        It tells whether the loop has come to the epoch's end: a state that was taken inside the loop, after the last
        batch, goes on with an empty pass, one that was taken after the loop with the next epoch. Count epochs from
        loader.epoch when going on: for epoch in range(loader.epoch, epochs).
        """
        reading = self._open()
        if after is not None:
            return self._as_dict(_checkpoint.position(after, reading.stream.reading)._state())
        saver = _hosts.saves_ahead()
        if saver is not None and (self._unsaid or not reading.flight.keeps):
            raise UsageError(
                f"{saver} reads batches ahead, and saves the loader's state without saying how far its loop has come; "
                "add penstock.lightning.ExactState() to the Trainer's callbacks"
            )
        if reading.reads_ahead and not reading.flight.follows and not _hosts.asked_by_stateful_loader():
            raise UsageError(
                f"{reading.reads_ahead} reads a batch ahead of the loop; say how far the loop has come, by "
                "loader.state_dict(after=batch), or by loader.done(batch) after each batch"
            )
        mine = self._as_dict(reading.state())
        return _checkpoint.of_all_ranks(mine) if saver is not None else mine

    def done(self, batch: Batch | Position | None = None) -> None:
        """Says that the loop has finished with a batch (and those before it), for loops that read ahead.

        From then on state_dict() is as of it. Without an argument it is the oldest one that is not done.
        """
        reading = self._open()
        reading.flight.done(None if batch is None else _checkpoint.position(batch, reading.stream.reading))

    def load_state_dict(self, state: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        """Goes on from a checkpoint: what state_dict() returned on this rank, or a list of all ranks' states.

        Exactly the rows that were left come; with order="fast" not in the order in which they would have come. A list
        must be the same on all ranks; it may come from a job of another size. An open session is left. The state is
        checked when the next one opens: RestoreRefused says what does not fit, or which ranks are missing.
        """
        self._check_open()
        restore = _opening.Restore.of(state)
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.close()
        self._restore = restore

    def stats(self) -> Stats:
        """Figures since the session was opened, with a verdict: what limits the loop, in one line."""
        return Watch().stats(SessionStats()) if self._reading is None else self._reading.stats()

    def close(self) -> None:
        """Leaves the session: what this rank holds and has not read goes back at once. A second call does nothing.

        A batch that map= or the copy to the device failed with was read, and does not go back. No state has it, so that
        who goes on from a checkpoint gets it.
        """
        self._closed = True
        if self._reading is not None:
            self._reading.close()

    def __enter__(self) -> DataLoader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        if self._reading is not None:
            raise UsageError(
                "an open loader cannot be copied or sent to another process; make one there (in torch's DataLoader: "
                "num_workers=0)"
            )
        return self.__dict__.copy()

    def __repr__(self) -> str:
        if self._closed:
            return _standing.shown(self._reads, self._opening, None, "closed")
        return _standing.shown(self._reads, self._opening, self._reading, "not open")

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the loader was closed; make another one")
        if self._reading is not None:
            self._reading.check_process()

    def _open(self) -> Reading:
        """The open session, opened if need be."""
        self._check_open()
        if self._reading is None:
            stream = self._opening.open(self, self._restore)
            batch_size = stream.reader.info.batch_size
            restore = self._restore or _opening.Restore((), (), shared=False)
            self._reading = Reading(stream, self._making, restore.is_even(batch_size), self._restore is not None)
            self._follow(self._keeps)
        return self._reading

    def _follow(self, keeps: bool) -> None:
        """For a framework's callback, which calls _finished() with each batch, until it says that it has ended.

        Batches that the framework took and lost are yielded again. Once it has ended, states stay as of what was done
        until a loop without it begins.
        """
        self._keeps, self._unsaid = keeps, False
        if keeps and self._reading is not None:
            self._reading.flight.keep()

    def _settle(self, reading: Reading) -> None:
        """Ends the keeping of batches where nobody says any more that they are done.

        A framework takes batches before its callback comes, and takes them anew once it has come.
        """
        if _hosts.saves_ahead() is None:  # one that failed has not said that it ended
            self._keeps = False
            reading.flight.let_go()
        self._unsaid = not self._keeps

    def _finished(self, position: Position | None, is_last: bool) -> None:
        """For a framework's callback: its loop is done with a batch, or the oldest one; is_last: of its epoch."""
        reading = self._open()
        reading.flight.done(position)
        if not reading.flight:
            reading.end_epoch_if_read(is_last)

    def _as_dict(self, state: State) -> dict[str, Any]:
        return _checkpoint.to_dict(state, self.batch_size, self._open().fingerprint)
