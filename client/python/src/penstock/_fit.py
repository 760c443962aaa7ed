"""penstock.fit: what transforms ask of the data. `penstock fit` computes it, with a fleet or without one.

fit() may be called from any thread, and changes nothing but the file that it writes.
"""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock import _arguments, _binary, _bundle, _onbox
from penstock import spec as builders
from penstock._op import Transform, functions_of
from penstock._opening import addresses
from penstock._paths import absolute
from penstock._values import check_integer, check_text
from penstock.errors import DataError, SpecError, UsageError
from penstock.features import Features
from penstock.groups import Data


@dataclass(frozen=True)
class Statistic:
    """A statistic in a fitted file.

    Attributes:
        of: what it is of, in words: a column, or how a feature is made of columns.
        statistic: "moments", "quantiles", "most_frequent" or "vocabulary".
        values: by their names, such as "mean" and "std"; None where there are no values. A vocabulary has none here.
        size: of a vocabulary.
        error: a bound of the relative error of quantiles; 0.0 if they are exact.
    """

    of: str
    statistic: str
    values: Mapping[str, Any]
    size: int | None = None
    error: float = 0.0


@dataclass(frozen=True)
class Fitted:
    """What penstock.fit wrote.

    Attributes:
        uri: of the file, as fitted= takes it.
        digest: of all that is in it. Equal data and transforms make an equal one.
        rows: how many were read, in each of the passes.
        passes: how often the data were read.
        statistics: all that is in the file.
    """

    uri: str
    digest: str
    rows: int
    passes: int
    statistics: tuple[Statistic, ...]

    def __fspath__(self) -> str:
        return self.uri


@_arguments.optional
def fit(
    uri: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
    *,
    out: str | os.PathLike[str] | None = None,
    split: str = "",
    subset: str = "",
    spec: str | os.PathLike[str] | None = None,
    transforms: Transform | Sequence[Transform] = (),
    filter: str = "",  # noqa: A002
    data: Data | None = None,
    master: str | Sequence[str] | None = None,
    memory: int | None = None,
    folder: str | os.PathLike[str] | None = None,
    progress: bool = True,
) -> Fitted:
    """Computes what transforms ask of the data, and writes it to a file, which loaders then name.

        transforms = [
            penstock.map_id("cat_*", vocabulary="fit", min_count=10),
            penstock.scale_to_z_score("int_*", of="fit"),
        ]
        fitted = penstock.fit("clicks/", transforms=transforms, filter="day < 20", out="clicks.fitted.parquet")
        loader = penstock.DataLoader("clicks/", transforms=transforms, fitted=fitted, ...)

    Statistics are of the rows that the filter keeps, nulls and NaN left out; elements of lists count one by one. The
    same rows give the same file, bit for bit, whatever reads them. A statistic of what depends on another one takes
    another pass. A fit that was stopped goes on when it is called again.

    Args:
        uri: as DataLoader takes it. This process must be able to read it.
        split: of a folder, the files of a split, as DataLoader takes it.
        subset: the subset of the split.
        out: the file to write, a path or a URI, outside of the dataset. By default the one that a spec names.
        spec: a spec file, as DataLoader takes it, in place of uri, split, subset, transforms, filter and data.
        transforms: as DataLoader takes them. Python functions run on this machine, or on the fleet's workers.
        filter: chooses rows, as that of the loader that trains.
        data: a penstock.Data: partitions, storage and on_error.
        master: "host:port" of any master of the fleet that reads. None starts a fleet in a process on this machine.
            Tokens and certificates are those of PENSTOCK_TOKEN_FILE and PENSTOCK_TLS_....
        memory: bytes of counted values; 1 GiB by default. What is more goes to the folder.
        folder: for checkpoints, and for what is more than memory. By default one in the user's cache.
        progress: shows on a terminal how far it is.

    Raises:
        SpecError: an argument, or a transform, is wrong.
        DataError: the dataset cannot be read, or the file cannot be written.
        UsageError: there is no penstock binary here.
    """
    if (uri is None) == (spec is None):
        raise UsageError("fit: say what to read: a URI and transforms=, or spec= with a spec file")
    if uri is not None and out is None:
        raise UsageError("fit: out= names the file to write, such as out='clicks.fitted.parquet'")
    if spec is not None and (transforms != () or filter or data is not None or split or subset):
        raise UsageError("fit: a spec says all of it; leave out split=, subset=, transforms=, filter= and data=")
    check_text("filter", filter)
    if memory is not None:
        check_integer("memory", memory, least=1)
    binary = _binary.find()
    if binary is None:
        raise UsageError(_binary.advice())
    flags = ["--output=json", *(f"--master={m}" for m in addresses(master))]
    if master is None:
        flags += ["--local", *_onbox.interpreter_flags()]
    given = {"out": None if out is None else absolute(out), "memory": memory, "folder": folder}
    flags += [f"--{name}={value}" for name, value in given.items() if value is not None]
    with tempfile.TemporaryDirectory(prefix="penstock-fit-") as scratch:
        path: str = os.path.join(scratch, "spec")  # noqa: PTH118  (flags are texts)
        is_file = spec is not None and _is_file(spec)
        if spec is not None and is_file:
            path = os.fspath(spec)
        else:
            text = (
                builders.read_text(spec)
                if spec is not None
                else _message(uri, (split, subset), transforms, filter, data, flags)
            )
            with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123
                file.write(text)
        return _run([os.fspath(binary), "fit", *flags, "--", path], progress, not is_file)


def _is_file(spec: str | os.PathLike[str]) -> bool:
    return not isinstance(spec, str) or ("\n" not in spec and not spec.lstrip().startswith("{"))


def _message(
    uri: Any,
    part: tuple[str, str],
    transforms: Any,
    filter: str,  # noqa: A002
    data: Data | None,
    flags: list[str],
) -> str:
    steps = list(transforms) if isinstance(transforms, Iterable) else [transforms]
    made = builders.build(
        uri,
        Features(()),
        data=data or Data(),
        batch_size=1,
        transforms=steps,
        filter=filter,
        split=part[0],
        subset=part[1],
    )
    functions = builders.by_value(functions_of(steps))
    code = base64.b64encode(_bundle.pickled(functions)).decode() if functions else None
    flags.append("--message")
    return json.dumps({"spec": made, "code": code})


def _run(command: list[str], progress: bool, made: bool) -> Fitted:
    """Runs `penstock fit`. Its error is the last it says, without the name of a spec that was made here."""
    show = progress and sys.stderr is not None and sys.stderr.isatty()
    try:
        with tempfile.TemporaryFile() as said:
            done = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=None if show else said, check=False, stdin=subprocess.DEVNULL
            )
            said.seek(0)
            lines = said.read().decode(errors="replace")
    except OSError as err:
        raise DataError(f"fit: {err}") from err
    if done.returncode != 0:
        words = lines[lines.rfind("penstock: ") :].removeprefix("penstock: ").strip()
        if made:
            words = words.removeprefix(f"{command[-1]}:\n").replace(command[-1], "the spec")
        of_spec = r"^transforms|transforms\[|filter|names no file to write"
        error = SpecError if re.search(of_spec, words, re.MULTILINE) else DataError
        raise error(words or f"penstock fit ends with {done.returncode}; it has said why")
    found = json.loads(done.stdout)
    return Fitted(
        found["uri"], found["digest"], found["rows"], found["passes"],
        tuple(
            Statistic(s["of"], s["statistic"], _values(s), s.get("size"), s.get("error", 0.0))
            for s in found["statistics"]
        ),
    )  # fmt: skip


def _values(statistic: dict[str, Any]) -> dict[str, Any]:
    """Figures have their own types: JSON writes 1.0 as 1, and has no infinities, which are texts."""
    kind, values = statistic["kind"], statistic.get("values", {})

    def figure(name: str, value: Any) -> Any:
        if value is None or kind == "binary" or name in {"values", "nulls", "nans", "infinite"}:
            return value
        return float(value) if kind.startswith("float") or name in {"mean", "std"} else value

    return {name: figure(name, value) for name, value in values.items()}
