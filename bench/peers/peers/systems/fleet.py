"""Penstock with a fleet of its own processes, and penstock.DataLoader with its address."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from peers.recipe import Recipe
from peers.subject import Run
from peers.systems import onbox


class Fleet:
    """A master with an embedded etcd, and workers."""

    def __init__(self, run: Run) -> None:
        self._run, self._processes = run, list[subprocess.Popen[bytes]]()
        self.profiles = dict[str, dict[str, Any]]()  # where processes have theirs, if the run asks for them

    def start(self) -> str:
        """Runs it and returns the master's address."""
        up = self._begin("master", f"--data-dir={self._run.scratch}/master", "--join=")
        network = ["--network"] if self._run.options.get("network") else []
        for i in range(int(self._run.options.get("workers", 1))):
            self._begin("worker", f"--name=worker-{i}", f"--join={up['gossip']}", *network)
        address: str = up["address"]
        return address

    def _begin(self, role: str, *flags: str) -> dict[str, Any]:
        command = [self._run.penstock, role, "--listen=127.0.0.1:0", "--gossip=127.0.0.1:0", *flags]
        if self._run.profile_seconds:
            command.append("--http=127.0.0.1:0")
        name = f"{role}-{len(self._processes)}"
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PENSTOCK_")}
        with (Path(self._run.scratch) / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [*command, "--output=json", "--end-with-stdin"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=environment,
            )  # fmt: skip
        self._processes.append(process)
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"{' '.join(command)} did not come up; see {log.name}")
        said: dict[str, Any] = json.loads(line)
        if self._run.profile_seconds:
            self.profiles[name] = {"pid": process.pid, "http": said["http"]}
        return said

    def close(self) -> None:
        """Ends it, workers first."""
        for process in reversed(self._processes):
            assert process.stdin is not None
            process.stdin.close()
            process.wait(30)


class System(onbox.System):
    """See peers.subject."""

    def __init__(self, run: Run, recipe: Recipe) -> None:
        super().__init__(run, recipe)
        self._fleet = Fleet(run)

    def start(self) -> None:
        """Runs the fleet."""
        self._arguments = {"master": self._fleet.start()}

    def close(self) -> None:
        """Ends the loader and the fleet."""
        super().close()
        self._fleet.close()
