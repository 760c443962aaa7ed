"""The whole comparison on little data, with systems that need neither torch nor Ray nor TensorFlow; and its parts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from peers import columnar, meter, outputs, photographs, report
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
    done = run([*command, "--change", json.dumps(change), "--profile", "1"])
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
    assert "5 dense features, 4.88% of whose values are null; 3 sparse features of 4 ids on average; 2 gen" in report
    assert "| Penstock, Go, fleet | pyarrow and numpy alone |" in report and "Outputs of 6,000 rows were" in report
    assert "others were not tried" in report and "of whose settings" not in report and "of all settings" not in report
    assert "| control |" in report and "| trainer |" in report and found["profiles"]["go"]["rows"] > 0
    assert f"numpy {np.__version__}" in report and f"pyarrow {pa.__version__}" in report


def test_a_system_that_fails_is_left_out(command: list[str], tmp_path: Path) -> None:
    no_trainer = tmp_path / "no-trainer"
    at = command.index("--peers") + 1
    no_trainer.write_text(f'#!/bin/sh\n[ "$1" = make ] && exec {command[at]} "$@"\necho no trainer >&2; exit 3\n')
    no_trainer.chmod(0o755)
    command[at] = str(no_trainer)
    command[command.index("twin,onbox-numpy,go")] = "go,twin"  # what the others are compared with is another then
    done = run([*command, "--workloads", "rm1,scan"])
    assert done.returncode == 1, done.stderr
    assert "rm1: Penstock, Go, fleet failed and is left out: workers 1: ended with 1; the last it said:" in done.stderr
    assert [line.split(":")[1] for line in done.stderr.splitlines()[-2:]] == [" rm1", " scan"]
    raw = json.loads((tmp_path / "results/peers.json").read_text())
    for found in raw["workloads"]:
        assert list(found["full"]) == list(found["paced"]) == list(found["off"]) == ["twin"]
        assert "no trainer" in found["failed"]["go"]
    text = (tmp_path / "results/peers.md").read_text()
    assert text.count("Penstock, Go, fleet failed: workers 1: ended with 1;") == 2 and "| Penstock, Go" not in text


def test_systems_that_are_never_done_fail(command: list[str], tmp_path: Path) -> None:
    done = run([*command, "--timeout", "0.05", "--check-rows", "0"])
    assert done.returncode == 1 and "not done in 0.1 seconds (--timeout)" in done.stderr
    text = (tmp_path / "results/peers.md").read_text()
    assert text.count(" failed: ") == 3 and "| system |" not in text


def test_unknown_fields_are_errors(command: list[str]) -> None:
    done = run([*command, "--change", '{"lenght": 5}'])
    assert done.returncode != 0 and 'unknown field "lenght"' in done.stderr and "Traceback" not in done.stderr


def test_what_is_tried_depends_on_the_cpus() -> None:
    plan = Plan.parse(["--cpus", ",".join(map(str, range(8)))])
    assert {s["num_workers"] for s in plan.settings("dataloader")} == {4, 8, 16}
    assert len(Plan.parse(["--no-tune"]).settings("ray")) == 1


def test_only_whole_runs_are_published() -> None:
    for whole in ([], ["--passes", "3"], ["--repeats", "5"], ["--timeout", "9"]):
        assert Plan.parse(whole).results == plan_module.REPOSITORY / "bench/results", whole
    for partial in (
        "--no-tune", "--rows=5", "--workloads=rm1", "--systems=go", '--change={"null": 0}', "--repeats=2", "--cpus=0",
        "--check-rows=0", "--check-rows=100", "--trainer-rows=1000",
    ):  # fmt: skip
        assert plan_module.REPOSITORY not in Plan.parse([partial]).results.parents, partial


@pytest.mark.parametrize("wrong", ["--rows=0", "--repeats=0", "--passes=0", "--passes=-1", "--check-rows=-1"])
def test_numbers_that_are_too_small_are_errors(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        Plan.parse([wrong])
    assert "is less than" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (["--workloads=rm1,rm3"], "there is no rm3; there are rm1"), (["--workloads=rm1,rm1"], "name each once"),
        (["--cpus=0-1"], "no list of numbers"),
        (["--change=[1]"], "no JSON object"), (["--trainer-rows=-5"], "is less than"),
        (["--systems=twin,floor"], "give --check-rows 0"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_told_at_once(wrong: list[str], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        Plan.parse(wrong)
    assert why in capsys.readouterr().err


def test_a_workload_is_added_to_others(command: list[str], tmp_path: Path) -> None:
    command[command.index("twin,onbox-numpy,go")] = "twin"
    for workload, more in (("scan", []), ("rm1", ["--add"]), ("scan", ["--add", "--check-rows", "0"])):
        done = run([*command, "--workloads", workload, *more])
        assert done.returncode == 0, done.stderr
    raw = json.loads((tmp_path / "results/peers.json").read_text())
    assert [found["workload"]["name"] for found in raw["workloads"]] == ["rm1", "scan"]
    assert [found["compared_rows"] for found in raw["workloads"]] == [6000, 0]
    text = (tmp_path / "results/peers.md").read_text()
    assert text.count("Outputs were not compared.") == 2 and "--workloads rm1 --add`; Penstock" in text
    assert text.count("Passes of all systems take less than 2 seconds") == 2


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


def result(**changes: object) -> dict[str, Any]:
    """One of `peers make`, on which every system failed."""
    workload = {
        "name": "w", "rows": 16384, "dense": 0, "null": 0, "sparse": 0, "length": 0, "generated": 0, "borders": 0,
        "transform": True, "width": 0, "height": 0, "crop": 0, "random": False, "batch_size": 64, "file_rows": 1024,
        "group_rows": 256,
    }  # fmt: skip
    return {
        "workload": workload | changes, "bytes": 3 << 30,
        "run": {"arguments": "--rows 16384", "load": 0.5, "penstock": "p"},
        "off": {}, "compared_rows": 0, "trainer_rows": 0.0, "tried": {}, "full": {},
        "paced": {}, "failed": {"go": "workers 1: it broke\nat length"},
    }  # fmt: skip


def test_reports_name_what_was_measured() -> None:
    where = {
        "cpu": "a CPU", "cpus": [0], "memory_gib": 1, "kernel": "1", "go": "go1",
        "python": "3", "versions": {"pillow": "13.0.0"}, "meter": "m", "repeats": 3, "passes": 1, "tune": True,
    }  # fmt: skip
    pictures = result(width=500, height=375, crop=224, random=True)
    columns = result(dense=2, null=512, sparse=1, length=3, transform=False, file_rows=0)
    text = report.markdown(where, [pictures, columns], [])
    assert (
        "16,384 rows, 3,072 MiB of Parquet (pictures not compressed): JPEG pictures of 500 x 375, random parts resized "
        "to 224 x 224; files of 1,024 rows; row groups of 256; batches of 64."
    ) in text
    assert (
        "(zstd): 2 dense features, 50% of whose values are null; 1 sparse features of 3 ids on average; no transforms; "
        "row groups of 256; batches of 64."
    ) in text
    assert "Arguments: `--rows 16384`; Penstock p; load of the machine when it began: 0.5.\n" in text
    assert "pillow 13.0.0" in text and "Penstock, Go, fleet failed: workers 1: it broke\n" in text


def test_the_trainer_is_half_as_fast_as_the_median_system() -> None:
    from peers.__main__ import median_rate
    from peers.runner import Found
    from peers.subject import Pass

    found = {rate: [Found("s", {}, 0, 0, [Pass(rows=rate, seconds=1)], 0, {})] for rate in (1, 2, 7, 9)}
    assert median_rate(list(found.values())) == 2 and median_rate([found[1], found[7], found[9]]) == 7


def test_meters_count_those_who_join() -> None:
    kind, name = meter.kind(), f"penstock-test-{os.getpid()}"
    if kind == "Tree":
        pytest.skip("no cgroup can be made and joined here")
    account = meter.KINDS[kind](name)
    sleeper = subprocess.Popen(["sleep", "60"], preexec_fn=account.join)  # noqa: PLW1509
    assert account.processes() == [sleeper.pid]
    meter.close(account, patience=0.1)  # and kills it
    assert sleeper.wait() < 0 and name not in {path.name for path in meter.ROOT.glob("*/*")}


class Unclosed:
    """An account that cannot be closed, and takes 20 milliseconds of CPU to sample."""

    name = "stuck"
    samples = 0

    def memory(self) -> int:
        self.samples += 1
        until = time.thread_time() + 0.02
        while time.thread_time() < until:
            pass
        return self.samples

    def processes(self) -> list[int]:
        return []

    def close(self) -> None:
        raise OSError("busy")


def test_meters_that_cannot_be_closed_lose_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    meter.close(Unclosed(), patience=0.1)  # type: ignore[arg-type]
    assert "cannot close stuck: busy" in capsys.readouterr().err


def test_sampling_takes_little_of_the_time() -> None:
    with meter.peak_memory(Unclosed()) as peak:  # type: ignore[arg-type]
        time.sleep(0.5)
    assert peak == [1]


def test_processes_of_others_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    class Error(Exception):
        pass

    class Process:
        def __init__(self, pid: int) -> None:
            self.pid = pid

        def children(self, recursive: bool) -> list[Process]:
            return [Process(2), Process(3)]

        def memory_full_info(self) -> SimpleNamespace:
            if self.pid == 2:
                raise Error("access denied")
            return SimpleNamespace(pss=10)

    monkeypatch.setitem(sys.modules, "psutil", SimpleNamespace(Error=Error, Process=Process))
    account = meter.Tree(f"penstock-test-{os.getpid()}")
    account.join()
    assert account.memory() == 20
    account.close()


@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_pictures_are_decoded(mode: str) -> None:
    import io

    from PIL import Image

    encoded = io.BytesIO()
    Image.new(mode, (40, 30), 100).save(encoded, "JPEG")
    of = recipe(photo="photo", crop=8)
    (got,) = photographs.decoded(np.array([encoded.getvalue()], object), of, np.empty)
    assert got.shape == (8, 8, 3) and got[0, 0, 0] == 100
    assert got[0, 0, 2] == (100 if mode == "L" else 0)
