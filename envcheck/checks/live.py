"""What the live check saw: ranks that fail, hang, or compute something else than they should."""

from __future__ import annotations

import re

from envcheck.checks import answer
from envcheck.checks.hardware import nvidia, opened
from envcheck.checks.ladder import CONTROL, climb, explains
from envcheck.checks.origin import origin
from envcheck.checks.text import quoted, said, value
from envcheck.checks.torch_import import at_work
from envcheck.engine.intents import Install, SetEnv
from envcheck.engine.rule import Confidence, Evidence, Hit, Severity, Unknown, check
from envcheck.facts.snapshot import (
    Arm,
    BackendsFacts,
    DevicesFacts,
    GpusFacts,
    LiveFacts,
    LiveStatus,
    Missing,
    PackagesFacts,
    RankFacts,
    SymptomsFacts,
    SystemFacts,
    TorchFacts,
)
from envcheck.tables.compat import Tables

_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Exit|Interrupt)\b")  # "torch.distributed.DistBackendError: NCCL error in: …"
# Stage.detail of a rank that hangs in all_reduce, as agent/rank_verdicts.py writes it
_SIZES = re.compile(r"(\d{1,20}) bytes passed, (\d{1,20}) did not end")


def _runs(live: LiveFacts) -> list[tuple[str, tuple[RankFacts, ...], LiveStatus, str, int]]:
    """Every trial with ranks: (name, ranks, status, reason, world size). Rungs of the ladder do not count."""
    counting = [arm for arm in live.arms if arm.part or (arm.ranks and not explains(arm))]
    arms = [(arm.name, arm.ranks, arm.status, arm.reason, arm.world_size) for arm in counting]
    if arms and any(status is live.status for _, _, status, _, _ in arms):
        return arms
    if not live.ranks:
        return arms
    backend = live.backend or "the process group"
    return [(backend, live.ranks, live.status, live.reason, live.world_size or len(live.ranks)), *arms]


def _wrong(ranks: tuple[RankFacts, ...]) -> list[tuple[RankFacts, str, str]]:
    return [(rank, stage.name, stage.detail) for rank in ranks for stage in rank.stages if stage.status == "wrong"]


def _stage_of(rank: RankFacts) -> str:
    """Where a rank hangs, else the last stage it entered."""
    return next((stage.name for stage in rank.stages if stage.status == "hang"), rank.last_stage or "start")


def _any_wrong(live: LiveFacts) -> bool:
    return any(_wrong(ranks) for _, ranks, _, _, _ in _runs(live))


def _tail(rank: RankFacts) -> tuple[Evidence, ...]:
    """A rank's own words: its error, the end of its stderr, where it stood."""
    pieces = (("error", rank.error, -600), ("stderr", rank.stderr, -600), ("stack", rank.stack, -1200))
    return tuple(Evidence(f"rank {rank.rank}: {name}", text.strip()[start:]) for name, text, start in pieces if text.strip())


def _headline(lines: list[str]) -> str:
    """The line with the exception's name; pybind11 and gloo write several lines after it. Else the last one."""
    named = [line for line in lines if _EXCEPTION.match(line)]
    return (named or lines or [""])[-1]


def _insights(live: LiveFacts, arm: str) -> tuple[Evidence, ...]:
    """What the analysis of stacks, logs and NCCL's services says of an arm."""
    return tuple(Evidence(one.source, one.text) for one in live.insights if one.arm == arm)[:6]


def _once(ranks: tuple[RankFacts, ...]) -> list[RankFacts]:
    return list({rank.rank: rank for rank in ranks}.values())


def _numbers(ranks: list[RankFacts]) -> str:
    return ", ".join(str(rank.rank) for rank in ranks)


def _passed(live: LiveFacts) -> list[Arm]:
    """Those of the quick check: what they prove is the ground that the rest stands on."""
    return [arm for arm in live.arms if arm.status is LiveStatus.PASS and not arm.part]


def _others(live: LiveFacts, name: str) -> tuple[Evidence, ...]:
    """Further parts of the full check that went wrong besides the one that is reported."""
    bad = [arm for arm in live.arms if arm.part and arm.name != name and arm.status in (LiveStatus.FAIL, LiveStatus.HANG)]
    return tuple(Evidence(f"arm {arm.name}", f"{arm.status.value}: {arm.reason}"[:300]) for arm in bad[:8])


@check(sees_missing=("live", "packages"))
def torch_dynamo_broken(torch: TorchFacts, packages: PackagesFacts | Missing, live: LiveFacts | Missing) -> Hit | None:
    """What DDP imports cannot be imported, and the ranks found it so."""
    failure = torch.dynamo_failure
    if failure is None or (not isinstance(live, Missing) and live.status is LiveStatus.PASS):
        return None
    evidence = tuple(Evidence("import torch._dynamo", words) for words in (failure.stack or failure.stderr,) if words)
    if "pkg_resources" in failure.text:
        return Hit({"error": f"{failure.type}: {failure.text}"}, evidence, (Install(("setuptools<70",)),), variant="setuptools")
    if failure.type not in ("crashed", "timeout"):
        return Hit({"error": f"{failure.type}: {failure.text}"}, evidence, variant="raised")
    where = origin(failure.stack, torch, packages)
    sure = None if failure.type == "crashed" or not at_work(failure) else Confidence.LIKELY
    return Hit({"how": failure.text, "where": where and where.file}, evidence, variant=None if where else "nowhere", confidence=sure)


@check()
def live_wrong_result(live: LiveFacts) -> Hit | None:
    """A collective or a DDP step ended, with numbers that are not the right ones."""
    for name, ranks, _, _, size in _runs(live):
        if wrong := _wrong(ranks):
            rank, stage, detail = wrong[0]
            numbers = _numbers([one for one, _, _ in wrong])
            values = {"arm": name, "stage": stage, "ranks": numbers, "detail": detail or "no detail", "size": size}
            evidence = tuple(Evidence(f"rank {one.rank}: {at}", words) for one, at, words in wrong[:4] if words)
            evidence = (*(evidence or _tail(rank)), *_others(live, name))
            return Hit(values, evidence, variant="ddp" if stage == "ddp" else None)
    return None


@check()
def live_hang(live: LiveFacts) -> Hit | None:
    """Ranks that did not come back from a stage within its deadline."""
    if live.status is not LiveStatus.HANG:
        return None
    for name, ranks, status, reason, size in _runs(live):
        if status is not LiveStatus.HANG:
            continue
        if not ranks:  # a launcher that started nobody
            return Hit({"stage": "start", "reason": f"{name}: {reason}"}, _others(live, name), variant="plain")
        stuck = [rank for rank in ranks if any(stage.status == "hang" for stage in rank.stages)]
        stages = {rank.rank: _stage_of(rank) for rank in ranks}
        order = {stage: at for at, stage in enumerate(live.stages)}
        stuck = stuck or [rank for rank in ranks if rank.last_stage != "destroy"]
        # The rank that is least far is the suspect: the others wait for it.
        least = min((order.get(stages[rank.rank], 99) for rank in stuck), default=99)
        behind = [rank for rank in stuck if order.get(stages[rank.rank], 99) == least]
        gone = [rank for rank in ranks if rank not in stuck and (rank.signal or rank.exit_code)]
        evidence = (
            *_insights(live, name),
            *(one for rank in _once((*gone, *behind, *stuck))[:3] for one in _tail(rank)),
            *_others(live, name),
        )
        passed = [match for rank in stuck for one in rank.stages if (match := _SIZES.fullmatch(one.detail))]
        values: dict[str, object] = {
            "arm": name,
            "size": size,
            "stage": stages[behind[0].rank] if behind else "an unknown stage",
            "ranks": _numbers(stuck) or "of unknown number",
            "behind": _numbers(behind),
            "where": "; ".join(f"rank {number} in {stage}" for number, stage in sorted(stages.items())[:16]),
            "reason": reason or live.reason,
            "gone": _numbers(gone),
            "passed": passed[0][1] if passed else "none",
            "stuck_at": passed[0][2] if passed else "none",
        }
        if gone:
            return Hit(values, evidence, variant="gone")
        # A rank that stays away is another story, whatever sizes it went through when the question for its stack woke it.
        together = len(passed) == len(stuck) == len(behind) and len({match[0] for match in passed}) == 1
        if together and _SIZES.search(reason or live.reason):
            return Hit(values, evidence, variant="size")
        return Hit(values, evidence, variant="behind" if behind and len(behind) < len(stuck) else None)
    return Hit({"stage": "an unknown stage", "reason": live.reason or "no reason given"}, variant="plain")


@check()
def live_failed(live: LiveFacts) -> Hit | None:
    """A rank raised or died."""
    if live.status is not LiveStatus.FAIL or _any_wrong(live):
        return None
    for name, ranks, status, reason, size in _runs(live):
        if status is not LiveStatus.FAIL:
            continue
        failed = [rank for rank in ranks if any(stage.status == "failed" for stage in rank.stages) or rank.error or rank.signal]
        # The reason names the rank nearest to the cause; the others often only complain that a peer is gone.
        named = re.match(r"rank (\d+)\b", reason or live.reason)
        first = next((rank for rank in failed if named and rank.rank == int(named[1])), failed[0] if failed else None)
        stage = next((one.name for one in first.stages if one.status == "failed"), first.last_stage) if first else None
        lines = [line.strip() for line in (first.error if first else reason or live.reason).splitlines() if line.strip()]
        values: dict[str, object] = {
            "arm": name,
            "size": size,
            "rank": first.rank if first else "of unknown number",
            "stage": stage or "an unknown stage",
            "error": (_headline(lines) or reason or live.reason or "no reason given")[:400],
            "signal": first.signal if first else None,
            "passed": [arm.name for arm in _passed(live)],
        }
        evidence = (*_insights(live, name), *(_tail(first) if first else ()), *_others(live, name))
        if first is None and name in {arm.name for arm in live.arms if arm.part}:
            return Hit(values, evidence, variant="arm")
        if size == 1 and not (first and first.signal):
            return Hit(values, evidence, variant="alone")
        if first and first.signal:
            return Hit(values, evidence, variant="signal")
        return Hit(values, evidence, variant="but" if _passed(live) else None)
    return Hit({"error": live.reason or "no reason given"}, variant="plain")


@check()
def live_inconclusive(live: LiveFacts) -> Hit | None:
    """The control arm failed too, or there was no time: nothing is proved either way."""
    found = climb(live)
    if found and found.culprit == "machine":
        control = [arm for arm in live.arms if arm.name in CONTROL]
        told = tuple(Evidence(f"arm {arm.name}", f"{arm.status.value}: {arm.reason}"[:400]) for arm in (found.plain, *control))
        return Hit({"control": [arm.name for arm in control]}, told, variant="control")
    if live.status is not LiveStatus.INCONCLUSIVE:
        return None
    evidence = tuple(one for rank in live.ranks[:2] for one in _tail(rank))
    return Hit({"reason": live.reason.rstrip(".") or "no reason given"}, evidence)


@check(sees_missing=("gpus",))
def wire_slow(live: LiveFacts, gpus: GpusFacts | Missing, tables: Tables) -> Hit | None:
    """Bandwidths of `--live full` far below the other GPUs of this machine, its links, or a machine like it."""
    if live.wire is None:
        return None
    from envcheck.checks.bandwidth import judge as judge_wire  # only after `--live full`

    bad = [one for one in judge_wire(live.wire, nvidia(gpus), tables) if one.level != "ok"]
    if not bad:
        return None
    worst = min(bad, key=lambda one: one.share)
    evidence = tuple(
        Evidence(one.what, f"{one.gb_s:.1f} GB/s, {one.share:.0%} of {one.expected_gb_s:.1f} GB/s: {one.source}")
        for one in sorted(bad, key=lambda one: one.share)[:6]
    )
    values = {
        "what": worst.what,
        "rate": f"{worst.gb_s:.1f}",
        "expected": f"{worst.expected_gb_s:.1f}",
        "share": f"{worst.share:.0%}",
        "source": worst.source.partition(" (http")[0],  # the addresses stand in the evidence
    }
    slow = any(one.level == "error" for one in bad)
    return Hit(values, evidence, variant=worst.basis, severity=Severity.ERROR if slow else Severity.WARNING)


@check(sees_missing=("system", "gpus", "torch", "symptoms", "backends"))
def distributed_unavailable(
    backends: BackendsFacts | Missing,
    torch: TorchFacts | Missing,
    system: SystemFacts | Missing,
    gpus: GpusFacts | Missing,
    symptoms: SymptomsFacts | Missing,
) -> Hit | Unknown | None:
    """A torch without torch.distributed, or without the backend that several GPUs need."""
    matches = said(symptoms, "distributed-unavailable")
    version = None if isinstance(torch, Missing) else torch.version
    values = {"version": version or "this torch", "count": len(nvidia(gpus))}
    if value(matches, "part") == "libuv":
        older = SetEnv("USE_LIBUV", "0", "TCPStore then uses its older server")
        return Hit(values, quoted(matches), (older,), variant="libuv", severity=Severity.ERROR)
    if isinstance(backends, Missing):
        if matches:
            return Hit(values, quoted(matches), variant="said", severity=Severity.ERROR)
        if not isinstance(torch, Missing) and torch.import_status.value not in ("ok", "skipped"):
            return None
        return answer.trouble(backends, "backends")
    severity = Severity.ERROR if matches else None
    if backends.distributed is False:
        return Hit(values, quoted(matches), severity=severity)
    linux = isinstance(system, Missing) or system.os == "linux"
    cuda = not isinstance(torch, Missing) and torch.cuda is not None
    if backends.nccl is False and cuda and linux and len(nvidia(gpus)) > 1:
        return Hit(values, quoted(matches), variant="nccl", severity=severity)
    if matches and backends.nccl is not True:
        return Hit(values, quoted(matches), variant="said", severity=Severity.ERROR)
    return None


@check()
def gpu_kernel_failed(devices: DevicesFacts) -> Hit | None:
    """A kernel on a visible device failed, or gave a wrong result."""
    wrong = [one for one in devices.devices if one.kernel == "wrong"]
    failed = [one for one in opened(devices) or devices.devices if one.kernel == "failed"]  # of the others gpu-count-differs speaks
    if not wrong and not failed:
        return None
    bad = wrong or failed
    evidence = tuple(Evidence(f"kernel on device {one.index}", one.kernel_error or one.kernel or "") for one in bad[:4])
    values = {
        "devices": ", ".join(f"{one.index} ({one.name or one.kind})" for one in bad),
        "error": ((bad[0].kernel_error or "no error text").splitlines() or ["no error text"])[0][:300],
        "count": len(bad),
        "of": len(devices.devices),
    }
    return Hit(values, evidence, variant="wrong" if wrong else None)


CHECKS = (
    torch_dynamo_broken,
    live_wrong_result,
    live_hang,
    live_failed,
    live_inconclusive,
    wire_slow,
    distributed_unavailable,
    gpu_kernel_failed,
)
