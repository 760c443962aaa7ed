"""A session's id comes from the job."""

from __future__ import annotations

import gc

import pytest

from penstock import _job
from penstock.errors import UsageError


@pytest.mark.parametrize(
    ("environ", "want"),
    [
        ({}, None),
        ({"PENSTOCK_RUN_ID": "a", "TORCHELASTIC_RUN_ID": "b", "SLURM_JOB_ID": "7"}, "a/train"),
        ({"TORCHELASTIC_RUN_ID": "b", "SLURM_JOB_ID": "7"}, "b/train"),
        ({"TORCHELASTIC_RUN_ID": "none"}, None),
        ({"TORCHELASTIC_RUN_ID": "none", "SLURM_JOB_ID": "7"}, "7/train"),
        ({"JOB_COMPLETION_INDEX": "3", "HOSTNAME": "ctr-2026-3"}, "ctr-2026/train"),
        ({"JOB_COMPLETION_INDEX": "3", "HOSTNAME": "elsewhere"}, None),
        ({"HOSTNAME": "ctr-2026-3"}, None),
    ],
)
def test_the_run_id(environ: dict[str, str], want: str | None) -> None:
    assert _job.session_id(None, "train", environ) == want
    assert _job.session_id("mine", "train", environ) == "mine"


def test_made_up_ids_differ() -> None:
    assert _job.unique_id("train") != _job.unique_id("train")


class _Owner:
    pass


def test_one_loader_for_a_session_and_rank() -> None:
    first, second = _Owner(), _Owner()
    _job.claim("run/train", 0, first)
    _job.claim("run/train", 0, first)
    _job.claim("run/train", 1, second)
    with pytest.raises(UsageError, match="name="):
        _job.claim("run/train", 0, second)
    _job.let_go("run/train", 0, second)  # which does not have it
    with pytest.raises(UsageError):
        _job.claim("run/train", 0, second)
    _job.let_go("run/train", 0, first)
    _job.claim("run/train", 0, second)
    _job.let_go("run/train", 0, second)


def test_a_loader_that_is_gone_has_let_go() -> None:
    first = _Owner()
    _job.claim("run/gone", 0, first)
    del first
    gc.collect()
    _job.claim("run/gone", 0, _Owner())
