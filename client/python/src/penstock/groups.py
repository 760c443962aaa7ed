"""Groups of DataLoader's arguments that few programs need: what is read, who reads, and how it connects.

    fleet = penstock.Connection(token_file="/run/secrets/penstock/token", ca="ca.pem")
    train = penstock.DataLoader(..., master="penstock:7070", connection=fleet)
    validation = penstock.DataLoader(..., master="penstock:7070", name="validation", connection=fleet)

They stand between a program and the loader. A group is checked where it is made, and does not change: one serves any
number of loaders, and dataclasses.replace() makes another one of it. Any thread may have it.
"""

from __future__ import annotations

import dataclasses
import functools
import numbers
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from penstock import _arguments
from penstock._values import check_integer, check_text, value_of
from penstock.errors import SpecError, UsageError

File: TypeAlias = str | os.PathLike[str]

COMPRESSIONS = ("none", "lz4", "zstd")

_G = TypeVar("_G", bound="_Group")


@dataclass(frozen=True, kw_only=True, repr=False)
class _Group:
    """What all groups have."""

    def __repr__(self) -> str:
        """As a program writes it, less the fields that have their defaults. Of a secret it shows that there is one."""
        shown = []
        for f in dataclasses.fields(self):
            value = getattr(self, f.name)
            if value is not f.default and (f.default is None or value != f.default):
                shown.append(f"{f.name}={value!r}" if f.repr else f"{f.name}=...")
        return f"penstock.{type(self).__name__}({', '.join(shown)})"


def _by_name(kind: type[_G]) -> type[_G]:
    """Has a group say what to write in place of a field that it does not have. None stands for what is not given."""
    made: Callable[..., None] = kind.__init__

    @functools.wraps(made)
    def init(self: _G, *unnamed: object, **given: Any) -> None:
        wrong = [name for name in given if name not in fields(kind)]
        if unnamed or wrong:
            raise TypeError(_arguments.no_field(kind.__name__, wrong, FIELDS))
        made(self, **{name: value for name, value in given.items() if value is not None})

    kind.__init__ = init  # type: ignore[assignment]
    return kind


@_by_name
@dataclass(frozen=True, kw_only=True, repr=False)
class Data(_Group):
    """What is read, beyond the URI, the features, the filter and the order of rows.

        penstock.DataLoader(uri, ..., data=penstock.Data(partitions="day < '2026-02-01'", provenance=True))

    Args:
        partitions: chooses files by the hive keys of their paths, as filter= of the loader chooses rows by columns. By
            default all files are read.
        storage: the storage profile of the fleet that opens the URIs. By default the one that is called "default".
        file_format: how files are read that are neither Parquet nor Arrow: the name of their format ("jsonl"), or a
            dict with its options and the types of columns that its files do not say, as
            {"name": "jsonl", "columns": {"user.age": "int64"}}. By default their names and their content tell.
        global_batch_size: rows of a step over all ranks, which share it evenly. It takes the place of batch_size= of
            the loader, which is rows per rank.
        lanes: of order="deterministic", 8,192 at most. Each rank has equally many, so the sequence of rows is the same
            for every world size that divides them. By default they are as many as the ranks that open the session.
        provenance: True has batches say of each row which row of which file it was, as batch.files and batch.rows;
            with a function that makes rows, batch.parts numbers those of one row.
        on_error: what happens to rows that no worker can read. "fail", the default, ends the session with DataError.
            {"skip_rows": N} leaves out, and counts, up to N rows of each epoch that are bad by themselves: a damaged
            picture, an exception of a Python function by rows. {"skip": N} leaves out, and reports, up to N extents:
            row groups of Parquet, record batches of Arrow, some 4 MiB of other files.
        accept_code_change: True goes on with a session, or a state, that other Python functions made, of other code or
            of other packages. By default that is refused, with what differs.
        try_functions: False opens the session without a trial of Python functions on the first rows. Say so where this
            machine lacks what they need, and the workers have it.

    Raises:
        SpecError: a value that no spec can hold. The master checks names and expressions.
    """

    partitions: str = ""
    storage: str = ""
    file_format: str | Mapping[str, Any] = ""
    global_batch_size: int | None = None
    lanes: int | None = None
    provenance: bool = False
    on_error: str | Mapping[str, int] = "fail"
    accept_code_change: bool = False
    try_functions: bool = True

    def __post_init__(self) -> None:
        for name in ("partitions", "storage"):
            check_text(name, getattr(self, name))
        for name in ("global_batch_size", "lanes"):
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name), least=1)
        skipped(self.on_error)
        format_message(self.file_format)


@_by_name
@dataclass(frozen=True, kw_only=True, repr=False)
class Ranks(_Group):
    """Who reads, where rank= and world_size= of the loader do not say it, and what part of the fleet it gets.

        mesh = init_device_mesh("cuda", (4, 2), mesh_dim_names=("dp", "tp"))
        penstock.DataLoader(uri, ..., ranks=penstock.Ranks(mesh=mesh))

    Args:
        process_group: this rank's data-parallel group of torch.distributed, for jobs whose ranks share replicas. Ranks
            of one replica get the same batches, and iterate in lock-step. Every rank of the job makes the loader. By
            default each rank reads rows of its own.
        mesh: in place of process_group, a DeviceMesh. Its dimensions named dp..., data..., fsdp... and hsdp... count.
        share: of the workers, where sessions compete for them. It is a weight, 1 by default, or
            {"weight": 2, "min_workers": 1, "max_workers": 8}. It counts when the session is opened for the first time.
        join_timeout: seconds that a rank waits for ranks that have not opened the loader, where all make equally many
            steps. Then it raises RanksAbsent.
    """

    process_group: Any = None
    mesh: Any = None
    share: float | Mapping[str, float] | None = None
    join_timeout: float = 600.0

    def __post_init__(self) -> None:
        share(self.share)
        check_positive("join_timeout", self.join_timeout, "seconds")


@_by_name
@dataclass(frozen=True, kw_only=True, repr=False)
class Connection(_Group):
    """How the loader reaches the fleet, and how batches come from there.

        penstock.DataLoader(uri, ..., master="penstock:7070", connection=penstock.Connection(token_file="token"))

    All of it is about the fleet that master= names, but for memory=. Files are read anew when they change, so that
    tokens and certificates may be renewed while the job runs. What the environment has counts once a loader is made.

    Args:
        token: the token that the fleet's masters ask for. repr() does not show it.
        token_file: in place of token, a file that has it. By default the file that PENSTOCK_TOKEN_FILE names, if any.
        tls: True trusts the system's authorities. With ca or cert the connection is by TLS, too. By default it is not.
        ca: a file (PEM) with the authorities that the fleet's certificates come from. By default that of
            PENSTOCK_TLS_CA.
        cert: a file (PEM) with this process's certificate, where the fleet asks for one.
        key: a file (PEM) with the key of cert.
        server_name: the name that the fleet's certificate bears, where that is not each port's host, as on Kubernetes.
            By default that of PENSTOCK_TLS_SERVER_NAME, else the host.
        namespace: of the session, where the token is for several. By default the token's own, or "default".
        zone: has batches come from workers of the same zone first.
        compression: of batches on their way from workers, for slow links: "none", "lz4" or "zstd".
        connect_timeout: seconds without a master until opening a session raises MasterUnreachable. timeout= of the
            loader is for a session that is open.
        memory: bytes that streams may hold in each worker of the fleet that a loader without master= starts. More of
            it hides slower storage. By default it is a part of the machine's memory.
    """

    token: str | None = field(default=None, repr=False)
    token_file: File | None = None
    tls: bool = False
    ca: File | None = None
    cert: File | None = None
    key: File | None = None
    server_name: str | None = None
    namespace: str | None = None
    zone: str = ""
    compression: str = "none"
    connect_timeout: float = 30.0
    memory: int | None = None

    def __post_init__(self) -> None:
        if self.token is not None and self.token_file is not None:
            raise UsageError("token= and token_file= exclude each other; give one of them")
        if self.token is not None and not isinstance(self.token, str):  # which is not shown
            kind = type(self.token).__name__
            raise UsageError(f"token= is a {kind}; give text, or the file that has it as token_file=")
        for name in ("token_file", "ca", "cert", "key"):
            if not isinstance(getattr(self, name), (str, os.PathLike, type(None))):
                raise UsageError(f"{name}={getattr(self, name)!r:.80}: give a file's path")
        for name in ("server_name", "namespace", "zone"):
            if not isinstance(getattr(self, name), (str, type(None))):
                raise UsageError(f"{name}={getattr(self, name)!r:.80}: give text")
        if self.compression not in COMPRESSIONS:
            raise UsageError(f"compression={self.compression!r}: give one of {', '.join(map(repr, COMPRESSIONS))}")
        check_positive("connect_timeout", self.connect_timeout, "seconds")
        if self.memory is not None and not counts(self.memory, 1):
            raise UsageError(f"memory={self.memory!r}: give a number of bytes above 0, such as 1 << 30")


GROUPS: Mapping[str, type[_Group]] = {"data": Data, "ranks": Ranks, "connection": Connection}
"""By the arguments that they are given as."""


def fields(kind: type[_Group]) -> tuple[str, ...]:
    """The names of a group's fields."""
    return tuple(f.name for f in dataclasses.fields(kind))


FIELDS = {argument: (kind.__name__, fields(kind)) for argument, kind in GROUPS.items()}
"""The name and the fields of each group, by the argument that it is given as."""


def group(argument: str, given: object, kind: type[_G]) -> _G:
    """What an argument of the loader gives; None is the group as it is by default."""
    if given is None:
        return kind()
    if not isinstance(given, kind):
        raise UsageError(_arguments.no_group(argument, given, FIELDS))
    return given


def skipped(policy: object) -> dict[str, int] | None:
    """What on_error= allows to leave out: extents by "skip", bad rows by "skip_rows"; None where they end it."""
    if policy == "fail":
        return None
    given = dict(policy) if isinstance(policy, Mapping) else {}
    for most in given.values():
        if not isinstance(most, numbers.Integral) or isinstance(most, bool) or most < 0:
            given = {}
            break
    if not given or not given.keys() <= {"skip", "skip_rows"}:
        raise SpecError(
            f'on_error: found {policy!r}; give "fail", or {{"skip_rows": N}} for at most N bad rows of an epoch, or '
            '{"skip": N} for at most N extents, or both'
        )
    return {name: int(most) for name, most in given.items() if most > 0} or None


def format_message(given: object) -> dict[str, Any] | None:
    """The argument file_format= as specs have it; None where files tell how they are read."""
    if isinstance(given, str):
        return {"name": given} if given else None
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise SpecError(f'file_format: found {given!r:.80}; give a name, or a dict such as {{"name": "jsonl"}}')
    options = dict(given)
    name, columns = options.pop("name", ""), options.pop("columns", {})
    check_text("file_format: name", name)
    if not isinstance(columns, Mapping):
        raise SpecError(f'file_format: columns: found {columns!r:.80}; give a dict such as {{"user.age": "int64"}}')
    for column, kind in columns.items():
        check_text("file_format: the name of a column", column)
        check_text(f"file_format: column {column}", kind)
    return {
        "name": name, "columns": dict(columns),
        "options": {option: value_of(value, f"file_format: {option}") for option, value in options.items()},
    }  # fmt: skip


def share(given: object) -> dict[str, float] | None:
    """The argument share= in full, of whose max_workers 0 is no maximum."""
    if given is None:
        return None
    whole: dict[str, Any] = {"weight": 1.0, "min_workers": 0, "max_workers": 0}
    try:
        whole.update(given if isinstance(given, Mapping) else {"weight": given})
        weight, fewest, most = float(whole["weight"]), int(whole["min_workers"]), int(whole["max_workers"])
    except (TypeError, ValueError):
        weight, fewest, most = 0.0, 0, 0
    if len(whole) != 3 or not 0 < weight <= 1e6 or fewest < 0 or most < 0 or 0 < most < fewest:
        raise UsageError(
            f'share={given!r}: give a weight above 0, or {{"weight": 2, "min_workers": 1, "max_workers": 8}}, '
            "where max_workers is not below min_workers"
        )
    return {"weight": weight, "min_workers": fewest, "max_workers": most}


def counts(value: object, least: int) -> bool:
    """Whether it is an integer, and no less than that."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool) and int(value) >= least


def check_positive(name: str, value: object, unit: str) -> None:
    """Refuses what is no number above 0."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or value <= 0:
        raise UsageError(f"{name}={value!r}: give a number of {unit} above 0")
