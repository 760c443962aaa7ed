"""The whole comparison on little data, with systems that need neither torch nor Ray nor TensorFlow; and its parts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from peers import columnar, outputs
from peers import plan as plan_module
from peers.plan import Plan
from peers.recipe import Recipe

HERE = Path(__file__).parents[1]


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    penstock = os.environ.get("PENSTOCK_BINARY")
    if penstock is None:
        penstock = str(tmp_path / "penstock")
        subprocess.run(["go", "build", "-o", penstock, "."], cwd=HERE.parents[1], check=True)
    peers = os.environ.get("PEERS_BINARY")
    if peers is None:
        peers = str(tmp_path / "peers")
        subprocess.run(["go", "build", "-o", peers, "."], cwd=HERE, check=True)
    return [
        sys.executable, "-m", "peers", "--systems", "twin,onbox-numpy,go", "--workloads", "rm1", "--repeats", "1",
        "--check-rows", "6000", "--rows", "9000", "--no-tune", "--penstock", penstock, "--peers", peers, "--data",
        str(tmp_path / "data"), "--results", str(tmp_path / "results"),
    ]  # fmt: skip


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(HERE)}
    return subprocess.run(command, env=environment, text=True, capture_output=True, check=False)


def test_compares(command: list[str], tmp_path: Path) -> None:
    change = {"dense": 5, "sparse": 3, "length": 4, "generated": 2, "borders": 9, "batch_size": 700, "group_rows": 1000}
    done = run([*command, "--change", json.dumps(change)])
    assert done.returncode == 0, done.stderr
    assert "same outputs in 6000 rows" in done.stderr
    results = tmp_path / "results"
    raw = json.loads((results / "peers.json").read_text())
    (found,) = raw["workloads"]
    for system in ("twin", "onbox-numpy", "go"):
        (measured,), (paced,) = found["full"][system], found["paced"][system]
        assert measured["cpu_per_million"] > 0 and measured["peak_memory"] > 1 << 20 and measured["first_seconds"] > 0
        assert 0 <= paced["stall"] <= 1
    report = (results / "peers.md").read_text()
    assert "5 dense, 3 sparse features of 4 ids on average, 2 generated" in report
    assert "| Penstock, Go, fleet | pyarrow and numpy alone |" in report
    assert "others were not tried" in report and "of whose settings" not in report


def test_unknown_fields_are_errors(command: list[str]) -> None:
    done = run([*command, "--change", '{"lenght": 5}'])
    assert done.returncode != 0 and 'unknown field "lenght"' in done.stderr


def test_what_is_tried_depends_on_the_cpus() -> None:
    plan = Plan.parse(["--cpus", ",".join(map(str, range(8)))])
    assert {s["num_workers"] for s in plan.settings("dataloader")} == {4, 8, 16}
    assert plan.results == plan_module.REPOSITORY / "bench/results"
    for partial in (["--no-tune"], ["--rows", "5"], ["--workloads", "rm1"]):
        assert plan_module.REPOSITORY not in Plan.parse(partial).results.parents
    assert len(Plan.parse(["--no-tune"]).settings("ray")) == 1


def test_missing_systems_are_errors(command: list[str]) -> None:
    command[command.index("twin,onbox-numpy,go")] = "twin,nothing"
    done = run(command)
    assert done.returncode != 0 and "there is no nothing" in done.stderr
    if subprocess.run([sys.executable, "-c", "import ray"], capture_output=True, check=False).returncode:
        command[command.index("twin,nothing")] = "twin,ray"
        done = run(command)
        assert done.returncode != 0 and "needs the module ray" in done.stderr


def recipe(**changes: object) -> Recipe:
    fields: dict[str, object] = {
        "row": "row", "label": "label", "dense": ["x", "y"], "fill": True, "generated": [("b", 1)],
        "borders": np.array([1, 2.5], np.float32), "log": True, "sparse": ["s"], "salt": 0, "buckets": 100,
        "photo": "", "crop": 0, "random": False, "batch_size": 8,
    }  # fmt: skip
    return Recipe(**fields | changes)  # type: ignore[arg-type]


def batch() -> pa.RecordBatch:
    return pa.record_batch(
        {
            "row": pa.array([0, 1, 2]), "label": pa.array([1, 0, 1], pa.int32()),
            "x": pa.array([0, None, 1], pa.float32()), "y": pa.array([1, 2, 3], pa.float32()),
            "s": pa.array([[0, 1], [], [2, 3, 4]]),
        }
    )  # fmt: skip


def test_transform() -> None:
    c = columnar.transform(recipe(), batch())
    log2 = np.float32(np.log(2))
    assert np.allclose(c.dense, [[0, log2], [0, np.log(3)], [log2, np.log(4)]])
    assert c.dense.flags.c_contiguous
    assert c.values.tolist() == [6, 60, 54, 54, 9, 0, 1, 2]  # of sigrid_hash: values of bench/reference's tests
    assert c.offsets.tolist() == [[0, 2, 2, 5], [0, 1, 2, 3]] and c.starts.tolist() == [0, 5, 8]
    as_they_are = columnar.transform(recipe(fill=False, log=False, buckets=0, generated=[]), batch())
    assert np.isnan(as_they_are.dense[1, 0]) and as_they_are.values.tolist() == [0, 1, 2, 3, 4]


def test_transpose() -> None:
    columns = np.arange(100 * 130, dtype=np.float32).reshape(100, 130)
    assert (columnar.transpose(columns) == columns.T).all()


def test_differences() -> None:
    wanted: dict[str, columnar.Array] = {
        "row.values": np.arange(3), "dense.values": np.array([[1], [np.nan], [-0.0]], np.float32),
        "s.values": np.array([1, 2]),
    }  # fmt: skip
    near = {
        **wanted,
        "dense.values": np.array([[np.nextafter(np.float32(1), np.float32(2))], [np.nan], [0]], np.float32),
    }
    assert outputs.differences(wanted, near) == [] and outputs.farthest(wanted, near) == (1, 0)
    for name, bad in {
        "dense.values": np.array([[1.001], [np.nan], [0]], np.float32), "s.values": np.array([1, 3]),
        "row.values": np.arange(4),
    }.items():  # fmt: skip
        assert len(outputs.differences(wanted, {**wanted, name: bad})) == 1, name
    assert outputs.differences(wanted, {"row.values": wanted["row.values"]}) == [
        "dense.values is missing", "s.values is missing",
    ]  # fmt: skip


def test_one_wrong_picture_is_a_difference() -> None:
    wanted = {"photo.values": np.full((1000, 300), 100, np.uint8)}
    near = {"photo.values": wanted["photo.values"] + np.uint8(1)}
    assert outputs.differences(wanted, near) == [] and outputs.farthest(wanted, near) == (0, 1)
    wrong = {"photo.values": wanted["photo.values"].copy()}
    wrong["photo.values"][7] = 180
    (problem,) = outputs.differences(wanted, wrong)
    assert "pixels of row 7 differ by 80.00" in problem


def test_dumps_are_in_the_order_of_rows(tmp_path: Path) -> None:
    from peers.subject import Batch

    writer = outputs.Writer(str(tmp_path))
    for rows, values, offsets in (([2, 0], [7, 8, 9], [0, 2, 3]), ([1], [5], [0, 1])):
        label = np.array(rows, np.int32)
        dense = np.array([[r, -r] for r in rows], np.float32)
        writer.add(Batch(np.array(rows), label, dense, {"s": (np.array(values), np.array(offsets, np.int32))}))
    writer.close()
    loaded = outputs.load(tmp_path)
    assert loaded["dense.values"].tolist() == [[0, 0], [1, -1], [2, -2]]
    assert loaded["s.values"].tolist() == [9, 5, 7, 8] and loaded["s.lengths"].reshape(-1).tolist() == [1, 1, 2]
