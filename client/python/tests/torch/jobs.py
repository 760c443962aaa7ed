"""Runs a Python program on several ranks, as torchrun does, and collects what each of them found."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parents[2]
TIMEOUT = 90.0  # seconds

PREAMBLE = """
import json, os, sys
import torch, torch.distributed as dist
import penstock
from tests.test_loader import FEATURES, places

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
given = json.loads(sys.argv[1])

def loader(**options):
    options = {"features": FEATURES, "batch_size": 1000, "provenance": True, "master": given["master"]} | options
    return penstock.DataLoader(given["uri"], **options)

def found(value):
    with open(f"{given['out']}/{RANK}.json", "w") as out:
        json.dump(value, out)
"""

# gloo's threads may hold Python objects of collectives that are done, and abort an interpreter that ends before them.
EPILOGUE = """
if dist.is_initialized():
    dist.destroy_process_group()
"""

# What ranks train that wait for each other in each step.
DDP = """
    from torch.nn.parallel import DistributedDataParallel
    dist.init_process_group("gloo")
    model = DistributedDataParallel(torch.nn.Linear(3, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)

    def losses(batch):
        return (model(batch.dense.nan_to_num()).squeeze(1) - batch.label.float()) ** 2

    def learn(loss):
        optimizer.zero_grad()
        loss.backward()  # waits for all ranks
        optimizer.step()
"""

# The job of one rank that is lost is started again: it trains to the end, from the states of a step if there are any.
AGAIN = """
    read = []
    with loader(**options) as train:
        if given["states"]:
            train.load_state_dict(given["states"])
        for batch in train:
            step(batch)
            read.append(rows(batch))
    found(read)
"""


def run(code: str, ranks: int, out: Path, given: dict[str, Any], run_id: str = "none") -> list[Any]:
    """What each rank's program gave to found(). It has loader(), RANK, WORLD and the names of PREAMBLE."""
    out.mkdir(parents=True, exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    program = PREAMBLE + textwrap.dedent(code) + EPILOGUE
    arguments = json.dumps({"out": str(out), **given})
    processes = []
    for rank in range(ranks):
        environ = os.environ | {
            "PYTHONPATH": f"{PACKAGE / 'src'}:{PACKAGE}",
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "RANK": str(rank), "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(ranks), "TORCHELASTIC_RUN_ID": run_id, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo",
            "ACCELERATE_USE_CPU": "true",
        }  # fmt: skip
        command = [sys.executable, "-c", program, arguments]
        processes.append(
            subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        )
    try:
        said = [process.communicate(timeout=TIMEOUT)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    for rank, process in enumerate(processes):
        assert process.returncode == 0, f"rank {rank}:\n" + "\n".join(said)
    return [json.loads((out / f"{rank}.json").read_text()) for rank in range(ranks)]


def lose_a_rank(death: str, again: str, out: Path, given: dict[str, Any], states: bool) -> tuple[list[Any], list[Any]]:
    """Runs a job of three ranks until one dies, and starts all again, from the states of the last common step or not.

    Returns what each rank read before, up to that step, and after it, batch by batch.
    """
    first = run(death, 3, out / "first", given, run_id="job-7")
    steps = min(len(read) for read in first)
    assert steps > 0
    saved = [read[steps - 1][1] for read in first] if states else None
    after = run(again, 3, out / "again", {**given, "states": saved}, run_id="job-7")
    assert len({len(read) for read in after}) == 1, [len(read) for read in after]
    return [[batch for batch, _ in read[:steps]] for read in first], after
