"""Runs a Python program on several ranks, as torchrun does, and collects what each of them found.

As there, the ranks meet in a store of the process that starts them, and if one fails, the others are ended.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from torch.distributed import TCPStore

PACKAGE = Path(__file__).parents[2]
TIMEOUT = 300.0  # seconds in which ranks end that do not hang, on a machine that is busy with others

PREAMBLE = """
import dataclasses, faulthandler, json, os, sys
faulthandler.dump_traceback_later(float(sys.argv[2]))  # a rank that hangs says where
import torch, torch.distributed as dist
import penstock
from tests.test_loader import FEATURES, places

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
given = json.loads(sys.argv[1])

def loader(data=penstock.Data(), **options):
    usual = {"features": FEATURES, "batch_size": 1000, "master": given["master"], "last_batch": "uneven", "epochs": 1}
    data = dataclasses.replace(data, provenance=True)
    return penstock.DataLoader(given["uri"], data=data, **(usual | options))

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
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    program = PREAMBLE + textwrap.dedent(code) + EPILOGUE
    arguments = [json.dumps({"out": str(out), **given}), str(TIMEOUT - 10)]
    processes = []
    for rank in range(ranks):
        environ = os.environ | {
            "PYTHONPATH": f"{PACKAGE / 'src'}:{PACKAGE}",
            "MASTER_ADDR": store.host, "MASTER_PORT": str(store.port), "TORCHELASTIC_USE_AGENT_STORE": "True",
            "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks), "TORCHELASTIC_RUN_ID": run_id,
            "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "ACCELERATE_USE_CPU": "true",
        }  # fmt: skip
        command = [sys.executable, "-c", program, *arguments]
        processes.append(
            subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        )
    with ThreadPoolExecutor(ranks) as pool:
        ends = [pool.submit(_end, process) for process in processes]
        try:
            wait(ends, TIMEOUT, FIRST_EXCEPTION)
        finally:
            for process in processes:
                process.kill()
    problems = [f"rank {rank}: {end.exception()}" for rank, end in enumerate(ends) if end.exception()]
    assert not problems, "\n".join(problems)
    return [json.loads((out / f"{rank}.json").read_text()) for rank in range(ranks)]


def _end(process: subprocess.Popen[str]) -> None:
    said, _ = process.communicate()
    assert process.returncode == 0, f"ended with {process.returncode}, and said\n{said}"


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
