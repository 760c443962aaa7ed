"""Transforms make of rows at hand what a session makes of a dataset's, bit for bit, and outlive what goes wrong."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import penstock
from penstock import _binary
from penstock.errors import Closed, DataError, Error, SpecError, UsageError
from tests.conftest import REPOSITORY

if TYPE_CHECKING:
    from tests.conftest import Dataset

pytestmark = pytest.mark.fleet

FEATURES = (
    penstock.dense("int_*", "scaled") + penstock.sparse("cat_*") + penstock.label("label", "sure")
    + penstock.padded("tail_1", length=3)
)  # fmt: skip
ONE = {"int_0": [1.5], "int_1": [None], "int_2": [0], "cat_0": [[3, 7]], "cat_1": [[]], "cat_2": [None], "cat_3": [[1]]}


@penstock.op(out={"scaled": penstock.float32})
def scaled(values: pa.Array) -> pa.Array:
    return pc.fill_null(pc.multiply(values, pa.scalar(0.5, pa.float32())), 0).cast(pa.float32())


@penstock.op(out=penstock.float32, by="rows", rng=True)
def noisy(value: float | None, rng: np.random.Generator) -> float | None:
    return None if value is None else value + rng.random()


def steps(*, training: bool) -> list[penstock.Transform]:
    """What a loader gets. With training, there is what rows are not served by."""
    noise = [noisy("int_1").training_only(), penstock.sample(0.5)] if training else []
    return [
        *noise,
        penstock.log1p("int_0"), scaled("int_2"), penstock.sigrid_hash("cat_*", max=1000),
        penstock.last_x("cat_1", 3, out="tail_1"), penstock.cast("label", "bool", out="sure"),
    ]  # fmt: skip


@pytest.fixture(autouse=True)
def binary(penstock_binary: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(_binary.VARIABLE, str(penstock_binary))
    return penstock_binary


def arrays(batch: penstock.Batch) -> dict[str, Any]:
    """All of a batch's."""
    out = {"dense": batch.dense, **{f"label {name}": array for name, array in batch.labels.items()}}
    for name, s in batch.sparse.items():
        out |= {f"{name} values": s.values, f"{name} offsets": s.offsets}
    for name, p in batch.padded.items():
        out |= {f"{name} values": p.values, f"{name} lengths": p.lengths}
    return out


def same(a: dict[str, Any], b: dict[str, Any]) -> list[str]:
    """Names of arrays that differ in a bit, or in their type."""
    assert a.keys() == b.keys()
    return [n for n in a if a[n].dtype != b[n].dtype or a[n].shape != b[n].shape or a[n].tobytes() != b[n].tobytes()]


def trained(dataset: Dataset) -> list[tuple[pa.Table, dict[str, Any]]]:
    """A session's batches with the rows that they are of."""
    data = penstock.Data(provenance=True)
    with penstock.DataLoader(
        dataset.uri, features=FEATURES, transforms=steps(training=False), batch_size=700, epochs=1, data=data,
        format="numpy", shuffle=True, seed=3, filter="label == 1",
    ) as loader:  # fmt: skip
        out = []
        for batch in loader:
            rows = [dataset.files[f].slice(r, 1) for f, r in zip(batch.files, batch.rows, strict=True)]
            out.append((pa.concat_tables(rows), {n: a.copy() for n, a in arrays(batch).items()}))
        return out


def test_rows_get_the_bits_of_training(dataset: Dataset) -> None:
    for given in (None, dataset.files[0].schema, dataset.dir / "part-000.parquet"):
        with penstock.Transforms(
            features=FEATURES, transforms=steps(training=True), schema=given, format="numpy"
        ) as transforms:
            for table, want in trained(dataset):
                assert same(arrays(transforms(table)), want) == []
                one = table.slice(5, 1).to_pylist()
                if given is not None:  # else integers of Python have 64 bits
                    assert same(arrays(transforms(one)), arrays(transforms(table.slice(5, 1)))) == []


def test_labels_that_are_not_known_are_left_out(
    dataset: Dataset, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "spec.yaml").write_text(
        "dataset: {uri: s3://nowhere/}\nbatch_size: 10\nfilter: label == 1\n"
        "features: [{dense: int_*}, {sparse: cat_0}, {label: label}]\n"
    )
    with penstock.Transforms(tmp_path / "spec.yaml", schema=dataset.files[0].schema) as transforms:
        with caplog.at_level(logging.WARNING, "penstock"):
            batch = transforms(ONE)
            assert transforms([{**dict.fromkeys(ONE), "int_0": 2}]).dense[0, 0] == 2
        assert [r.getMessage() for r in caplog.records] == ["the rows lack the columns of label, which is left out"]
        assert list(batch.labels) == [] and batch.sparse["cat_0"].values.tolist() == [3, 7]
        assert transforms({**ONE, "label": [1]}).label.tolist() == [1]
        assert len(transforms(dataset.files[0].slice(0, 0))) == 0
    with pytest.raises(Closed):
        transforms(ONE)
    with penstock.Transforms(tmp_path / "spec.yaml", outputs="dense") as only:
        with pytest.raises(SpecError, match="stands for int_1, of which the rows have only nulls, and so no type"):
            only({"int_0": [1.5], "int_1": [None]})
        assert only({"int_0": [1.5, 2.0], "int_1": [None, 1.0]}).dense.shape == (2, 2)


@pytest.mark.parametrize(
    ("rows", "kind", "words"),
    [
        ({**ONE, "int_0": ["x"]}, DataError, "column int_0, which in training is float: row 0: "),
        ({**ONE, "int_0": 1.5}, DataError, "column int_0 is one float; give a list of values, or a list of rows"),
        ({**ONE, "cat_3": "abc"}, DataError, "column cat_3 is one str; give a list of values, or a list of rows"),
        ({**ONE, "label": np.int64(1)}, DataError, "column label is one int64; give a list of values"),
        ({**ONE, "label": [1, 2]}, DataError, "columns have different numbers of rows: int_0 1,"),
        ({**ONE, "label": [1.5]}, DataError, "column label, which in training is int32: row 0: "),
        ({**ONE, "label": [None]}, DataError, "rows row 0 is null, and a label of type int32 has no value for that"),
        ({n: v for n, v in ONE.items() if n != "cat_3"}, SpecError, "the rows have no column cat_3; give it"),
        (pa.table({**ONE, "int_0": pa.array([1.5])}), DataError, "column int_0 is float64 here, which cannot be read"),
        ("x", UsageError, "rows are a str; give an Arrow table"),
    ],
)
def test_what_is_wrong_with_rows(dataset: Dataset, rows: Any, kind: type[Error], words: str) -> None:
    """It is said, and the next rows are served."""
    features = penstock.dense("int_*") + penstock.sparse("cat_*") + penstock.label("label")
    with penstock.Transforms(features=features, schema=dataset.files[0].schema) as transforms:
        with pytest.raises(kind) as raised:
            transforms(rows)
        assert words in str(raised.value)
        assert transforms(ONE).dense[0, 0] == 1.5


def test_what_draws_or_has_mistakes_is_refused_at_once(dataset: Dataset) -> None:
    schema = dataset.files[0].schema
    with pytest.raises(SpecError, match=r"the function noisy draws at random.*training_only"):
        penstock.Transforms(features=penstock.dense("int_1"), transforms=noisy("int_1"), schema=schema)
    with pytest.raises(SpecError, match="no op lgo1p; nearest: log1p"):
        penstock.Transforms(features=penstock.dense("int_1"), transforms=penstock.op("lgo1p", "int_1"), schema=schema)
    step = penstock.log1p("int_1", out="x").training_only()
    with pytest.raises(SpecError, match="training_only: x is a feature of its own"):
        penstock.Transforms(features=penstock.dense("int_1"), transforms=step, schema=schema)
    with pytest.raises(UsageError, match="say what is applied"):
        penstock.Transforms()


@penstock.op(out=penstock.float32, by="rows")
def slow(value: float) -> float:
    while value > 0:  # until its process is ended
        pass
    return value


def test_functions_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They run in this program's interpreter, and on the command line in one that is named."""
    (tmp_path / "served.py").write_text(
        "import penstock\n@penstock.op(out=penstock.float32, by='rows')\ndef half(x):\n    return x / 2\n"
    )
    spec = tmp_path / "spec.yaml"
    spec.write_text(
        "dataset: {uri: s3://nowhere/}\nbatch_size: 10\nfeatures: [{dense: x}]\n"
        'transforms: [{op: python, call: "served:half", in: x, out: {x: float32}}]\n'
    )
    monkeypatch.syspath_prepend(tmp_path)
    with penstock.Transforms(spec) as transforms:
        assert transforms({"x": [3.0]}).dense.tolist() == [[1.5]]
    command = [_binary.find() or "", "apply", spec, "--output=json"]
    named = [f"--python=default={sys.executable}", f"--python-path=default={tmp_path}"]
    named.append(f"--python-path=default={REPOSITORY / 'client/python/src'}")
    for flags, out in ((named, '{"x":1.5}\n'), ([], "")):
        done = subprocess.run([*command, *flags], input='{"x": 3.0}', capture_output=True, text=True, check=False)
        assert done.stdout == out
        assert ("name one, as by --python default=python3" in done.stderr) == (not out), done.stderr


def test_what_was_fitted_and_joined_is_served(dataset: Dataset, tmp_path: Path) -> None:
    """By the file that training had, and by no other one."""
    spec, fitted, table = tmp_path / "spec.yaml", tmp_path / "fitted.parquet", tmp_path / "labels.parquet"
    pq.write_table(pa.table({"id": pa.array([1], pa.int32()), "popular": [0.25]}), table)
    spec.write_text(
        f"dataset: {{uri: {dataset.dir}/}}\nbatch_size: 500\nprovenance: true\nfitted: {fitted}\n"
        "features: [{label: label}, {dense: [int_*, popular]}, {sparse: cat_0}]\ntransforms:\n"
        f"  - {{op: lookup, in: label, table: {table}, key: id, columns: popular}}\n"
        "  - {op: map_id, in: cat_0, vocabulary: fit, max_size: 100}\n"
        "  - {op: fill_null, in: int_0, value: {fit: median}}\n  - {op: scale_to_z_score, in: int_*, of: fit}\n"
    )
    subprocess.run([_binary.find() or "", "fit", spec, "--local"], check=True, capture_output=True)
    with penstock.DataLoader(spec=spec, format="numpy") as loader:
        batch = next(iter(loader))
        rows = [dataset.files[f].slice(r, 1) for f, r in zip(batch.files, batch.rows, strict=True)]
        want = arrays(batch)
    with penstock.Transforms(spec, format="numpy") as transforms:
        assert same(arrays(transforms(pa.concat_tables(rows))), want) == []
    other = spec.read_text().replace(f"fitted: {fitted}", f"fitted: {{uri: {fitted}, digest: 'sha256:00'}}")
    with penstock.Transforms(other) as transforms, pytest.raises(SpecError, match="and the spec names sha256:00"):
        transforms(rows[0])
    step = penstock.scale_to_z_score("int_1", of="fit")
    with penstock.Transforms(
        features=penstock.dense("int_1"), transforms=step, fitted=fitted, format="numpy"
    ) as transforms:
        assert transforms(pa.concat_tables(rows)).dense[:, 0].tobytes() == want["dense"][:, 1].tobytes()
    fitted.unlink()
    with penstock.Transforms(spec) as transforms, pytest.raises(SpecError, match="compute it with `penstock fit`"):
        transforms(rows[0])


def test_a_process_that_ends_or_hangs_is_followed_by_another(dataset: Dataset) -> None:
    with penstock.Transforms(
        features=penstock.dense("int_0"), transforms=slow("int_0"), schema=dataset.files[0].schema, timeout=20.0
    ) as transforms:
        ok = {"int_0": [-1.0]}
        assert transforms(ok).dense.tolist() == [[-1.0]]
        first = transforms._child
        assert first is not None
        os.kill(first._process.pid, signal.SIGKILL)
        with pytest.raises(Error, match="`penstock apply-rows` ended by SIGKILL; its log"):
            transforms(ok)
        assert transforms(ok).dense.tolist() == [[-1.0]]
        second = transforms._child
        assert second is not None and second is not first
        transforms._timeout = 1.0
        with pytest.raises(Error, match="no answer came in 1 s; give fewer rows at once, or a longer timeout="):
            transforms({"int_0": [1.0]})
        assert second._process.returncode is not None
        transforms._timeout = 20.0
        assert transforms(ok).dense.tolist() == [[-1.0]]


def test_threads_and_forks(dataset: Dataset) -> None:
    with penstock.Transforms(features=penstock.dense("int_0"), schema=dataset.files[0].schema) as transforms:
        wrong: list[float] = []

        def serve(value: float) -> None:
            wrong.extend(value for _ in range(20) if transforms({"int_0": [value]}).dense[0, 0] != value)

        threads = [threading.Thread(target=serve, args=(float(i),)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []
        child = os.fork()
        if child == 0:
            status = 1
            try:
                status = int(transforms({"int_0": [5.0]}).dense[0, 0] != 5)
                transforms.close()
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        assert transforms({"int_0": [6.0]}).dense[0, 0] == 6


def test_more_rows_than_there_is_memory_for(dataset: Dataset) -> None:
    with penstock.Transforms(
        features=penstock.sparse("cat_0"), schema=dataset.files[0].schema, memory=1 << 20
    ) as transforms:
        with pytest.raises(DataError, match=r"take too much memory: .* give fewer rows at once, or more memory"):
            transforms({"cat_0": [list(range(300_000))]})
        assert transforms({"cat_0": [[1]]}).sparse["cat_0"].values.tolist() == [1]


def test_the_first_rows_decide_types(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": pa.array([1], pa.int8())}), tmp_path / "x.parquet")
    with penstock.Transforms(features=penstock.label("x")) as transforms:
        assert transforms({"x": [1.0]}).label.dtype == "float64"
        assert transforms({"x": [2]}).label.tolist() == [2.0]
    with penstock.Transforms(features=penstock.label("x"), schema=tmp_path / "x.parquet") as transforms:
        assert transforms({"x": [1]}).label.dtype == "int32"
        with pytest.raises(DataError, match="column x, which in training is int8: row 0: "):
            transforms({"x": [1000]})
