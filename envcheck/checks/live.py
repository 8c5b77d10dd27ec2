"""What the live check saw: ranks that fail, hang, or compute something else than they should."""

from __future__ import annotations

import re

from envcheck.checks.answer import driver_answers
from envcheck.checks.hardware import import_failed, number, nvidia, opened
from envcheck.checks.ladder import BAD, bisect_transports, controls, explains
from envcheck.checks.launch_sums import beside_libuv
from envcheck.checks.origin import missing_module, origin
from envcheck.checks.text import cite, first_of, quoted, value
from envcheck.checks.torch_build import not_read
from envcheck.checks.torch_import import at_work
from envcheck.engine.intents import UPGRADE, Install, Intent, Manual, TorchBuild
from envcheck.engine.rule import Answer, Evidence, Facts, Hit, Matches, Severity, check
from envcheck.facts.printable import begin_of
from envcheck.facts.record import record, replace
from envcheck.facts.secrets import end_of
from envcheck.facts.snapshot import LauncherFacts, LiveFacts, LiveStatus, RankFacts, RankReading
from envcheck.tables.versions import cuda_of_build, older

_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Exit|Interrupt)\b")  # "torch.distributed.DistBackendError: NCCL error in: …"
# Stage.detail of a rank that hangs in all_reduce, as agent/rank_verdicts.py writes it
_SIZES = re.compile(r"(\d{1,20}) bytes passed, (\d{1,20}) did not end")


@record
class Run:
    """A trial with ranks."""

    name: str
    ranks: tuple[RankFacts, ...]
    status: LiveStatus
    reason: str
    world_size: int


def _runs(live: LiveFacts) -> list[Run]:
    """Every trial with ranks. Steps of the search for the transport do not count."""
    counting = [arm for arm in live.arms if arm.part or (arm.ranks and not explains(arm))]
    runs = [Run(arm.name, arm.ranks, arm.status, arm.reason, arm.world_size) for arm in counting]
    if not live.ranks or any(one.status is live.status for one in runs):
        return runs
    return [Run(live.backend or "the process group", live.ranks, live.status, live.reason, live.world_size or len(live.ranks)), *runs]


def _wrong(run: Run) -> list[tuple[RankFacts, str, str]]:
    return [(rank, stage.name, stage.detail) for rank in run.ranks for stage in rank.stages if stage.status == "wrong"]


def _tail(rank: RankFacts) -> tuple[Evidence, ...]:
    """A rank's own words: its error, the end of its stderr, where it stood."""
    pieces = (("error", end_of(rank.error, 600)), ("stderr", _last_words(rank.stderr, 600)), ("stack", end_of(rank.stack, 1200)))
    return tuple(Evidence(f"rank {rank.rank}: {name}", text.strip()) for name, text in pieces if text.strip())


def _last_words(said: str, characters: int) -> str:
    """The end; of a crash the beginning of Python's own dump, where the innermost frames stand."""
    dump = said.rfind("Fatal Python error")
    return end_of(said.strip(), characters) if dump < 0 else begin_of(said[dump:], characters)


def _numbers(ranks: list[RankFacts]) -> str:
    return ", ".join(str(rank.rank) for rank in ranks)


def _others(live: LiveFacts, name: str) -> tuple[Evidence, ...]:
    """Further parts of the full check that went wrong besides the one that is reported."""
    bad = [arm for arm in live.arms if arm.part and arm.name != name and arm.status in BAD]
    return tuple(Evidence(f"trial {arm.name}", begin_of(f"{arm.status.value}: {arm.reason}", 300)) for arm in bad[:8])


@check(needs="torch", reads="torch packages gpus live symptoms")
def torch_dynamo_broken(facts: Facts, matches: Matches) -> Answer:
    failure = facts.torch.dynamo_failure
    if matches and facts.live.status is not LiveStatus.PASS:
        return _without_compiler(facts, matches)
    if failure is None or facts.live.status is LiveStatus.PASS:
        return None
    evidence = tuple(Evidence("import torch._dynamo", words) for words in (failure.stack or failure.stderr,) if words)
    values: dict[str, object] = {"error": f"{failure.type}: {failure.text}"}
    if "pkg_resources" in failure.text:
        return Hit(values, evidence, (Install(("setuptools<70",)),), variant="setuptools")
    if failure.type not in ("crashed", "timeout"):
        if part := _part_of_a_package(facts, failure.text):
            module, name, version = part
            again = Install((f"{name}=={version}",), reinstall=True)
            return Hit(values | {"module": module, "package": f"{name} {version}"}, evidence, (again,), "part")
        return Hit(values, evidence, variant="raised")
    where = origin(facts, failure.stack)
    variant = "working" if failure.type == "timeout" and at_work(failure) else None if where else "nowhere"
    return Hit({"how": failure.text, "where": where and where.file}, evidence, variant=variant)


def _without_compiler(facts: Facts, matches: Matches) -> Hit:
    """Too old a torch. Which build of a newer one fits is chosen where the text tells of the build or the GPU."""
    there = value(matches, "where") or ""
    first = facts.tables.first_to_compile(there)
    known = facts.torch.cuda or facts.torch.hip or facts.torch.cpu_build or facts.gpus.devices
    build: Intent = TorchBuild(f">={first}") if known else Install((f"torch>={first}",), flags=UPGRADE)
    newer = (build,) if first else ()
    on = there if there == "Windows" else f"Python {there}"
    return Hit({"on": on, "first": first or "a newer one"}, quoted(matches), newer, "compile")


def _part_of_a_package(facts: Facts, text: str) -> tuple[str, str, str] | None:
    """A module that is not there of a package that is, which pip takes for installed: "No module named 'sympy.core'"."""
    module = missing_module(text) or ""
    name, _, part = module.partition(".")
    version = facts.packages.version(name) if part else None
    return (module, name, version) if version else None


@check(needs="live", reads="live")
def live_wrong_result(facts: Facts) -> Answer:
    run = next((one for one in _runs(facts.live) if _wrong(one)), None)
    if run is None:
        return None
    wrong = _wrong(run)
    rank, stage, detail = wrong[0]
    values = {"arm": run.name, "stage": stage, "detail": detail or "no detail", "size": run.world_size}
    values["ranks"] = _numbers([one for one, _, _ in wrong])
    evidence = tuple(Evidence(f"rank {one.rank}: {at}", words) for one, at, words in wrong[:4] if words)
    return Hit(values, (*(evidence or _tail(rank)), *_others(facts.live, run.name)), variant="ddp" if stage == "ddp" else None)


@check(needs="live", reads="live")
def live_hang(facts: Facts) -> Answer:
    if facts.live.status is not LiveStatus.HANG:
        return None
    run = next((run for run in _runs(facts.live) if run.status is LiveStatus.HANG), None)
    if run is None:
        return Hit({"stage": "an unknown stage", "reason": facts.live.reason or "no reason given"}, variant="plain")
    if not run.ranks:  # a launcher that started nobody
        return Hit({"stage": "start", "reason": f"{run.name}: {run.reason}"}, _others(facts.live, run.name), variant="plain")
    return _hanging_ranks(facts.live, run)


def _hanging_ranks(live: LiveFacts, run: Run) -> Hit:
    reason, at = run.reason or live.reason, {rank.rank: [one.name for one in rank.stages if one.status == "hang"] for rank in run.ranks}
    stages = {rank.rank: (*at[rank.rank], rank.last_stage or "start")[0] for rank in run.ranks}  # where it hangs, else what it entered last
    stuck = [rank for rank in run.ranks if at[rank.rank]]
    stuck = stuck or [rank for rank in run.ranks if rank.last_stage != "destroy"]
    order = {stage: at for at, stage in enumerate(live.stages)}
    reached = [order.get(stages[rank.rank], 99) for rank in stuck]
    behind = [rank for rank, at in zip(stuck, reached, strict=True) if at == min(reached)]  # the suspects: the others wait for them
    gone = [rank for rank in run.ranks if rank not in stuck and (rank.signal or rank.exit_code)]
    size = _size_that_hangs(stuck, reason) if len(behind) == len(stuck) else {}
    values: dict[str, object] = {
        "arm": run.name,
        "size": run.world_size,
        "stage": stages[behind[0].rank] if behind else "an unknown stage",
        "ranks": _numbers(stuck) or "of unknown number",
        "behind": _numbers(behind),
        "where": "; ".join(f"rank {number} in {stage}" for number, stage in sorted(stages.items())[:16]),
        "reason": reason,
        "gone": _numbers(gone),
    }
    shown = list({rank.rank: rank for rank in (*gone, *behind, *stuck)}.values())[:3]
    variant = "gone" if gone else "size" if size else "behind" if len(behind) < len(stuck) else None
    return Hit(values | size, _evidence(live, run, shown), variant=variant)


def _size_that_hangs(stuck: list[RankFacts], reason: str) -> dict[str, object]:
    """The first size of all_reduce that did not end, and the last one that did, if they are the same for all.

    A rank that stays away is another story, whatever sizes it went through when the question for its stack woke it.
    """
    passed = [match for rank in stuck for one in rank.stages if (match := _SIZES.fullmatch(one.detail))]
    same = len(passed) == len(stuck) and len({match[0] for match in passed}) == 1 and _SIZES.search(reason)
    return {"passed": passed[0][1], "stuck_at": passed[0][2]} if same else {}


def _evidence(live: LiveFacts, run: Run, ranks: list[RankFacts]) -> tuple[Evidence, ...]:
    """What the analysis of stacks, logs and NCCL's services says of a trial, what these ranks say, and what else went wrong."""
    insights = tuple(Evidence(one.source, one.text) for one in live.insights if one.arm == run.name)[:6]
    return (*insights, *(one for rank in ranks for one in _tail(rank)), *_others(live, run.name))


@check(needs="live", reads="live network")
def live_failed(facts: Facts) -> Answer:
    if facts.live.status is not LiveStatus.FAIL or any(_wrong(run) for run in _runs(facts.live)):
        return None
    run = next((run for run in _runs(facts.live) if run.status is LiveStatus.FAIL), None)
    detail = facts.network.variables.get("TORCH_DISTRIBUTED_DEBUG", "").upper() == "DETAIL"
    return _failed_rank(facts.live, run, detail) if run else Hit({"error": facts.live.reason or "no reason given"}, variant="plain")


def _failed_rank(live: LiveFacts, run: Run, detail: bool) -> Hit:
    reason = run.reason or live.reason
    first = _nearest_to_the_cause(run, reason)
    # The line with the exception's name; pybind11 and gloo write several lines after it. Else the last one.
    lines = [line.strip() for line in (first.error if first else reason).splitlines() if line.strip()]
    headline = ([line for line in lines if _EXCEPTION.match(line)] or lines or [""])[-1]
    proved = [arm.name for arm in live.arms if arm.status is LiveStatus.PASS and not arm.part]  # by the quick check: the ground of the rest
    values: dict[str, object] = {
        "arm": run.name,
        "size": run.world_size,
        "rank": first.rank if first else "of unknown number",
        "stage": (first and next((one.name for one in first.stages if one.status == "failed"), first.last_stage)) or "an unknown stage",
        "error": begin_of(headline or reason or "no reason given", 400),
        "signal": first.signal if first else None,
        "passed": proved,
    }
    if first is None and any(arm.part and arm.name == run.name for arm in live.arms):
        variant: str | None = "arm"
    elif first and first.signal:
        variant = "detail" if detail else "signal"
    else:
        variant = "alone" if run.world_size == 1 else "but" if proved else None
    return Hit(values, _evidence(live, run, [first] if first else []), variant=variant)


def _nearest_to_the_cause(run: Run, reason: str) -> RankFacts | None:
    """The rank that the reason names; the others often only complain that a peer is gone."""
    failed = [rank for rank in run.ranks if any(stage.status == "failed" for stage in rank.stages) or rank.error or rank.signal]
    named = re.match(r"rank (\d{1,9})\b", reason)
    return next((rank for rank in failed if named and rank.rank == int(named[1])), failed[0] if failed else None)


@check(needs="live", reads="live")
def live_inconclusive(facts: Facts) -> Answer:
    found = bisect_transports(facts.live)
    if found and found.culprit == "machine":
        control = controls(facts.live)
        told = tuple(Evidence(f"trial {arm.name}", f"{arm.status.value}: {arm.reason}"[:400]) for arm in (found.plain, *control))
        return Hit({"control": [arm.name for arm in control]}, told, variant="control")
    if facts.live.status is not LiveStatus.INCONCLUSIVE:
        return None
    evidence = tuple(one for rank in facts.live.ranks[:2] for one in _tail(rank))
    return Hit({"reason": facts.live.reason.rstrip(".") or "no reason given"}, evidence)


@check(needs="live", reads="live gpus")
def wire_slow(facts: Facts) -> Answer:
    if facts.live.wire is None:
        return None
    from envcheck.checks.bandwidth import judge as judge_wire  # only after `--live full`

    judged = judge_wire(facts.live.wire, nvidia(facts.gpus), facts.tables)
    bad = sorted((one for one in judged if one.level != "ok"), key=lambda one: one.share)
    if not bad:
        return None
    worst = bad[0]
    evidence = tuple(
        Evidence(one.what, f"{one.gb_s:.1f} GB/s, {one.share:.0%} of {one.expected_gb_s:.1f} GB/s: {one.source}") for one in bad[:6]
    )
    values = {"what": worst.what, "rate": f"{worst.gb_s:.1f}", "expected": f"{worst.expected_gb_s:.1f}", "share": f"{worst.share:.0%}"}
    values["source"] = worst.source.partition(" (http")[0]  # the addresses stand in the evidence
    slow = any(one.level == "error" for one in bad)
    return Hit(values, evidence, variant=worst.basis, severity=Severity.ERROR if slow else Severity.WARNING)


# Where launchers say how many ranks there are in all
_RANKS_IN_ALL = (
    "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "JSM_NAMESPACE_SIZE", "SLURM_STEP_NUM_TASKS",
    "SLURM_NTASKS", "SLURM_NPROCS",
)  # fmt: skip


def _several_asked(ranks: int | None, launcher: LauncherFacts) -> str | None:
    """What asks for several processes: `--nproc`, or a launcher. None where one is all that is wanted."""
    if (ranks or 1) > 1:
        return f"--nproc {ranks}"
    first = launcher.readings[0] if launcher.readings else RankReading("env", world_size=launcher.world_size)
    if first.launcher == "pet":
        inputs = ("PET_NNODES", "PET_NPROC_PER_NODE")
        several = (first.nodes or 1) * (first.local_world_size or 1) > 1
        return ", ".join(f"{name}={launcher.variables[name]}" for name in inputs if name in launcher.variables) if several else None
    # Tasks of an allocation are no ranks before srun or mpirun starts them: many ask for them to get that many cores.
    if (first.world_size or 1) < 2 or not (first.complete or first.launcher in ("torchrun", "env", "ray", "kubeflow")):
        return None
    told = next((name for name in _RANKS_IN_ALL if number(launcher.variables.get(name)) == first.world_size), _RANKS_IN_ALL[0])
    return f"{told}={first.world_size}"


@check(needs="torch", reads="backends torch system gpus launcher expectations symptoms")
def distributed_unavailable(facts: Facts, matches: Matches) -> Answer:
    backends, torch, count = facts.backends, facts.torch, len(nvidia(facts.gpus))
    libuv = value(matches, "part") == "libuv"
    asked = _several_asked(facts.expectations.ranks, facts.launcher) if backends.distributed is False else None
    cases = {
        "libuv_launcher": libuv and beside_libuv(facts.launcher),
        "libuv": libuv,
        "asked": asked,
        "default": backends.distributed is False,
        "nccl": backends.nccl is False and torch.cuda and facts.system.os in (None, "linux") and count > 1,
        "no_nccl": value(matches, "backend") == "NCCL" and backends.nccl is not True and not facts.system.jetson,
        "no_mpi": value(matches, "backend") == "MPI",
        "said": matches and backends.nccl is not True,
    }
    values = {"version": torch.version or "of unknown version", "count": count, "asked": asked}
    if hit := first_of(cases, values, quoted(matches)):
        return replace(hit, severity=Severity.ERROR if matches else None)
    return None if import_failed(torch) else not_read("backends", facts.missing)


# A build's CUDA, the first that has code for newer cards, which cards those are, and an index with builds of it.
_NEWER_CARDS = (
    ("11.0", "GeForce RTX 30, A100 or newer", "cu118"),
    ("11.8", "GeForce RTX 40, L4, H100 or newer", "cu118"),
    ("12.8", "GeForce RTX 50, B200 or newer", "cu128"),
)


def _kernel_said(facts: Facts, matches: Matches) -> Hit:
    """Of a build of which no card is known, what would be wrong with it on a card that came later."""
    cuda = facts.torch.cuda or cuda_of_build(facts.torch.version)
    row = next((row for row in _NEWER_CARDS if cuda and older(cuda, row[0])), None)
    fixes: tuple[Intent, ...] = ()
    if row and not (nvidia(facts.gpus) or facts.torch.hip):
        text = (
            f"Look first which card it is: this torch is built for CUDA {cuda}, which has no code for {row[1]}."
            " On such a card install a newer build."
        )
        index = f"--index-url https://download.pytorch.org/whl/{row[2]}"
        steps = (
            "nvidia-smi --query-gpu=name,compute_cap --format=csv",
            f"python -m pip install --upgrade --force-reinstall torch torchvision {index}    # {row[1]}",
        )
        fixes = (Manual(text, commands=steps),)
    return Hit({"error": value(matches, "error") or matches[0].text}, quoted(matches), fixes, variant="said")


# CUDA's errors 209, 98 and 200, and 46: what the failure of a kernel is a case of.
_NO_CODE = re.compile(r"no kernel image|invalid device function|kernel image is invalid")
_TURNED_AWAY = re.compile(r"busy or unavailable")


_DIED = re.compile(r"asking the devices died with (SIG(?:SEGV|BUS|ABRT|ILL|FPE))\b")  # agent/devices.py; SIGKILL is somebody else's


@check(needs="devices", reads="devices cuda_driver torch gpus symptoms")
def gpu_kernel_failed(facts: Facts, matches: Matches) -> Answer:
    devices = facts.devices.devices
    if unread := facts.missing.get("devices"):  # torch's process may have died over a device that libcuda counts without complaint
        died = _DIED.search(unread.reason) if driver_answers(facts.cuda_driver) else None
        told = cite("the process that asks the devices", unread.reason, unread.evidence)
        if matches and not died:
            return _kernel_said(facts, matches)
        return Hit({"signal": died[1]}, told, variant="crashed") if died else None
    wrong = [one for one in devices if one.kernel == "wrong"]
    failed = [one for one in opened(facts.devices) or devices if one.kernel == "failed"]  # of the others gpu-count-differs speaks
    bad = wrong or failed
    if not bad:
        return _kernel_said(facts, matches) if matches else None
    evidence = tuple(Evidence(f"kernel on device {one.index}", one.kernel_error or one.kernel or "") for one in bad[:4])
    error = begin_of(((bad[0].kernel_error or "no error text").splitlines() or ["no error text"])[0], 300)
    names = ", ".join(f"{one.index} ({one.name or one.kind})" for one in bad)
    values = {"devices": names, "error": error, "count": len(bad), "of": len(devices)}
    cases = {"wrong": wrong, "image": _NO_CODE.search(error), "busy": _TURNED_AWAY.search(error), "default": True}
    return first_of(cases, values, evidence)
