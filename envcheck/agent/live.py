"""The ranks of the live check, and the loop in the agent that watches them.

Loaded by run.py after torch is imported. Every trial ("arm") is a fresh set of ranks, forked from the agent where that
is safe, else started afresh. A rank states each stage before it enters it; the agent holds the deadlines, because the
libraries' own time-outs are multiples of what one asks for. A rank leaves by os._exit inside its function: with gloo,
freeing DDP after destroy_process_group joins a thread while holding the GIL, and hangs.
"""

import json
import os
import signal
import socket
import sys
import time
import traceback

STAGES = ["start", "device", "store", "init", "barrier", "all_reduce", "ddp", "destroy"]
SHORT = ["start", "device", "store", "init", "barrier", "all_reduce", "destroy"]
SIZES = (4, 64 << 10, 4 << 20)  # bytes of int32; the second is the first that an MTU black hole swallows
SCRUB = ("RANK", "WORLD_SIZE", "LOCAL_", "GROUP_", "ROLE_", "MASTER_", "PET_", "TORCHELASTIC_", "SLURM_", "OMPI_", "PMI_", "PMIX_", "JSM_")
LADDER = (
    ("nccl-p2p-off", {"NCCL_P2P_DISABLE": "1"}),
    ("nccl-shm-off", {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"}),
    ("nccl-ib-off", {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_IB_DISABLE": "1", "NCCL_NET": "Socket", "NCCL_NET_PLUGIN": "none"}),
)


def check(options, writer, asked, fork, import_seconds):
    """Run the arms one after the other and write each result. `asked` is what the devices' child said, or None."""
    import torch

    began = time.monotonic()
    plan = Plan(options, writer, fork, max(10.0, min(60.0, 3 * import_seconds + 5)), began + options["live_seconds"])
    if not available(torch):
        writer.line(section="live", value={"unavailable": "torch.distributed is not in this build"})
        return
    writer.line(section="live", value={"start_method": "fork" if fork else "spawn", "stage_seconds": plan.stage_seconds, "skipped": run_arms(plan, torch, asked)})


class Plan:
    """What all arms share."""

    def __init__(self, options, writer, fork, stage_seconds, deadline):
        self.options, self.writer, self.fork = options, writer, fork
        self.stage_seconds = options.get("stage_seconds") or stage_seconds
        self.deadline = deadline


def available(torch):
    try:
        return bool(torch.distributed.is_available())
    except Exception:
        return False


def run_arms(plan, torch, asked):
    """Returns the list of what was not tried, and why."""
    dist = torch.distributed
    wanted, world = plan.options["backend"], plan.options["nproc"]
    ranks = 2 if world in (None, "all") else world
    skipped = []
    control = "fail"
    if has(dist, "gloo"):
        control = run(plan, arm("gloo-loopback", "gloo", "cpu", ranks, loopback=True))
        if control != "pass":
            second = run(plan, arm("gloo-file-store", "gloo", "cpu", ranks, loopback=True, store="file", stages=SHORT))
            if control == second == "hang":  # each further arm would cost its whole deadline and say the same
                return ["no other backend was tried: the control arm hangs with either store"]
        run(plan, arm("gloo-as-is", "gloo", "cpu", ranks, stages=SHORT, sizes=SIZES[:2]))
    else:
        skipped.append("gloo is not in this build: there is no control arm")
    if wanted not in ("auto", "gloo"):
        if not has(dist, wanted):
            skipped.append("%s is not in this build" % wanted)
            return skipped
        if wanted not in ("nccl", "xccl"):
            run(plan, arm(wanted, wanted, "cpu", ranks))
            return skipped
    if wanted == "gloo":
        return skipped
    return skipped + accelerator_arms(plan, dist, asked, world, control)


def has(dist, backend):
    try:
        return bool(getattr(dist, "is_%s_available" % backend)())
    except Exception:
        return False


def accelerator_arms(plan, dist, asked, world, control):
    usable = [row for row in (asked or {}).get("devices", ()) if row.get("kernel") == "ok" and row.get("kind") != "mps"]
    if not usable:
        held = [row for row in (asked or {}).get("devices", ()) if row.get("kernel") == "unknown"]
        return ["no GPU was free for the live check: " + str(held[0].get("kernel_error"))] if held else []
    kind = usable[0]["kind"]
    backend = "xccl" if kind == "xpu" else "nccl"
    if not has(dist, backend):
        return ["%s is not in this build" % backend]
    places = [row["index"] for row in usable]
    if len(places) >= 2:
        ranks = len(places) if world == "all" else min(len(places), world or 2)
        if run(plan, arm(backend, backend, kind, ranks, places=places)) != "pass" and backend == "nccl" and control == "pass":
            ladder(plan, kind, ranks, places)
        return [] if ranks == len(places) else ["%d of the %d GPUs took part" % (ranks, len(places))]
    run(plan, arm(backend + "-one-rank", backend, kind, 1, places=places))
    if kind == "cuda" and has(dist, "gloo"):
        run(plan, arm("gloo-cuda", "gloo", kind, 2, places=places * 2, loopback=True))
    return ["%s between two GPUs: only one is visible" % backend.upper()]


def ladder(plan, kind, ranks, places):
    """Fresh ranks with one transport after the other switched off; the first arm that passes names the culprit."""
    for name, environment in LADDER:
        if run(plan, arm(name, "nccl", kind, ranks, places=places, environment=environment, stages=SHORT)) == "pass":
            return
    for interface in interfaces():
        environment = dict(LADDER[-1][1], NCCL_SOCKET_IFNAME="=" + interface)
        if run(plan, arm("nccl-socket-" + interface, "nccl", kind, ranks, places=places, environment=environment, stages=SHORT)) == "pass":
            return


def interfaces():
    """Names of interfaces that are up, loopback last."""
    names = [name for _, name in socket.if_nameindex()]

    def up(name):
        try:
            with open("/sys/class/net/%s/operstate" % name) as file:
                return file.read().strip() in ("up", "unknown")
        except OSError:
            return False

    return sorted((name for name in names if up(name)), key=lambda name: name == "lo")


def arm(name, backend, device, world, places=(), loopback=False, store="tcp", stages=None, sizes=SIZES, environment=None):
    environment = dict(environment or {})
    if loopback and sys.platform == "linux":
        environment["GLOO_SOCKET_IFNAME"] = "lo"
    return {"name": name, "backend": backend, "device": device, "world_size": world, "places": list(places), "store": store,
            "stages": list(stages or STAGES), "sizes": list(sizes), "environment": environment}  # fmt: skip


def run(plan, arm):
    """Run one arm, write its result, return its status."""
    plan.writer.line(begin="arm " + arm["name"], at=time.monotonic())
    if time.monotonic() > plan.deadline - 1:
        result = {"status": "inconclusive", "reason": "no time was left for it", "ranks": []}
    else:
        result = watch(plan, arm, start_ranks(plan, arm))
    shown = {key: arm[key] for key in ("name", "backend", "device", "world_size", "environment")}
    plan.writer.line(section="arm", value=dict(shown, **result))
    return result["status"]


def start_ranks(plan, arm):
    """The ranks as a list of dicts: pid or process, and the channel that their events come through."""
    import torch

    arm["run"] = arm["name"]
    listener = None
    if arm["store"] == "tcp" and not (plan.fork and "master_listen_fd" in (torch.distributed.TCPStore.__init__.__doc__ or "")):
        arm["store"] = "file"  # without a socket of ours TCPStore would listen on every address
    if arm["store"] == "tcp":
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        listener.listen(128)
        arm["port"] = listener.getsockname()[1]
    ranks = []
    for rank in range(arm["world_size"]):
        ranks.append(fork_rank(plan, arm, rank, listener, ranks) if plan.fork else spawn_rank(plan, arm, rank))
    if listener:
        listener.close()
    return ranks


def fork_rank(plan, arm, rank, listener, earlier):
    receive, send = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(receive)
        for other in earlier:
            os.close(other["pipe"])
        if listener and rank:
            listener.close()
        rank_main(plan.options, arm, rank, os.fdopen(send, "w", buffering=1), listener if rank == 0 else None)
    os.close(send)
    os.set_blocking(receive, False)
    return {"rank": rank, "pid": pid, "pipe": receive, "rest": b"", "events": [], "since": time.monotonic()}


def spawn_rank(plan, arm, rank):
    import subprocess

    out = os.path.join(plan.options["folder"], "%s-%d.jsonl" % (arm["name"], rank))
    open(out, "w").close()
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "collect.py")
    options = dict(plan.options, rank=rank, arm=arm, out=out)
    process = subprocess.Popen([sys.executable, here, json.dumps(options)], stdin=subprocess.DEVNULL)
    return {"rank": rank, "pid": process.pid, "process": process, "file": open(out, "rb"), "rest": b"", "events": [], "since": time.monotonic()}


def watch(plan, arm, ranks):
    """Wait for all ranks, each stage within its deadline; end them all when one fails or none moves."""
    began = time.monotonic()
    failed_at = None
    while True:
        wait_for_events(ranks)
        now = time.monotonic()
        for one in ranks:
            poll(one, now)
        running = [one for one in ranks if "status" not in one]
        if not running:
            break
        if failed_at is None and any(troubled(one) for one in ranks):
            failed_at = now
        # The others wait for the one that failed; what they would say in the end is a consequence.
        if failed_at is not None and now > failed_at + 2:
            break
        if now > plan.deadline or any(now - one["since"] > allowed(plan, arm, one) for one in running):
            break
    late = [one for one in ranks if "status" not in one]
    if late:
        end(late, plan)
    return verdict(plan, arm, ranks, late, failed_at, time.monotonic() - began)


def allowed(plan, arm, one):
    """Seconds that the stage a rank is in may take. A spawned rank imports torch first; NCCL's first contact builds everything."""
    stage = last_stage(one)
    if stage is None or stage == "start":
        return plan.stage_seconds * (1 if plan.fork else 4)
    return plan.stage_seconds * (2 if arm["backend"] in ("nccl", "xccl") and stage in ("init", "barrier") else 1)


def last_stage(one):
    entered = [event["enter"] for event in one["events"] if "enter" in event]
    return entered[-1] if entered else None


def troubled(one):
    return any("fail" in event for event in one["events"]) or ("status" in one and one["status"] != 0)


def wait_for_events(ranks):
    pipes = [one["pipe"] for one in ranks if "pipe" in one and "status" not in one]
    if pipes:
        import select

        select.select(pipes, [], [], 0.1)
    else:
        time.sleep(0.05)


def poll(one, now):
    """Take in new events and, if the rank is gone, its exit status."""
    if "status" in one:
        return
    gone = exit_status(one)  # asked before the last read, so that nothing written before the end is missed
    data = b""
    try:
        while True:
            part = os.read(one["pipe"], 65536) if "pipe" in one else one["file"].read(65536)
            if not part:
                break
            data += part
    except BlockingIOError:
        pass
    lines = (one["rest"] + data).split(b"\n")
    one["rest"] = lines.pop()
    for line in lines:
        try:
            event = json.loads(line.decode())
        except ValueError:
            continue
        one["events"].append(event)
        one["since"] = now
    if gone is not None:
        one["status"] = gone
        if "pipe" in one:
            os.close(one["pipe"])
    elif data == b"" and "pipe" in one:
        time.sleep(0.001)  # the pipe may be at its end a moment before the process is


def exit_status(one):
    """Exit code, negative for a signal, None while it runs."""
    if "process" in one:
        return one["process"].poll()
    done, status = os.waitpid(one["pid"], os.WNOHANG)
    if not done:
        return None
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def end(late, plan):
    """Stacks first, then SIGKILL. Only pids that are our own unreaped children, so none can belong to another process."""
    if hasattr(signal, "SIGUSR1"):
        for one in late:
            one["state"] = process_state(one["pid"])
            os.kill(one["pid"], signal.SIGUSR1)
        time.sleep(0.5)
    for one in late:
        if "process" in one:
            one["process"].kill()
        else:
            os.kill(one["pid"], signal.SIGKILL)
    limit = time.monotonic() + 3
    for one in late:
        while exit_status(one) is None:
            if time.monotonic() > limit:
                one["abandoned"] = True  # stuck in the kernel; nothing ends it
                break
            time.sleep(0.01)


def process_state(pid):
    """State and kernel wait channel, e.g. "T (stopped)", "S (sleeping) in ep_poll"."""
    state = ""
    try:
        with open("/proc/%d/status" % pid) as file:
            for line in file:
                if line.startswith("State:"):
                    state = line.split(":", 1)[1].strip()
        with open("/proc/%d/wchan" % pid) as file:
            channel = file.read().strip()
        if channel and channel != "0":
            state += " in " + channel
    except OSError:
        pass
    return state


def verdict(plan, arm, ranks, late, failed_at, seconds):
    rows = [row(plan, arm, one, one in late) for one in ranks]
    bad = [one for one in rows if one["problem"] in ("failed", "wrong", "crashed")]
    hung = [one for one in rows if one["problem"] == "hang"]
    if bad:
        first = min(bad, key=nearness_to_the_cause)
        status, reason = "fail", "rank %d: %s" % (first["rank"], first["error"] or "no reason given")
    elif hung:
        status, reason = "hang", hang_reason(arm, rows, hung)
    else:
        status, reason = "pass", ""
    for one in rows:
        for key in ("problem", "failed_at", "state"):
            one.pop(key)
    return {"status": status, "reason": reason, "seconds": seconds, "ranks": rows}


# What a rank says when another one has gone.
VICTIM = ("closed by peer", "reset by peer", "Broken pipe", "remote worker", "Connection refused", "Timed out", "timed out", "timeout", "recvValue", "NCCL communicator was aborted")


def nearness_to_the_cause(one):
    """Who died or computed wrongly comes before who complains of a peer; among equals the first."""
    victim = any(word in one["error"] for word in VICTIM)
    order = {"crashed": 0, "wrong": 1}.get(one["problem"], 3 if victim else 2)
    return order, one["failed_at"] or float("inf")


def hang_reason(arm, rows, hung):
    """Names the rank that is behind: stopped, or at an earlier stage, or outside the library in which the others wait."""
    order = {name: at for at, name in enumerate(arm["stages"])}
    back = min(order.get(one["last_stage"], -1) for one in rows)
    behind = [one for one in rows if order.get(one["last_stage"], -1) == back]
    stage = behind[0]["last_stage"] or "start"
    stopped = [one for one in hung if one["state"].startswith("T")]
    if stopped:
        return "rank %s did not leave the stage %s: stopped by a signal" % (numbers(stopped), stopped[0]["last_stage"] or "start")
    outside = [one for one in behind if innermost(one["stack"]) and not waits(one)]
    if outside and len(outside) < len(behind):
        place = innermost(outside[0]["stack"])
        return "rank %s did not enter the collective of the stage %s in which the others wait: it is in %s" % (numbers(outside), stage, place)
    return "rank %s did not leave the stage %s" % (numbers(behind), stage)


def numbers(rows):
    return ", ".join(str(one["rank"]) for one in rows)


def innermost(stack):
    """The innermost Python frame of faulthandler's main thread: `File "/x/y.py", line 79 in all_reduce` → "y.py:79 (all_reduce)"."""
    part = stack.partition("Current thread")[2] or stack
    for line in part.splitlines():
        if line.lstrip().startswith('File "'):
            path, _, rest = line.partition('File "')[2].partition('", line ')
            number, _, function = rest.partition(" in ")
            return "%s:%s (%s)" % (path, number, function)
    return ""


def waits(one):
    return any(part in innermost(one["stack"]) for part in ("/torch/distributed/", "/torch/autograd/", "/torch/nn/parallel/"))


def row(plan, arm, one, was_late):
    """One rank as facts.RankFacts wants it, with `problem`, `failed_at` and `state` for the verdict."""
    stages, error, problem, failed_at = [], "", "", None
    for event in one["events"]:
        if "enter" in event:
            stages.append({"name": event["enter"], "status": "entered"})
        elif "leave" in event and stages:
            stages[-1].update(status="ok", seconds=event["seconds"])
        elif "fail" in event:
            problem, error, failed_at = event["status"], event["text"], event["at"]
            if stages:
                stages[-1].update(status=event["status"], detail=event["text"][:500])
    status = one.get("status")
    finished = [stage["name"] for stage in stages if stage["status"] == "ok"] == arm["stages"]
    if not problem and was_late:
        problem = "hang" if not finished else "failed"
        if stages:
            stages[-1]["status"] = "hang"
    elif not problem and status is not None and (status != 0 or not finished):
        problem = "crashed"
        error = "died with " + signal_name(-status) if status < 0 else "left with exit code %d" % status
        error += " in the stage %s" % (stages[-1]["name"] if stages else "start")
        if stages:
            stages[-1].update(status="failed", detail=error)
    name = "%s-%d" % (arm["name"], one["rank"])
    result = {
        "rank": one["rank"], "pid": one["pid"], "last_stage": stages[-1]["name"] if stages else None, "stages": stages, "error": error,
        "exit_code": status if status is not None and status >= 0 else None,
        "signal": signal_name(-status) if status is not None and status < 0 else None,
        "stack": "", "stderr": "", "problem": problem, "failed_at": failed_at, "state": one.get("state", ""),
    }  # fmt: skip
    if problem:
        result["stderr"] = tail(os.path.join(plan.options["folder"], name + ".log"))
        stack = tail(os.path.join(plan.options["folder"], name + ".stack"))
        result["stack"] = (one.get("state", "") + "\n" if was_late else "") + stack
        if one.get("abandoned"):
            result["error"] = "does not end even by SIGKILL: it is stuck in the kernel and was left behind"
    return result


def signal_name(number):
    try:
        return signal.Signals(number).name
    except ValueError:
        return "signal %d" % number


def tail(path, limit=6000):
    try:
        with open(path, "rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - limit))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


# ---- inside a rank


def rank_process(options, writer):
    """A rank that was started afresh (spawn): torch is imported already; events go to its own file."""
    rank_main(options, options["arm"], options["rank"], writer.file, None)


class Rank:
    """One rank's way through the stages."""

    def __init__(self, out):
        self.out = out
        self.stage = "start"
        self.began = 0.0

    def say(self, **event):
        self.out.write(json.dumps(event) + "\n")
        self.out.flush()

    def enter(self, stage):
        self.stage, self.began = stage, time.monotonic()
        self.say(enter=stage)

    def leave(self):
        self.say(leave=self.stage, seconds=time.monotonic() - self.began)


class Wrong(Exception):
    """A collective or DDP gave other numbers than it must."""


def rank_main(options, arm, rank, out, listener):
    """Never returns."""
    code = 1
    me = Rank(out)
    try:
        prepare(options, arm, rank)
        stages(me, arm, rank, listener, options["folder"])
        code = 0
    except BaseException as error:
        try:
            traceback.print_exc()
            wrong = isinstance(error, Wrong)
            text = str(error) if wrong else "%s: %s" % (type(error).__name__, str(error)[:3000])
            me.say(fail=me.stage, status="wrong" if wrong else "failed", text=text, at=time.monotonic())
        except BaseException:
            code = 2
    finally:
        try:
            sys.stderr.flush()
        finally:
            os._exit(code)


def prepare(options, arm, rank):
    """Output to a file of this rank, stacks on SIGUSR1, the launcher's variables gone, the arm's variables set."""
    import faulthandler

    name = os.path.join(options["folder"], "%s-%d" % (arm["name"], rank))
    log = os.open(name + ".log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    faulthandler.enable(file=2)
    if hasattr(signal, "SIGUSR1"):
        faulthandler.register(signal.SIGUSR1, file=open(name + ".stack", "w"), all_threads=True)
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: nothing of ours outlives the agent
    for key in list(os.environ):
        if key.startswith(SCRUB):
            del os.environ[key]
    os.environ.update(arm["environment"])
    if arm["backend"] == "nccl":
        os.environ.setdefault("NCCL_DEBUG", "WARN")


def stages(me, arm, rank, listener, folder):
    me.enter("start")
    import datetime

    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    world = arm["world_size"]
    me.leave()

    me.enter("device")
    device = torch.device("cpu")
    if arm["device"] != "cpu":
        device = torch.device(arm["device"], arm["places"][rank])
        getattr(torch, arm["device"]).set_device(device)
        torch.ones(1, device=device).item()
    me.leave()

    me.enter("store")
    limit = datetime.timedelta(seconds=120)  # never the first to give up: the agent's deadlines are shorter
    store = make_store(dist, arm, rank, world, listener, folder, limit)
    me.leave()

    me.enter("init")
    join(dist, arm, rank, world, store, limit, device)
    me.leave()

    me.enter("barrier")
    if arm["backend"] == "nccl":
        dist.barrier(device_ids=[device.index])
    else:
        dist.barrier()
    me.leave()

    me.enter("all_reduce")
    for size in arm["sizes"]:
        all_reduce(torch, dist, rank, world, device, size)
    me.leave()

    if "ddp" in arm["stages"]:
        me.enter("ddp")
        ddp(torch, dist, rank, world, device, arm["backend"])
        me.leave()

    me.enter("destroy")
    dist.destroy_process_group()
    me.leave()


def make_store(dist, arm, rank, world, listener, folder, limit):
    if arm["store"] == "file":
        return dist.FileStore(os.path.join(folder, arm["name"] + ".store"), world)
    if rank == 0:
        # The socket was bound to loopback before the fork, so there is no moment at which another process can take the port.
        return dist.TCPStore("127.0.0.1", arm["port"], world, True, limit, wait_for_workers=False, master_listen_fd=listener.detach())
    return dist.TCPStore("127.0.0.1", arm["port"], world, False, limit, wait_for_workers=False)


def join(dist, arm, rank, world, store, limit, device):
    fixed = {"store": store, "rank": rank, "world_size": world, "timeout": limit}
    if arm["device"] != "cpu" and arm["backend"] != "gloo":
        try:
            # With device_id the communicator is built here, so that its failure is not blamed on the first collective.
            dist.init_process_group(arm["backend"], device_id=device, **fixed)
            return
        except TypeError:
            pass
    dist.init_process_group(arm["backend"], **fixed)


def all_reduce(torch, dist, rank, world, device, size):
    """Integers that differ by place and by rank, so that neither a missing rank nor a shifted buffer goes unseen."""
    count = size // 4
    pattern = torch.arange(count, dtype=torch.int32, device=device) % 1000 + 1
    tensor = pattern * (rank + 1)
    dist.all_reduce(tensor)
    expected = pattern * (world * (world + 1) // 2)
    if not torch.equal(tensor, expected):
        bad = (tensor != expected).nonzero()
        first = int(bad[0].item())
        raise Wrong(
            "all_reduce of %d bytes over %d ranks: %d of %d values are wrong, the first at %d is %d and must be %d"
            % (size, world, bad.shape[0], count, first, int(tensor[first].item()), int(expected[first].item()))
        )


def ddp(torch, dist, rank, world, device, backend):
    """Two steps of DistributedDataParallel against the same model trained in this process on all ranks' batches."""

    def model():
        torch.manual_seed(7)
        layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
        return layers.to(device=device, dtype=torch.float64)  # TF32 and the like blur float32 below 1e-3

    def batch(step, of_rank):
        generator = torch.Generator().manual_seed(100 * step + of_rank)
        return torch.randn(5, 8, generator=generator, dtype=torch.float64).to(device)

    reference, mine = model(), model()
    if rank:  # the constructor must bring rank 0's parameters here
        with torch.no_grad():
            for parameter in mine.parameters():
                parameter.add_(rank)
    places = [device.index] if device.type == "cuda" else None
    wrapped = torch.nn.parallel.DistributedDataParallel(mine, device_ids=places)
    compare(torch, dist, "parameters after construction", mine, reference, rank, world, backend, lambda p: p)
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.1)
    ideal = torch.optim.SGD(reference.parameters(), lr=0.1)
    for step in range(2):
        optimizer.zero_grad()
        ideal.zero_grad()
        wrapped(batch(step, rank)).square().mean().backward()
        (sum(reference(batch(step, other)).square().mean() for other in range(world)) / world).backward()
        compare(torch, dist, "gradients of step %d" % (step + 1), mine, reference, rank, world, backend, lambda p: p.grad)
        optimizer.step()
        ideal.step()
        compare(torch, dist, "parameters after step %d" % (step + 1), mine, reference, rank, world, backend, lambda p: p)
    del wrapped, optimizer, mine


def compare(torch, dist, what, mine, reference, rank, world, backend, pick):
    """Equal to the single-process mean within float64 rounding, and equal over ranks to the bit."""
    flat = torch.cat([pick(p).detach().reshape(-1) for p in mine.parameters()])
    ideal = torch.cat([pick(p).detach().reshape(-1) for p in reference.parameters()])
    scale = max(float(ideal.abs().max()), 1e-12)
    error = float((flat - ideal).abs().max()) / scale
    if not error < 1e-9:
        raise Wrong("DDP: the %s of rank %d differ from the single-process mean by %.3g of its largest value" % (what, rank, error))
    if world > 1:
        local = flat if backend not in ("gloo", "mpi") else flat.cpu()  # gloo gathers CPU tensors only
        everyone = [torch.empty_like(local) for _ in range(world)]
        dist.all_gather(everyone, local)
        for other, theirs in enumerate(everyone):
            if not torch.equal(theirs, local):
                raise Wrong("DDP: the %s of rank %d and rank %d differ" % (what, rank, other))
