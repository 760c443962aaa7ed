"""Puts the penstock binary into the wheel, where Go and the binary's source are at hand.

    linux/amd64 and a repository around this folder    py3-none-manylinux_..., with penstock/_bin/penstock
    an editable install                                the binary is built into src/penstock/_bin
    no Go, or an unpacked sdist                        py3-none-any without the binary, and a notice

GOOS and GOARCH choose the platform, as for every Go build. A build that fails is an error.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
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


class BinaryBuildHook(BuildHookInterface[BuilderConfig]):
    """Runs around the build of a wheel."""

    _folder: tempfile.TemporaryDirectory[str] | None = None

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
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-wheel-")
        binary = Path(self._folder.name, "penstock")
        build(go, repository, binary, self.metadata.version)
        build_data["force_include"][str(binary)] = "penstock/_bin/penstock"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{PLATFORMS[platform]}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Removes what initialize made outside the wheel."""
        if self._folder is not None:
            self._folder.cleanup()

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
    """Builds the static binary, which bears the package's version. Raises RuntimeError with Go's own words."""
    binary.parent.mkdir(parents=True, exist_ok=True)
    _run([go, "build", "-trimpath", f"-ldflags=-s -w -X main.release={version}", "-o", str(binary), "."], repository)


def _run(command: list[str], repository: Path) -> str:
    env = {**os.environ, "CGO_ENABLED": "0"}
    done = subprocess.run(command, cwd=repository, env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(
            f"penstock: `{' '.join(command)}` in {repository} failed:\n{done.stderr.strip()}\n"
            "Mend that, or take `go` off PATH to install without the binary."
        )
    return done.stdout
