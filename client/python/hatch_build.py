"""Puts the penstock binary into the wheel, where Go and the binary's source are at hand.

    linux/amd64 and a repository around this folder    py3-none-manylinux_..., with penstock/_bin/penstock
    an editable install                                the binary is built into src/penstock/_bin
    no Go, or an unpacked sdist                        py3-none-any without the binary, and a notice

GOOS and GOARCH choose the platform, as for every Go build. A build that fails is an error. The binary is kept in the
repository's .cache, where Go sees whether it is out of date: to install again takes seconds.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MODULE = "module github.com/penstock-ml/penstock"

# The binary is static, so that any libc does, and has the oldest kernel and macOS that Go supports.
PLATFORMS = {
    ("linux", "amd64"): "manylinux_2_17_x86_64.musllinux_1_1_x86_64",
    ("linux", "arm64"): "manylinux_2_17_aarch64.musllinux_1_1_aarch64",
    ("darwin", "amd64"): "macosx_12_0_x86_64",
    ("darwin", "arm64"): "macosx_12_0_arm64",
}


SAY_EVERY = 5.0  # seconds


class BinaryBuildHook(BuildHookInterface[BuilderConfig]):
    """Runs before the build of a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Builds the binary and adds it to what the wheel contains."""
        repository = Path(self.root).parent.parent  # "/" of a package that lies at the top of an image
        if not is_source_of_binary(repository):
            self._notice(f"{repository} is not penstock's repository")
            return
        go = shutil.which("go")
        if go is None:
            self._notice("there is no `go` on PATH")
            return
        platform = go_platform(go, repository)
        if platform not in PLATFORMS:
            raise RuntimeError(
                f"penstock: no wheel for {'/'.join(platform)}; set GOOS and GOARCH to one of "
                + ", ".join("/".join(p) for p in PLATFORMS)
            )
        if version == "editable":
            build(go, repository, Path(self.root, "src", "penstock", "_bin", "penstock"), self.metadata.version)
            return
        binary = repository / ".cache" / "wheel" / "-".join(platform) / "penstock"
        build(go, repository, binary, self.metadata.version)
        build_data["force_include"][str(binary)] = "penstock/_bin/penstock"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{PLATFORMS[platform]}"

    def _notice(self, reason: str) -> None:
        self.app.display_warning(
            f"penstock: {reason}: this wheel is without the penstock binary. Loaders and the command `penstock` need "
            "one of the same release, on PATH or named in PENSTOCK_BINARY."
        )


def is_source_of_binary(repository: Path) -> bool:
    """Tells whether repository is the one that this package lies in, not what an sdist was unpacked beside."""
    try:
        return MODULE in (repository / "go.mod").read_text().splitlines()
    except OSError:
        return False


def go_platform(go: str, repository: Path) -> tuple[str, str]:
    """The (GOOS, GOARCH) that Go builds for, from its environment and settings."""
    output = _run([go, "env", "-json", "GOOS", "GOARCH"], repository)
    settings = json.loads(output)
    return settings["GOOS"], settings["GOARCH"]


def build(go: str, repository: Path, binary: Path, version: str) -> None:
    """Builds the static binary, which bears the package's version, unless it is there.

    Raises RuntimeError with Go's own words.
    """
    binary.parent.mkdir(parents=True, exist_ok=True)
    flags = ["-v", "-trimpath", f"-ldflags=-s -w -X main.release={version}", "-o", str(binary)]
    say(f"Go builds the binary into {binary}; the first time it takes minutes, and needs the network")
    began = said = time.monotonic()
    command, words, packages = [go, "build", *flags, "."], [], 0
    with subprocess.Popen(command, cwd=repository, env=_environment(), stderr=subprocess.PIPE, text=True) as go_build:
        assert go_build.stderr is not None
        for line in go_build.stderr:
            if " " in line:  # else it names a package that is compiled
                words.append(line)
                continue
            packages += 1
            if time.monotonic() - said > SAY_EVERY:
                said = time.monotonic()
                say(f"{packages} packages compiled in {said - began:.0f} s, now {line.strip()}")
    _check(command, repository, go_build.returncode, "".join(words))
    say(f"the binary is there, after {time.monotonic() - began:.0f} s")


def say(words: str) -> None:
    """Tells who waits. Installers hide what builds print: it goes past them to the terminal, if there is one."""
    line = f"penstock: {words}\n"
    sys.stderr.write(line)
    if "_PYPROJECT_HOOKS_BUILD_BACKEND" in os.environ:
        try:
            Path("/dev/tty").write_text(line)
        except OSError:
            pass


def _run(command: list[str], repository: Path) -> str:
    done = subprocess.run(command, cwd=repository, env=_environment(), capture_output=True, text=True, check=False)
    _check(command, repository, done.returncode, done.stderr)
    return done.stdout


def _environment() -> dict[str, str]:
    return {**os.environ, "CGO_ENABLED": "0"}


def _check(command: list[str], repository: Path, status: int, words: str) -> None:
    if status != 0:
        raise RuntimeError(
            f"penstock: `{' '.join(command)}` in {repository} failed:\n{words.strip()}\n"
            "Mend that, or take `go` off PATH to install without the binary."
        )
