"""Penstock with a fleet of its own processes and the Go client, in the Go program `peers read`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from peers.recipe import Recipe
from peers.subject import Run
from peers.systems.fleet import Fleet


class System:
    """See peers.subject."""

    def __init__(self, run: Run, _: Recipe) -> None:
        self._run, self._fleet = run, Fleet(run)
        self._trainer: subprocess.Popen[str] | None = None
        self.versions: dict[str, str] = {}

    def start(self) -> None:
        """Runs the fleet and the trainer."""
        spec = Path(self._run.scratch) / "spec.yaml"
        spec.write_text(self._run.spec)
        command = [self._run.peers, "read", f"--master={self._fleet.start()}", str(spec)]
        self._trainer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def one_pass(self, step_seconds: float, dump: str | None) -> dict[str, Any]:
        """Has the trainer read the dataset once."""
        return self._order({"step_seconds": step_seconds, "dump": dump or ""})

    def profile(self, seconds: int) -> dict[str, Any]:
        """Has the trainer read the dataset again and again, and all processes profiled meanwhile."""
        return self._order({"profile": {"seconds": seconds, "processes": self._fleet.profiles}})

    def _order(self, order: dict[str, Any]) -> dict[str, Any]:
        assert self._trainer is not None and self._trainer.stdin is not None and self._trainer.stdout is not None
        print(json.dumps(order), file=self._trainer.stdin, flush=True)
        line = self._trainer.stdout.readline()
        if not line:
            raise RuntimeError("peers read ended without an answer; it said why above")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """Ends both."""
        if self._trainer is not None:
            assert self._trainer.stdin is not None
            self._trainer.stdin.close()
            self._trainer.wait(30)
        self._fleet.close()
