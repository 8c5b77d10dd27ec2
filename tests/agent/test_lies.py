"""A real torch that raises nothing and gives other numbers than it must, each in one way only: caught, and the number is named.

The lies are those of tests/faults/torch_patches/lies.py, put into a torch that is imported once (rank_server).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from patients import needs_torch
from rank_server import Ranks, serving

from envcheck.agent import numerics
from envcheck.checks.live import live_wrong_result
from envcheck.engine.judge import judge
from envcheck.facts.codec import decode
from envcheck.facts.snapshot import Arm, LiveStatus, Snapshot
from envcheck.tables.compat import Tables
from envcheck.tables.folders import rules_folder
from envcheck.target.sections import summary

TABLES = Tables((rules_folder("compat"),))
pytestmark = [needs_torch, pytest.mark.torch]

GLOO = {"name": "gloo-loopback", "backend": "gloo", "device": "cpu", "world": 2, "loopback": True}
ALONE = {"name": "alone", "backend": "none", "device": "cpu", "world": 1, "store": "none"}


@pytest.fixture(scope="module")
def ranks() -> Iterator[Ranks]:
    yield from serving()


def said_wrong(lines: list[dict[str, Any]]) -> str:
    """What the rule says of the only arm; that there is a hit at all is the test."""
    [arm] = [decode(Arm, line["value"]) for line in lines if line.get("section") == "arm"]
    assert arm.status is LiveStatus.FAIL, arm
    [verdict] = judge(Snapshot(live=summary([arm], "fork", ())), [live_wrong_result], TABLES)
    assert verdict.hit, verdict
    return str(verdict.hit.values["detail"])


QUICK = [
    ("rank-is-zero", r"torch.distributed.get_rank\(\) is 0 and must be 1"),
    ("floats-half-more", r"all_reduce of 4 bytes \(float32, async_op\) .*: 1 of 1 values are wrong, the first at 0 is 9 and must be 6"),
    ("floats-not-a-number", r"all_reduce of 4 bytes \(float32, .* is nan and must be 6"),
    ("between-sizes", r"all_reduce of 524292 bytes \(int32\) .* 1 of 131073 values are wrong, the first at 131072 is \d+ and must be \d+"),
    ("second-call", r"all_reduce of 4 bytes \(float32\) .* the first at 0 is 6 and must be 9"),
    ("async-does-nothing", r"all_reduce of 4 bytes \(float32, async_op\) .* the first at 0 is [24] and must be 6"),
    ("broadcast-does-nothing", r"broadcast from rank 1 of 2: 257 of 257 values are wrong, the first at 0 is 1 and must be 2"),
    ("ddp-does-not-average", r"DDP: the gradients of step 1 on rank \d of 2: .* the first in layers.0.weight is [12] and must be 1.5"),
    ("ddp-first-bucket-only", r"DDP: the gradients of step 1 on rank \d of 2: 17428 of 17468 values are wrong, .* layers.0.weight"),
    ("ddp-first-and-last-bucket-only", r"DDP: the gradients of step 2 on rank \d of 2: .* in layers.0.weight is [24] and must be 3"),
    ("ddp-first-step-only", r"DDP: the gradients of step 2 on rank \d of 2: .* in layers.\d.weight is [24] and must be 3"),
    ("ddp-not-float32", r"DDP: the gradients of step 1 on rank \d of 2: 17\d+ of .* in layers.0.weight is [12] and must be 1.5"),
    ("ddp-not-large", r"DDP: the gradients of step 1 on rank \d of 2: 17\d+ of .* in layers.0.weight is [12] and must be 1.5"),
    ("ddp-a-little-more", r"DDP: the gradients of step 1 on rank \d of 2: \d+ of 17468 .* is 1.500015\d* and must be 1.5"),
    ("ddp-one-bit-of-rank-1", r"DDP: the parameters of rank (0 and rank 1|1 and rank 0) differ after two steps"),
    ("ddp-parameters-stay", r"DDP: the parameters after construction on rank 1 of 2: .* in layers.0.weight is 4 and must be 3"),
    ("ddp-buffers-stay", r"DDP: the buffers on rank 1 of 2: 3 of 3 values are wrong, the first in passes is 11 and must be 10"),
    ("no-sync-syncs", r"DDP: the gradients inside no_sync \(this rank's own\) on rank \d .* is 4.5 and must be [36]"),
    ("no-sync-stays", r"DDP: the gradients accumulated over no_sync and the step behind it on rank \d .* is (7|14) and must be 10.5"),
    ("backward-does-nothing", r"the backward pass left \d of \d parameters without a gradient"),
    ("optimizer-does-nothing", r"one process, float32: the parameters after a step of SGD: 9 of 9 .* at 0 is 1 and must be 0"),
    ("linear-one-percent-more", r"one process, float32: the outputs: .* the first at 0 is 7\.\d+ and must be 7"),
]  # fmt: skip


@pytest.mark.parametrize(("lie", "words"), QUICK, ids=[lie for lie, _ in QUICK])
def test_the_quick_check(ranks: Ranks, tmp_path: Path, lie: str, words: str) -> None:
    said = said_wrong(ranks.run(tmp_path, arm=GLOO, fault=lie))
    assert re.search(words, said), said


FULL = [
    ("collectives", "floats-half-more", r"all_reduce \(sum\) of 1 × float32 over 2 ranks"),
    ("collectives", "between-sizes", r"all_reduce \(sum\) of 131074 × int32 over 2 ranks: 1 of 131074"),
    ("collectives", "above-4-mib", r"all_reduce \(sum\) of 2359298 × float32 over 2 ranks: 1 of 2359298 .* the first at 2359297"),
    ("collectives", "async-does-nothing", r"all_reduce with async_op, number 1, of 1000 × float32"),
    ("collectives", "broadcast-does-nothing", r"broadcast from rank \d of 1 × int32"),
    ("wire", "between-sizes", r"all_reduce of 262144 bytes over 2 ranks: 1 of 65536"),
    ("ddp-buckets", "ddp-first-bucket-only", r"gradients of step 1 .* in layers.0.weight"),
    ("ddp-buckets", "ddp-not-large", r"gradients of step 1 .* in layers.0.weight"),
    ("ddp-bucket-view", "ddp-not-float32", r"gradients of step 1 .* in layers.0.weight"),
    ("ddp-bucket-view", "no-sync-syncs", r"inside no_sync"),
    ("ddp-batch-norm", "ddp-buffers-stay", r"DDP: BatchNorm's running_mean on rank 1 of 2: 3 of 3 .* is 13.25 and must be 13"),
    ("arithmetic", "optimizer-does-nothing", r"the parameters after a step of SGD"),
    ("arithmetic", "linear-one-percent-more", r"one process, float32: the outputs"),
    ("arithmetic", "convolution-one-percent-more", r"convolution \(float32\): 98 of 98|convolution \(float32\): \d+ of 98"),
    ("arithmetic", "adamw-without-decay", r"AdamW: the parameters after three steps: 3 of 3"),
]  # fmt: skip


@pytest.mark.parametrize(("task", "lie", "words"), FULL, ids=[f"{task}: {lie}" for task, lie, _ in FULL])
def test_a_part_of_the_full_check(ranks: Ranks, tmp_path: Path, task: str, lie: str, words: str) -> None:
    arm = ALONE if task == "arithmetic" else GLOO
    said = said_wrong(ranks.run(tmp_path, arm=arm, tasks=[task], fault=lie, stage_seconds=10.0))
    assert re.search(words, said), said


TRUE: list[tuple[int, dict[str, Any]]] = [
    (3, {"tasks": ["collectives", "ddp-buckets", "ddp-batch-norm"]}),
    (4, {"tasks": ["collectives", "ddp-bucket-view"]}),
    (7, {}),
    (8, {"fault": "products-in-bfloat16"}),
]


@pytest.mark.parametrize(("world", "more"), TRUE, ids=[f"{world} ranks {request}" for world, request in TRUE])
def test_the_truth_passes(ranks: Ranks, tmp_path: Path, world: int, more: dict[str, Any]) -> None:
    """A mean over three or seven ranks is rounded, and a library may be told to multiply in lower precision."""
    lines = ranks.run(tmp_path, arm={**GLOO, "world": world}, stage_seconds=20.0, **more)
    [arm] = [decode(Arm, line["value"]) for line in lines if line.get("section") == "arm"]
    assert arm.status is LiveStatus.PASS, arm.reason


def test_no_block_of_a_library_is_like_the_next_one() -> None:
    """A buffer that is shifted by a block goes unseen where the numbers come again after as many."""
    assert numerics.PERIOD > 200 and all(numerics.PERIOD % one for one in range(2, numerics.PERIOD))


@pytest.mark.parametrize(("tasks", "several"), [([], 4), pytest.param(["ddp-buckets"], 8, marks=pytest.mark.slow)])
def test_several_buckets_are_several(ranks: Ranks, tmp_path: Path, tasks: list[str], several: int) -> None:
    """Counted by a hook that DDP calls for each bucket that it reduces."""
    path = tmp_path / "buckets"
    given = {"tasks": tasks} if tasks else {}
    ranks.run(tmp_path, arm=GLOO, fault="ddp-buckets-told", env={"ENVCHECK_BUCKETS": str(path)}, stage_seconds=10.0, **given)
    steps: list[list[tuple[str, int]]] = [[]]
    for line in path.read_text().splitlines():
        index, kind, size, last = line.split()
        assert int(index) == len(steps[-1]), "one after the other"
        steps[-1].append((kind, int(size)))
        if last == "1":
            steps.append([])
    first, second, accumulated, rest = steps
    assert len(first) == 2 and len(second) == len(accumulated) == several and not rest
    for step in (first, second):
        assert {kind for kind, _ in step} == {"float32", "float64"}
        assert any(kind == "float32" and size > 64 << 10 for kind, size in step)
    assert sum(kind == "float32" for kind, _ in second) == several - 1


def test_what_ddp_says_of_itself_fails_no_step(ranks: Ranks, tmp_path: Path) -> None:
    """torch 2.13 raises UnicodeDecodeError where it shows what it kept of the environment; training does not ask."""
    odd = {"CUDA_VISIBLE_DEVICES": "\udcff"}
    for folder, asked in (("quick", {}), ("full", {"tasks": ["ddp-buckets"]})):
        (tmp_path / folder).mkdir()
        lines = ranks.run(tmp_path / folder, arm=GLOO, env=odd, **asked)
        [arm] = [decode(Arm, line["value"]) for line in lines if line.get("section") == "arm"]
        told = (arm.status, arm.reason)
        if not asked:
            assert told == (LiveStatus.PASS, ""), told
        else:
            assert told == (LiveStatus.SKIPPED, "DDP of this torch does not say how many buckets it made"), told
