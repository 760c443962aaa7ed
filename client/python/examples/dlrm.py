"""Trains a small DLRM on Criteo-shaped clicks, and goes on from its checkpoints to the row.

    python dlrm.py --data "$(penstock demo dataset --rows 200000)"      # a fleet on this machine, started by the loader
    python dlrm.py --data s3://bucket/criteo/ --fleet penstock:7070     # a fleet of your own
    torchrun --nproc-per-node 2 dlrm.py --data ... --fleet penstock:7070

The model is that of Naumov et al., "Deep Learning Recommendation Model for Personalization and Recommendation Systems"
(2019), with small tables: an MLP over the dense features, a bag of embeddings for each sparse one, the dot products of
all pairs of them, and an MLP on top.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

import penstock

DENSE, SPARSE = 13, 26
IDS = 20_000  # rows of each embedding table


class DLRM(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.bottom = nn.Sequential(nn.Linear(DENSE, 64), nn.ReLU(), nn.Linear(64, width), nn.ReLU())
        sparse = not dist.is_initialized()  # reducing sparse ones, torch 2.14 with gloo corrupts memory now and then
        self.tables = nn.ModuleList(
            nn.EmbeddingBag(IDS, width, mode="sum", include_last_offset=True, sparse=sparse) for _ in range(SPARSE)
        )
        for table in self.tables:
            nn.init.normal_(table.weight, std=0.01)
        self.pairs = torch.tril_indices(SPARSE + 1, SPARSE + 1, offset=-1)
        self.top = nn.Sequential(nn.Linear(width + self.pairs.shape[1], 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, batch: penstock.Batch) -> torch.Tensor:
        bags = [table(f.values, f.offsets.long()) for table, f in zip(self.tables, batch.sparse.values(), strict=True)]
        vectors = torch.stack([self.bottom(batch.dense), *bags], dim=1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return self.top(torch.cat([vectors[:, 0], products], dim=1)).squeeze(1)


def make_loader(args: argparse.Namespace) -> penstock.DataLoader:
    return penstock.DataLoader(
        args.data,
        features=penstock.dense("int_*") + penstock.sparse("cat_*") + penstock.label("label"),
        transforms=[
            penstock.fill_null("int_*", 0),
            penstock.clamp("int_*", min=0),
            penstock.log1p("int_*"),
            penstock.sigrid_hash("cat_*", salt=0, max=IDS),
        ],
        batch_size=args.batch_size,
        last_batch="pad",  # ranks average their gradients after each batch, so each needs equally many
        shuffle=True,
        seed=1,
        epochs=args.epochs,
        master=args.fleet,
        session=args.session,
        progress=args.progress,
    )


def save(path: Path, step: int, **parts: nn.Module | torch.optim.Optimizer | penstock.DataLoader) -> None:
    """Writes a checkpoint of this rank; a crash in between leaves the one before."""
    new = path.with_suffix(".new")
    torch.save({"step": step, **{name: part.state_dict() for name, part in parts.items()}}, new)
    new.replace(path)


def train(args: argparse.Namespace) -> None:
    torch.manual_seed(1)
    rank = dist.get_rank() if dist.is_initialized() else 0
    model: nn.Module = DLRM()
    if dist.is_initialized():
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.02)
    path = args.checkpoint and args.checkpoint.with_name(f"{args.checkpoint.name}.rank{rank}")
    rows = step = 0
    with make_loader(args) as loader:
        if path and path.exists():
            saved = torch.load(path)
            model.load_state_dict(saved["model"])
            optimizer.load_state_dict(saved["optimizer"])
            loader.load_state_dict(saved["loader"])
            step = saved["step"]
            print(f"rank {rank}: goes on from {path}, step {step}", flush=True)
        total, seen = 0.0, 0
        for _ in range(loader.epoch, args.epochs):
            if 0 <= args.steps <= step:
                break
            for batch in loader:
                losses = nn.functional.binary_cross_entropy_with_logits(
                    model(batch), batch.label.float(), reduction="none"
                )
                loss = (losses * batch.mask).sum()
                optimizer.zero_grad()
                (loss / len(batch)).backward()
                optimizer.step()
                rows, step = rows + batch.valid, step + 1
                total, seen = total + loss.item(), seen + batch.valid
                if step % args.log_every == 0 and seen:
                    print(f"rank {rank}: step {step} loss {total / seen:.4f}", flush=True)
                    total, seen = 0.0, 0
                if path and step % args.save_every == 0:
                    save(path, step, model=model, optimizer=optimizer, loader=loader)
                if step == args.steps:
                    break
        if path:
            save(path, step, model=model, optimizer=optimizer, loader=loader)
        if seen:
            print(f"rank {rank}: step {step} loss {total / seen:.4f}", flush=True)
        print(f"rank {rank}: trained on {rows} rows; {loader.stats().verdict}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="URI of Parquet files with the columns label, int_* and cat_*")
    parser.add_argument("--fleet", help="address of a master (default: a fleet on this machine)")
    parser.add_argument("--session", help="id of the session (default: the job's run id)")
    parser.add_argument("--batch-size", type=int, default=1024, help="rows of a batch, per rank")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--steps", type=int, default=-1, help="stop after so many in all")
    parser.add_argument("--checkpoint", type=Path, help="file to save to, and to go on from where it exists")
    parser.add_argument("--save-every", type=int, default=50, help="steps")
    parser.add_argument("--log-every", type=int, default=20, help="steps")
    parser.add_argument("--progress", action="store_true", help="show progress")
    args = parser.parse_args()
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        dist.init_process_group("gloo")
    try:
        train(args)
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


if __name__ == "__main__":
    main()
