"""Runs the agent and the host's probes side by side, each with its budget, and makes one snapshot of them."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

from envcheck.errors import MachineFault
from envcheck.facts.dead_mount import answers
from envcheck.facts.record import field, mutable, record, replace
from envcheck.facts.snapshot import (
    WARNED,
    DriverFacts,
    GpusFacts,
    LimitsFacts,
    LiveStatus,
    Missing,
    Snapshot,
    SymptomsFacts,
    TorchFacts,
    VisibilityFacts,
    Why,
)
from envcheck.host.access import Host, RealHost
from envcheck.host.full_folder import full_folder, has_room
from envcheck.host.orphans import Offspring, statuses_kept
from envcheck.host.plain_files import temporary_folder
from envcheck.target.process import CANNOT_WRITE, Budget, Running, Target, end, finish, require_answer, require_folder, start
from envcheck.target.sections import sections

if TYPE_CHECKING:
    from envcheck.report.session import RuleSession

LONGEST_TEMPORARY = 51  # bytes: with our own name behind it, the longest that leaves room for sockets (agent/temporary.py)


@record
class Collected:
    snapshot: Snapshot
    timings: Mapping[str, float]  # seconds by probe, "agent", and the agent's steps as "agent.NAME"


@mutable
class Job:
    """One probe in a thread of its own. A thread that does not come back is left behind with its section."""

    sections: tuple[str, ...]
    run: Callable[[Host], Any]
    seconds: float  # budget
    thread: threading.Thread | None = None
    value: Any = None
    error: str | None = None
    took: float | None = None
    began: float = field(default_factory=time.monotonic)

    def start(self, host: Host) -> None:
        self.began = time.monotonic()
        thread = threading.Thread(target=self._work, args=(host,), daemon=True, name=self.sections[0])
        try:
            thread.start()
        except RuntimeError:  # no more of them (pids.max, ulimit -u): one after the other
            self._work(host)
            return
        self.thread = thread

    def _work(self, host: Host) -> None:
        try:
            self.value = self.run(host)
        except Exception as error:  # a probe's bug costs its own section
            self.error = f"{type(error).__name__}: {error}"
        self.took = time.monotonic() - self.began

    def result(self, deadline: float) -> dict[str, Any]:
        """Section name → facts or Missing, at the latest at the end of the budget or at `deadline`."""
        if self.thread is not None:
            self.thread.join(max(0.0, min(self.began + self.seconds, deadline) - time.monotonic()))
        if self.took is None:
            missing = Missing(Why.TIMEOUT, f"the {self.sections[0]} probe did not end within {time.monotonic() - self.began:.0f} s")
            return dict.fromkeys(self.sections, missing)
        if self.error is not None:
            return dict.fromkeys(self.sections, Missing(Why.FAILED, f"the {self.sections[0]} probe failed: {self.error}"))
        values = self.value if len(self.sections) > 1 else (self.value,)
        return dict(zip(self.sections, values, strict=True))


def host_jobs(budget: Budget, gpu_seconds: float = 20.0) -> list[Job]:
    """Every probe of the host; imported here, while the agent is already at work."""
    from envcheck.probes import container, cuda_driver, driver, launcher, limits, mps, network, rocm, system, toolkit, visibility, xpu

    short = min(10.0, 0.4 * budget.total)
    # A big box without persistence mode needs 8 s and more for one nvidia-smi.
    long = min(gpu_seconds, 0.4 * budget.total)
    return [
        Job(("driver", "gpus"), lambda host: driver.probe_driver(host, long), long + 2),
        Job(("cuda_driver",), cuda_driver.probe, long),
        Job(("toolkit",), toolkit.probe, short),
        Job(("system",), system.probe, short),
        Job(("limits",), limits.probe, short),
        Job(("network",), network.probe, short),
        Job(("launcher",), launcher.probe, short),
        Job(("visibility",), visibility.probe, short),
        Job(("container",), container.probe, short),
        Job(("rocm",), rocm.probe, short),
        Job(("xpu",), xpu.probe, short),
        Job(("mps",), mps.probe, short),
    ]


def examined(
    chosen: Target,
    options: Mapping[str, Any],
    budget: Budget,
    by: RuleSession,
    host: RealHost,
    asked: Host,
    meanwhile: Callable[[], None],
    tick: Callable[[str], None] | None = None,
    keep: Callable[[str, Collected], None] | None = None,
) -> Collected:
    """Start the agent, then everything else beside it; nothing of either is left. `asked` is `host`, or records what it answers.

    `keep` may take what it wants from the agent's folder before that is removed.
    """
    with ExitStack() as after:  # each is done whatever the others come to, the last one first
        after.enter_context(statuses_kept())
        folder = private_folder()
        after.callback(_removed, folder)
        offspring = Offspring()
        host.mark = offspring.mark
        after.callback(offspring.end)  # of a static check too: what it asks are programs from PATH
        after.callback(host.close)  # a probe that was given up may still have a child
        running = start(chosen, folder, budget, options, {**host.env, **offspring.mark})
        after.callback(end, running)
        offspring.adopt()  # while the agent starts, so that it costs no time
        collected = collect(asked, chosen, running, by, meanwhile, tick)
        if keep:
            keep(folder, collected)
        return collected


def _removed(folder: str) -> None:
    with suppress(RecursionError):  # Python 3.11 walks down by calling itself
        shutil.rmtree(folder, ignore_errors=True)
    if os.path.isdir(folder) and not os.path.islink(folder):
        with suppress(OSError):
            _removed_level_by_level(folder)
    with suppress(OSError):  # a target may have put a file or a link in its place
        os.unlink(folder)


def _removed_level_by_level(folder: str) -> None:
    """A tree of any depth, with short paths and few descriptors, and folders that their own owner may not enter: what lies in a folder is
    moved up before that one is removed."""
    new = (os.path.join(folder, f"{os.urandom(8).hex()}-{number}") for number in itertools.count())
    names, before = os.listdir(folder), [""]
    while names != before:  # something still goes
        for name in names:
            _moved_up(os.path.join(folder, name), new)
        before, names = names, os.listdir(folder)
    os.rmdir(folder)


def _moved_up(path: str, new: Iterator[str]) -> None:
    """Remove a file, or a folder when all that is in it has gone to new names."""
    if os.path.islink(path) or not os.path.isdir(path):
        with suppress(OSError):
            os.unlink(path)
        return
    with suppress(OSError):
        os.chmod(path, 0o700)
        for name in os.listdir(path):
            one = os.path.join(path, name)
            with suppress(OSError):
                if not os.path.islink(one):
                    os.chmod(one, 0o700)  # a folder that nobody may write to cannot be moved either
                os.rename(one, next(new))
        os.rmdir(path)


def _is_unicode(path: str) -> bool:
    """Whether torch, which takes names in UTF-8, can be told of it."""
    return not any("\ud800" <= sign <= "\udfff" for sign in path)


def private_folder() -> str:
    """A folder of our own, 0700. A container with a read-only root often has /dev/shm and nothing else to write in.

    A TMPDIR in which others could put a link in its place comes last, and so does one below which sockets would get too long names, or
    which torch could not be told in UTF-8.
    """
    from envcheck.host.ownership import others_move

    places = ["/dev/shm", f"/run/user/{os.getuid()}" if hasattr(os, "getuid") else ""]  # noqa: S108 - mkdtemp makes it 0700
    said = None
    try:
        usual = temporary_folder()
        unfit = len(os.fsencode(usual)) > LONGEST_TEMPORARY or not _is_unicode(usual)
        places = ["/tmp", *places, usual] if unfit or others_move(usual) else [usual, *places]  # noqa: S108
    except OSError as error:
        said = error.strerror
    for place in places:
        try:
            folder = tempfile.mkdtemp(prefix="envcheck-", dir=place)
        except OSError as error:
            said = said or error.strerror
            continue
        with suppress(OSError):  # a file system without modes, a filter of system calls
            os.chmod(folder, 0o700)  # whatever the umask has taken away
        if not has_room(folder):
            os.rmdir(folder)
            said = said or os.strerror(errno.ENOSPC)
            continue
        return folder
    raise MachineFault(f"no folder for temporary files can be written; set TMPDIR to one ({said})")


def collect(
    host: Host,
    target: Target,
    running: Running,
    by: RuleSession,
    meanwhile: Callable[[], None],
    tick: Callable[[str], None] | None = None,
) -> Collected:
    """The snapshot of this machine and of `target`, whose agent is already at work in `running`; `meanwhile` is done beside it."""
    budget, began = running.budget, running.began
    jobs = host_jobs(budget)
    for job in jobs:
        job.start(host)
    meanwhile()
    ended = finish(running, tick)
    require_folder(running, ended)
    require_answer(ended, target)
    found = sections(ended, target, static=running.static, live_asked=running.live_asked)
    deadline = began + budget.agent
    timings = {"agent": ended.seconds}
    for job in jobs:
        while tick and job.thread and job.thread.is_alive() and time.monotonic() < min(job.began + job.seconds, deadline):
            tick(job.sections[0])
            job.thread.join(0.25)
        found.update(job.result(deadline))
        if job.took is not None:
            timings[job.sections[0]] = job.took
    timings.update(steps(ended.lines))
    seen = _with_full_folder(Snapshot(**found), running, ended.code == CANNOT_WRITE)
    seen = _with_refused_calls(seen, host)
    seen = _with_insights(seen, running.folder, target, began + budget.total)
    snapshot = _scrubbed(settle(seen, by), running.folder)
    timings["facts"] = time.monotonic() - began
    return Collected(snapshot, timings)


def _with_full_folder(snapshot: Snapshot, running: Running, stopped: bool) -> Snapshot:
    """What the check wrote is still there; it may be what fills the folder. One that had no room for ours is told, too."""
    if isinstance(snapshot.limits, Missing):
        return snapshot
    ours, given = os.path.dirname(running.folder), running.env.get("TMPDIR")
    found = full_folder(ours, stopped)
    if found is None and given and answers(given) and os.path.isdir(given) and os.path.abspath(given) != ours:
        found = full_folder(os.path.abspath(given))
    return replace(snapshot, limits=replace(snapshot.limits, full_folder=found)) if found else snapshot


def _with_refused_calls(snapshot: Snapshot, host: Host) -> Snapshot:
    """A filter of system calls fails under names that point elsewhere; only what failed is worth the question."""
    torch, live = snapshot.torch, snapshot.live
    imported = isinstance(torch, Missing) or not (torch.import_failure or torch.dynamo_failure)
    sound = not live.trouble if isinstance(live, Missing) else live.status is LiveStatus.PASS
    if imported and sound:
        return snapshot
    from envcheck.probes import refused_calls

    refused, limits = refused_calls.probe(host), snapshot.limits
    if isinstance(limits, Missing):  # without threads there are no probes either
        return replace(snapshot, limits=LimitsFacts(refused_calls=refused)) if refused else snapshot
    return replace(snapshot, limits=replace(limits, refused_calls=refused))


def _with_insights(snapshot: Snapshot, folder: str, target: Target, deadline: float) -> Snapshot:
    """What the evidence of a live check that did not pass says; the folder is removed soon."""
    if isinstance(snapshot.live, Missing):
        return snapshot
    if snapshot.live.status is LiveStatus.PASS and not any(arm.backend == "nccl" for arm in snapshot.live.arms):
        return snapshot
    from envcheck.evidence.insights import with_insights

    return with_insights(snapshot, folder, target.executable, deadline - time.monotonic() - 3)


def steps(lines: tuple[dict[str, Any], ...]) -> dict[str, float]:
    """Seconds between one begin of the agent and the next, or its end."""
    begun = [(line.get("begin", "end"), float(line["at"])) for line in lines if "at" in line]
    return {f"agent.{name}": later - at for (name, at), (_, later) in zip(begun, begun[1:], strict=False)}


def _scrubbed(snapshot: Snapshot, folder: str) -> Snapshot:
    """Nothing in a report names our own temporary folder, which differs from run to run."""
    from envcheck.target.sections import private_stderr

    if isinstance(snapshot.torch, TorchFacts) and snapshot.torch.import_failure:
        failure = snapshot.torch.import_failure
        text, stack, stderr = (private_stderr(words, folder) for words in (failure.text, failure.stack, failure.stderr))
        failure = replace(failure, text=text, stack=stack, stderr=stderr)
        snapshot = replace(snapshot, torch=replace(snapshot.torch, import_failure=failure))
    if isinstance(snapshot.live, Missing) or not any(rank.stderr for arm in snapshot.live.arms for rank in arm.ranks):
        return snapshot

    def clean(arm: Any) -> Any:
        return replace(arm, ranks=tuple(replace(rank, stderr=private_stderr(rank.stderr, folder)) for rank in arm.ranks))

    arms = tuple(clean(arm) for arm in snapshot.live.arms)
    ranks = clean(snapshot.live).ranks
    return replace(snapshot, live=replace(snapshot.live, arms=arms, ranks=ranks))


def settle(snapshot: Snapshot, by: RuleSession) -> Snapshot:
    """Facts that follow from several sections: capabilities from product names, the GPUs that CUDA_VISIBLE_DEVICES leaves,
    and what error texts of this very run mean."""
    return _with_symptoms(_with_selection(_with_capabilities(snapshot, by)), by)


def _with_capabilities(snapshot: Snapshot, by: RuleSession) -> Snapshot:
    gpus = snapshot.gpus
    if not isinstance(gpus, GpusFacts) or all(gpu.compute_capability or not gpu.name for gpu in gpus.devices):
        return snapshot

    from envcheck.tables.gpu_names import capability_named

    def filled(gpu: Any) -> Any:
        if gpu.compute_capability or not gpu.name:
            return gpu
        known = capability_named(gpu.name, by.tables)
        return replace(gpu, compute_capability=known, compute_capability_source="table") if known else gpu

    return replace(snapshot, gpus=replace(gpus, devices=tuple(filled(gpu) for gpu in gpus.devices)))


def _with_selection(snapshot: Snapshot) -> Snapshot:
    visibility, gpus = snapshot.visibility, snapshot.gpus
    if not isinstance(visibility, VisibilityFacts) or not isinstance(gpus, GpusFacts):
        return snapshot
    from envcheck.facts.cuda_visible_devices import with_selection

    return replace(snapshot, visibility=with_selection(visibility, gpus))


def _words_of_imports(torch: TorchFacts | Missing) -> list[tuple[str, str]]:
    if isinstance(torch, Missing):
        return []
    tried = (("import torch", torch.import_failure), ("import torch._dynamo", torch.dynamo_failure))
    return [(what, f"{one.type}: {one.text}\n{one.stderr}") for what, one in tried if one]


def _with_symptoms(snapshot: Snapshot, by: RuleSession) -> Snapshot:
    """Error texts that this run met: the failed import, CUDA's words, the ranks' output.

    They are words of our own probes. What only a program of the user can have done wrong is not concluded from them.
    """
    devices, live = snapshot.devices, snapshot.live
    texts = _words_of_imports(snapshot.torch)
    if not isinstance(devices, Missing):
        texts += [("torch.cuda", text) for text in (*devices.warnings, devices.error or "")]
        texts += [(f"kernel on {one.kind}:{one.index}", one.kernel_error) for one in devices.devices if one.kernel_error]
    bereft: set[str] = set()  # sources: ranks that live on where another one was killed
    if not isinstance(live, Missing):
        for arm in live.arms:
            killed = any(rank.died_of for rank in arm.ranks)
            for rank in arm.ranks:
                if rank.error:
                    source = f"rank {rank.rank} of {arm.name}"
                    texts.append((source, f"{rank.error}\n{rank.stderr}"))
                    bereft |= {source} if killed and not rank.signal else set()
    if isinstance(snapshot.driver, DriverFacts):
        texts += [("nvidia-smi", snapshot.driver.smi.message), ("NVML", snapshot.driver.nvml.message)]
    texts = [(source, text) for source, text in texts if text.strip()]
    if not texts:
        return snapshot
    from envcheck.symptoms.scan import Scanner

    scanner = Scanner(by.symptoms)
    for source, text in texts:
        scanner.scan(text, source)
    met = scanner.finish().matches
    about = {match.rule: by.texts.read(match.rule).about for match in met}
    # A warning that no row knows is a clue about NCCL; on gloo's trials it may be about how envcheck starts them.
    met = tuple(match for match in met if match.variant != WARNED or "nccl" in match.source)
    found = [match for match in met if about[match.rule] != "program"]
    matches = tuple(match for match in found if not (match.source in bereft and about[match.rule] == "peer"))
    return replace(snapshot, symptoms=SymptomsFacts(matches))
