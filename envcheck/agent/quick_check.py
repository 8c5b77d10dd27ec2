"""The live check, seen from the agent: which trials ("arms") there are, each a set of ranks of its own (arm_run.py)."""

from __future__ import annotations

import socket
import sys
import time

from . import arm_run, isolation, jsonl, rank_evidence, rank_start, strangers
from .torch_constants import group_of, has

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

    from .arm_spec import ArmSpec
    from .rank_start import Plan

STAGES = ["start", "device", "store", "init", "barrier", "all_reduce", "ddp", "destroy"]
SHORT = ["start", "device", "store", "init", "barrier", "all_reduce", "destroy"]
ALONE = ["start", "device", "step"]
SIZES = (4, 64 << 10, 4 << 20)  # bytes of int32; the second is the first that an MTU black hole swallows
SOCKETS_ONLY = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_IB_DISABLE": "1", "NCCL_NET": "Socket", "NCCL_NET_PLUGIN": "none"}
TRANSPORT_STEPS = (
    ("nccl-p2p-off", {"NCCL_P2P_DISABLE": "1"}),
    ("nccl-shm-off", {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"}),
    ("nccl-ib-off", SOCKETS_ONLY),
)


def check(
    options: Dict[str, Any],
    writer: jsonl.Writer,
    asked: Any,
    no_fork: Optional[str],
    stage_seconds: float,
    deadline: float,
    full: Optional[Callable[[Plan, Any, Any, str], List[str]]] = None,
    tasks: Optional[Dict[str, Callable[..., None]]] = None,
) -> Dict[str, Any]:
    """Run the arms one after the other and write each result. `asked` is what the devices' child said, or None;
    `no_fork` why ranks are started afresh, None where they are forked.

    `full` does the rest of `--live full`, with `tasks` that its ranks may be given.
    """
    import torch

    dist = group_of(torch)
    plan = rank_start.Plan(options, writer, no_fork is None, stage_seconds, deadline)
    plan.host, plan.exposed = isolation.make()
    try:
        skipped, control = run_arms(plan, dist, asked) if dist else (one_process_arms(plan, asked), "fail")
        value: Dict[str, Any] = {"start_method": "fork" if plan.fork else "spawn", "stage_seconds": plan.stage_seconds, "skipped": skipped}
        value["start_reason"] = no_fork or None
        if full:
            plan.tasks = tasks or {}
            value["order"] = full(plan, dist, asked, control)
    finally:
        plan.close()
    return value


def run_arms(plan: Plan, dist: Any, asked: Any) -> Tuple[List[str], str]:
    """Returns what was not tried, and why; and the status of the control arm."""
    wanted, world = plan.options["backend"], plan.options["nproc"]
    ranks = 2 if world in (None, "all") else world
    skipped: List[str] = []
    control = "fail"
    if has(dist, "gloo"):
        control, hangs = gloo_arms(plan, ranks)
        if hangs:  # each further arm would cost its whole deadline and say the same
            return ["no other backend was tried: gloo over loopback hangs with either store"], control
    else:
        skipped.append("gloo is not in this build, so there is no reference test")
    if wanted not in ("auto", "gloo"):
        if not has(dist, wanted):
            skipped.append("%s is not in this build" % wanted)
            return skipped, control
        if wanted not in ("nccl", "xccl"):
            run(plan, make_arm(wanted, wanted, "cpu", ranks))
            return skipped, control
    if wanted == "gloo":
        return skipped, control
    return skipped + accelerator_arms(plan, dist, asked, world, control), control


def gloo_arms(plan: Plan, ranks: int) -> Tuple[str, bool]:
    """Returns the status of the control arm, and whether it hangs with either store.

    The control arm is where no other process reaches it, if the kernel grants such a place: what it says is ours alone.
    """
    control = make_arm("gloo-loopback", "gloo", "cpu", ranks, loopback=True)
    control["isolated"] = plan.host is not None
    as_is = make_arm("gloo-as-is", "gloo", "cpu", ranks, store="file", stages=SHORT, sizes=SIZES[:2])
    first = begin(plan, control)
    # Beside it where ranks are forked; where each imports torch by itself they would only wait for the cores.
    second = arm_run.ArmRun(plan, as_is) if plan.fork else None
    if second:
        second.watch.lasting = bool(control["isolated"])  # else connections of our own come and go beside it
        second.start()
    status = finish(plan, first, second)
    if status == "pass" and second and not second.refused:
        plan.writer.line(begin="arm " + as_is["name"], at=time.monotonic())
        if finish(plan, second) != "pass":
            on_host_loopback(plan, control)
        return status, False
    if second:
        second.drop()  # its turn comes, undisturbed
    if status != "pass" and not (status == "fail" and all(one.stage == "ddp" for one in first.ranks)):  # else neither store nor place
        with_file = run(plan, make_arm("gloo-file-store", "gloo", "cpu", ranks, loopback=True, store="file", stages=SHORT))
        if status == with_file == "hang":
            return status, True
        if with_file == "pass" and control["isolated"]:  # the store, or the place
            status = run(plan, dict(control, isolated=False))  # type: ignore[arg-type] # its result takes the place of the first
    if run(plan, as_is) != "pass":
        on_host_loopback(plan, control)
    return status, False


def again(plan: Plan, arm: ArmSpec, before: Dict[str, Any], came: bool) -> Dict[str, Any]:
    """The result of an arm that went wrong while somebody whom nobody saw came and went, or may have, tried again under a closer look: what
    is this machine's fault comes again without him."""
    one = arm_run.ArmRun(plan, arm, strangers.Watch(share=0))
    one.start()
    result = ended(one)
    if one.refused and not came:  # no time was left for it
        return before
    if result["status"] == "pass" or one.refused or one.watch.others_came():
        return dict(before, status="inconclusive", reason=strangers.UNSEEN, ranks=[])
    return result


def on_host_loopback(plan: Plan, control: ArmSpec) -> None:
    """After what this machine's network did not let pass: whether its own loopback does, if the control arm was elsewhere."""
    if control["isolated"]:
        ranks = control["world_size"]
        run(plan, make_arm("gloo-host-loopback", "gloo", "cpu", ranks, loopback=True, store="file", stages=SHORT, sizes=SIZES[:2]))


def one_process_arms(plan: Plan, asked: Any) -> List[str]:
    """A step of training without a process group, where this build knows none; on the first free GPU too. Returns what that leaves open."""
    run(plan, one_process("one-process"))
    for row in usable(asked)[:1]:
        run(plan, one_process("one-process-gpu", row["kind"], [row["index"]]))
    return ["torch.distributed is not in this build"]


def one_process(name: str, device: str = "cpu", places: Sequence[int] = ()) -> ArmSpec:
    arm = make_arm(name, "none", device, 1, places=places, store="none", stages=ALONE)
    arm["alone"] = True
    return arm


def usable(asked: Any) -> List[Dict[str, Any]]:
    """The GPUs on which a kernel ran; `asked` is what the devices' child said."""
    return [row for row in (asked or {}).get("devices", ()) if row.get("kernel") == "ok" and row.get("kind") != "mps"]


def accelerator_arms(plan: Plan, dist: Any, asked: Any, world: Any, control: str) -> List[str]:
    free = usable(asked)
    if not free:
        held = [row for row in (asked or {}).get("devices", ()) if row.get("kernel") == "unknown"]
        # CUDA's words are followed by several lines of advice
        return ["no GPU was free for the live check: " + str(held[0].get("kernel_error")).partition("\n")[0]] if held else []
    kind = free[0]["kind"]
    backend = "xccl" if kind == "xpu" else "nccl"
    if not has(dist, backend):
        return ["%s is not in this build" % backend]
    places = [row["index"] for row in free]
    if len(places) >= 2:
        ranks = len(places) if world == "all" else min(len(places), world or 2)
        status = run(plan, make_arm(backend, backend, kind, ranks, places=places))
        if kind == "cuda" and (status != "pass" or plan.options["live"] == "full"):
            diagnose(plan, kind, ranks, places)
        if status != "pass" and backend == "nccl" and control == "pass":
            bisect_transports(plan, kind, ranks, places)
        return [] if ranks == len(places) else ["%d of the %d GPUs took part" % (ranks, len(places))]
    run(plan, make_arm(backend + "-one-rank", backend, kind, 1, places=places))
    if kind == "cuda" and has(dist, "gloo"):
        run(plan, make_arm("gloo-cuda", "gloo", kind, 2, places=places * 2, loopback=True))
    return ["%s between two GPUs: only one is visible" % backend.upper()]


def diagnose(plan: Plan, kind: str, ranks: int, places: List[int]) -> None:
    """NCCL's own diagnostics, where it has any. They print their result, which the tool reads, and never fail."""
    import torch

    if rank_evidence.has_diagnostics(torch):
        environment = {"NCCL_RUN_DIAGNOSTICS": "1"}
        run(plan, make_arm("nccl-diagnostics", "nccl", kind, ranks, places=places, environment=environment, stages=SHORT, sizes=SIZES[:1]))


def bisect_transports(plan: Plan, kind: str, ranks: int, places: List[int]) -> None:
    """Fresh ranks with one transport after the other switched off; the first arm that passes names the culprit."""
    for name, environment in TRANSPORT_STEPS:
        if run(plan, make_arm(name, "nccl", kind, ranks, places=places, environment=environment, stages=SHORT)) == "pass":
            return
    for interface in interfaces():
        name, environment = "nccl-socket-" + interface, dict(SOCKETS_ONLY, NCCL_SOCKET_IFNAME="=" + interface)
        if run(plan, make_arm(name, "nccl", kind, ranks, places=places, environment=environment, stages=SHORT)) == "pass":
            return


def interfaces() -> List[str]:
    """Names of interfaces that are up, loopback last."""
    names = [name for _, name in jsonl.attempt(socket.if_nameindex) or ()]

    def up(name: str) -> bool:
        try:
            with open("/sys/class/net/%s/operstate" % name, encoding="utf-8", errors="replace") as file:
                return file.read().strip() in ("up", "unknown")
        except OSError:
            return False

    return sorted((name for name in names if up(name)), key=lambda name: name == "lo")


def make_arm(
    name: str,
    backend: str,
    device: str,
    world: int,
    places: Sequence[int] = (),
    loopback: bool = False,
    store: str = "",
    stages: Sequence[str] = STAGES,
    sizes: Sequence[int] = SIZES,
    environment: Optional[Dict[str, str]] = None,
) -> ArmSpec:
    environment = dict(environment or {})
    store = store or ("tcp" if backend == "gloo" and device == "cpu" else "file")  # nobody else gets at a file
    if loopback and sys.platform == "linux":
        environment["GLOO_SOCKET_IFNAME"] = "lo"
    return {"name": name, "backend": backend, "device": device, "world_size": world, "places": list(places), "store": store,
            "stages": list(stages), "sizes": list(sizes), "environment": environment,
            "isolated": store in ("env://", "tcp://")}  # fmt: skip


def run(plan: Plan, arm: ArmSpec) -> str:
    """Run one arm, write its result, return its status."""
    return finish(plan, begin(plan, arm))


def begin(plan: Plan, arm: ArmSpec) -> arm_run.ArmRun:
    plan.writer.line(begin="arm " + arm["name"], at=time.monotonic())
    one = arm_run.ArmRun(plan, arm)
    one.start()
    return one


def finish(plan: Plan, one: arm_run.ArmRun, beside: Optional[arm_run.ArmRun] = None) -> str:
    result = ended(one, beside)
    if one.exposed and not strangers.killed(result):
        came = one.watch.others_came()
        # To hang once more would cost a deadline, and needs a better reason
        if (came and result["status"] == "hang") or (one.watch.may_have_come() and result["status"] == "fail"):
            result = again(plan, one.arm, result, came)
    write_result(plan, one.arm, result)
    return str(result["status"])


def ended(one: arm_run.ArmRun, beside: Optional[arm_run.ArmRun] = None) -> Dict[str, Any]:
    """The result of an arm. One that runs beside it is looked at as well, for who comes and goes there."""
    while not one.step(0.005 if beside else 0.1):
        if beside and not beside.refused:
            beside.looked(0)
    return one.result()


def write_result(plan: Plan, arm: ArmSpec, result: Dict[str, Any]) -> None:
    keys = ("name", "backend", "device", "world_size", "environment", "part")
    plan.writer.line(section="arm", value=dict({key: arm[key] for key in keys if key in arm}, **result))  # type: ignore[literal-required]
