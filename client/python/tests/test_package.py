"""What is installed: wheels with and without the binary, and what a user then has of them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

import penstock
from penstock import _binary
from tests.conftest import REPOSITORY, Dataset

PACKAGE = REPOSITORY / "client" / "python"
WITHOUT_GO = {"PATH": "/nowhere"}


def run(
    *command: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    merged = {k: v for k, v in {**os.environ, **(env or {})}.items() if k != _binary.VARIABLE}
    return subprocess.run([str(c) for c in command], cwd=cwd, env=merged, text=True, capture_output=True, check=False)


def build(package: Path, folder: Path, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return run(
        sys.executable, "-m", "hatchling", "build", "--target=wheel", "--directory", folder, cwd=package, env=env
    )


def names(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def install(wheel: Path, folder: Path) -> Path:
    """Returns the programs' folder of a new environment, with the wheel and what this one has of other packages."""
    made = run(sys.executable, "-m", "venv", "--without-pip", folder)
    assert made.returncode == 0, made.stderr
    python = folder / "bin" / "python"
    done = run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel)
    assert done.returncode == 0, done.stderr
    site = next(folder.glob("lib/python*/site-packages"))
    (site / "others.pth").write_text(sysconfig.get_path("purelib"))
    return folder / "bin"


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the binary, for this machine."""
    folder = tmp_path_factory.mktemp("wheel")
    done = build(PACKAGE, folder)
    assert done.returncode == 0, done.stderr
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="session")
def bare_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built where Go is not."""
    folder = tmp_path_factory.mktemp("bare")
    done = build(PACKAGE, folder, WITHOUT_GO)
    assert done.returncode == 0, done.stderr
    assert "there is no `go` on PATH: this wheel is without the penstock binary" in done.stderr
    (found,) = folder.glob("*.whl")
    return found


@pytest.mark.tools
@pytest.mark.slow
def test_a_wheel_with_the_binary(wheel: Path, dataset: Dataset, tmp_path: Path) -> None:
    assert wheel.name.startswith("penstock-")
    assert "-py3-none-manylinux_2_17_" in wheel.name
    assert "penstock/_bin/penstock" in names(wheel)
    programs = install(wheel, tmp_path / "venv")
    version = run(programs / "penstock", "--version", env=WITHOUT_GO)
    assert version.stdout.split() == ["penstock", "version", wheel.name.split("-")[1]], version.stderr
    read = run(
        programs / "python", "-c",
        "import penstock as p; print(p.__file__, p.__version__);"
        f"print(sum(map(len, p.DataLoader({dataset.uri!r}, features=p.dense('int_*'), batch_size=1000))))",
        cwd=tmp_path, env=WITHOUT_GO,
    )  # fmt: skip
    assert read.returncode == 0, read.stderr
    where, released, rows = read.stdout.split()
    assert Path(where).is_relative_to(tmp_path / "venv")
    assert released == wheel.name.split("-")[1]
    assert int(rows) == dataset.rows


@pytest.mark.tools
def test_a_wheel_without_the_binary(bare_wheel: Path, dataset: Dataset, tmp_path: Path) -> None:
    assert bare_wheel.name.endswith("-py3-none-any.whl")
    assert not [name for name in names(bare_wheel) if "_bin" in name.split("/")]
    assert "penstock/py.typed" in names(bare_wheel)
    programs = install(bare_wheel, tmp_path / "venv")
    command = run(programs / "penstock", "doctor", env=WITHOUT_GO)
    assert command.returncode == 1
    assert "without the penstock binary: " in command.stderr
    assert "go install github.com/penstock-ml/penstock@latest" in command.stderr
    for master, words in [
        (None, "LocalFleetError: without master= the loader starts a fleet on this machine, but "),
        ("127.0.0.1:1", "UsageError: a loader reads by the penstock binary, but "),
    ]:
        read = run(
            programs / "python", "-c",
            "import penstock as p;"
            f"iter(p.DataLoader({dataset.uri!r}, features=p.dense('int_*'), batch_size=1000, master={master!r}))",
            cwd=tmp_path, env=WITHOUT_GO,
        )  # fmt: skip
        assert f"{words}this installation of penstock is without the penstock binary" in read.stderr


@pytest.mark.tools
def test_sources_outside_the_repository_build_without_the_binary(tmp_path: Path) -> None:
    copy = tmp_path / "a" / "b" / "package"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("_bin", "__pycache__", ".*_cache"))
    done = build(copy, tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"{tmp_path / 'a'} is not penstock's repository" in done.stderr
    (made,) = tmp_path.glob("*.whl")
    assert made.name.endswith("-py3-none-any.whl")


@pytest.mark.tools
@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"GOFLAGS": "-what"}, "parsing $GOFLAGS: unknown flag -what"),
        ({"GOOS": "plan9", "GOARCH": "arm"}, "no wheel for plan9/arm; set GOOS and GOARCH to one of linux/amd64"),
    ],
)
def test_a_build_that_fails_is_an_error(env: dict[str, str], words: str, tmp_path: Path) -> None:
    done = build(PACKAGE, tmp_path, env)
    assert done.returncode != 0
    assert words in done.stderr
    assert not list(tmp_path.glob("*.whl"))


FAKE_GO = """#!/bin/sh
if [ "$1" = env ]; then echo '{"GOOS": "linux", "GOARCH": "arm64"}'; exit; fi
echo 'go: downloading example.org/module v1.0.0' >&2
echo example.org/module >&2
while [ "$1" != -o ]; do shift; done
[ -e "$2" ] || echo built "$2" > "$2"
"""


@pytest.mark.tools
def test_a_build_says_what_it_does_and_finds_what_is_there(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    package = repository / "client" / "python"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("_bin", "tests", "__pycache__", ".*_cache"))
    (repository / "go.mod").write_text("module github.com/penstock-ml/penstock\n")
    go = tmp_path / "bin" / "go"
    go.parent.mkdir()
    go.write_text(FAKE_GO)
    go.chmod(0o700)
    binary = repository / ".cache" / "wheel" / "linux-arm64" / "penstock"
    for _ in range(2):
        done = build(package, tmp_path, {"PATH": f"{go.parent}:{os.environ['PATH']}"})
        assert done.returncode == 0, done.stderr
        assert f"penstock: Go builds the binary into {binary}; the first time it takes minutes" in done.stderr
        assert "penstock: the binary is there, after 0 s" in done.stderr
        (made,) = tmp_path.glob("*.whl")
        with zipfile.ZipFile(made) as archive:
            assert archive.read("penstock/_bin/penstock") == b"built %s\n" % bytes(binary)


def test_the_command_becomes_the_binary(penstock_binary: Path) -> None:
    env = {**os.environ, _binary.VARIABLE: str(penstock_binary), "PYTHONPATH": str(PACKAGE / "src")}
    program = "import sys; from penstock._cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", program, "ops", "--what"], env=env, text=True, capture_output=True, check=False
    )
    words = "penstock: unknown flag: --what; want penstock ops [flags]: see penstock ops --help\n"
    assert (done.returncode, done.stderr) == (1, words)


@pytest.mark.fleet
@pytest.mark.every_python
def test_a_fleet_of_its_own(penstock_binary: Path, dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(_binary.VARIABLE, str(penstock_binary))
    features = penstock.dense("int_*") + penstock.sparse("cat_*") + penstock.label("label")
    data = penstock.Data(provenance=True)
    with penstock.DataLoader(dataset.uri, features=features, batch_size=1000, epochs=2, data=data) as loader:
        for _ in range(2):
            seen = [place for batch in loader for place in zip(batch.files, batch.rows, strict=True)]
            assert len(seen) == dataset.rows
            assert {(int(f), int(r)) for f, r in seen} == dataset.places()
