"""`envcheck fleet --ray`: a placement group with a bundle on each node, and in each bundle one process of the job.

The processes are `python -m envcheck.fleet` with torch's variables, as any other launcher starts them: Ray brings them to the nodes and
their output back, and nothing else of the check knows of it.
"""

from __future__ import annotations

import os
import secrets
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from envcheck.errors import UsageError
from envcheck.facts.printable import visible
from envcheck.facts.record import record
from envcheck.host.plain_files import beginning
from envcheck.report.fleet import BAD_HOST, CANNOT_TELL

CONNECT_SECONDS, INIT_SECONDS = 5.0, 60.0
CLUSTER_FILE = "/tmp/ray/ray_current_cluster"  # noqa: S108  # Ray's own place
RESERVE_SECONDS = 60.0  # for the placement group
END_SECONDS = 900.0  # the processes have deadlines of their own; this is the last
_HERE = ("--ray", "--nodes", "--gpus", "-o", "--output", "--exclude-file")
Put: TypeAlias = Callable[[str, "str | None"], None]
NEEDS_RAY = "--ray needs the package ray in this environment: pip install 'ray>=2.9'"


@record
class NodeEnd:
    """How the process of one node ended."""

    host: str
    code: int
    stdout: str
    stderr: str
    files: tuple[str | None, ...] = ()  # what it wrote into each file that was asked for


def run_on_ray(
    address: str, words: Sequence[str], files: Sequence[tuple[str, str]], put: Put, *, nodes: int | None, gpus: int | None
) -> int:
    """The job's exit code. What rank 0 wrote is written here, and what went wrong elsewhere said in a line each.

    `files` are flags with the path that `put` writes here: ("-ojson=", "report.json"), ("--exclude-file=", "bad.txt").
    """
    try:
        import ray
    except ImportError:
        raise UsageError(NEEDS_RAY) from None
    _connect(ray, address)
    try:
        ends = _run(ray, flags_of_node(words), [flag for flag, _ in files], nodes, gpus)
    finally:
        ray.shutdown()
    for (_, path), text in zip(files, ends[0].files, strict=False):
        if text is not None:
            put(text, path)
    return _told(ends, put)


def _connect(ray: Any, address: str) -> None:
    """UsageError where no cluster answers. Ray itself looks for minutes, or for ever, for a head that is gone."""
    host, colon, port = _listed(address).removeprefix("ray://").rpartition(":")
    if colon and port.isdecimal():
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS).close()
        except (OSError, OverflowError) as error:
            why = f"{host}:{port}: {getattr(error, 'strerror', None) or error}"
            raise UsageError(f"--ray {address}: no Ray cluster is reached ({why})") from None
    watch = threading.Timer(INIT_SECONDS, _give_up, (address,))
    watch.daemon = True
    watch.start()
    try:
        ray.init(address=address, ignore_reinit_error=True, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, ValueError, RuntimeError) as error:
        first = str(error).strip().splitlines()
        raise UsageError(f"--ray {address}: no Ray cluster is reached ({first[0] if first else type(error).__name__})") from None
    finally:
        watch.cancel()


def _listed(address: str) -> str:
    """What "auto" means to Ray: the variable, then the file that `ray start` leaves, also after its cluster has gone."""
    if address != "auto":
        return address
    try:
        left = beginning(CLUSTER_FILE, 200).strip()
    except OSError:
        left = ""
    return os.environ.get("RAY_ADDRESS") or left


def _give_up(address: str) -> None:
    os.write(2, f"envcheck: --ray {address}: no Ray cluster answered within {INIT_SECONDS:g} seconds\n".encode())
    os._exit(2)


def flags_of_node(words: Sequence[str]) -> list[str]:
    """The user's flags as each node's process gets them: without what is Ray's, and without files, which are wanted here."""
    kept: list[str] = []
    at = 0
    while at < len(words):
        word = words[at]
        name, equals, _ = word.partition("=")
        at += 1
        if word.startswith("-o") and word != "-o":
            continue  # -oFILE
        if name not in _HERE:
            kept.append(word)
        elif not equals and at < len(words) and not words[at].startswith("-"):
            at += 1
    return kept


def _run(ray: Any, flags: Sequence[str], files: Sequence[str], nodes: int | None, gpus: int | None) -> list[NodeEnd]:
    from ray.util.placement_group import placement_group, remove_placement_group

    bundles = bundles_for([one["Resources"] for one in ray.nodes() if one["Alive"]], nodes, gpus)
    group = placement_group(bundles, strategy="STRICT_SPREAD")
    try:
        try:
            ray.get(group.ready(), timeout=RESERVE_SECONDS)
        except ray.exceptions.GetTimeoutError:
            text = f"--ray: {len(bundles)} nodes with a free CPU and their GPUs are not found within {RESERVE_SECONDS:g} seconds"
            raise UsageError(text) from None
        return _started(ray, group, bundles, flags, files)
    finally:
        remove_placement_group(group)


def bundles_for(alive: Sequence[Mapping[str, float]], nodes: int | None, gpus: int | None) -> list[dict[str, float]]:
    """What is reserved on each node: a CPU and its GPUs, so that no other task is examined with it."""
    able = sorted((one for one in alive if one.get("CPU", 0) >= 1 and one.get("GPU", 0) >= (gpus or 0)), key=lambda one: -one.get("GPU", 0))
    wanted = len(able) if nodes is None else nodes
    if not able or wanted > len(able):
        each = "a CPU" + (f" and {gpus} GPUs" if gpus else "")
        raise UsageError(f"--ray: {wanted or 'some'} nodes are wanted, and {len(able)} with {each} are alive")
    made = []
    for one in able[:wanted]:
        mine = one.get("GPU", 0) if gpus is None else gpus
        made.append({"CPU": 1.0, **({"GPU": float(mine)} if mine else {})})
    return made


def _started(ray: Any, group: Any, bundles: Sequence[Mapping[str, float]], flags: Sequence[str], files: Sequence[str]) -> list[NodeEnd]:
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    node_process = ray.remote(max_retries=0)(_node_process)
    where = ray.remote(max_retries=0, num_cpus=0)(_address)
    token = secrets.token_hex(16)  # of this run: no launcher's number tells strangers from ours

    def at(bundle: int) -> PlacementGroupSchedulingStrategy:
        return PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=bundle)

    master = ray.get(where.options(scheduling_strategy=at(0)).remote(), timeout=RESERVE_SECONDS)
    tasks = []
    for rank, bundle in enumerate(bundles):
        env = variables_of(rank, len(bundles), master, token)
        options = {"num_cpus": bundle["CPU"], "num_gpus": bundle.get("GPU", 0), "scheduling_strategy": at(rank)}
        tasks.append(node_process.options(**options).remote(list(flags), env, list(files) if rank == 0 else []))
    done, _ = ray.wait(tasks, num_returns=len(tasks), timeout=END_SECONDS)
    return [_end(ray, task, rank, task in done) for rank, task in enumerate(tasks)]


def variables_of(rank: int, size: int, master: str, token: str) -> dict[str, str]:
    """What a process is told of its place: torch's own names, which every library reads."""
    names = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1, "NODE_RANK": rank}
    return {
        **{name: str(number) for name, number in names.items()},
        "MASTER_ADDR": master,
        "MASTER_PORT": "29500",
        "ENVCHECK_FLEET_JOB": token,
    }


def _address() -> str:
    """In a task on rank 0's node."""
    import ray

    return str(ray.util.get_node_ip_address())


def _node_process(flags: list[str], env: dict[str, str], files: list[str]) -> tuple[str, int, str, str, tuple[str | None, ...]]:
    """In a task on each node: the process itself, in the Python that Ray's workers have there, and what it wrote."""
    import os
    import socket
    import subprocess
    import sys
    import tempfile

    from envcheck import FOLDER

    def content(path: str) -> str | None:
        try:
            with open(path, encoding="utf-8") as file:
                return file.read()
        except OSError:
            return None

    with tempfile.TemporaryDirectory(prefix="envcheck-") as folder:
        os.chmod(folder, 0o700)  # whatever the umask has taken away
        paths = [os.path.join(folder, str(number)) for number in range(len(files))]
        written = [f"{flag}{path}" for flag, path in zip(files, paths, strict=True)]
        # by its path: `-m` would take an envcheck or a random.py of the folder that Ray has chosen
        words = (sys.executable, os.path.join(FOLDER, "__main__.py"), "fleet", *flags, *written)
        done = subprocess.run(words, env={**os.environ, **env}, capture_output=True, text=True, errors="replace", check=False, umask=0o077)
        return socket.gethostname(), done.returncode, done.stdout, done.stderr, tuple(content(path) for path in paths)


def _end(ray: Any, task: Any, rank: int, done: bool) -> NodeEnd:
    """A task whose node died is an end too."""
    if not done:
        ray.cancel(task, force=True)
        return NodeEnd(f"rank {rank}", CANNOT_TELL, "", f"did not end within {END_SECONDS:g} seconds")
    try:
        return NodeEnd(*ray.get(task))
    except ray.exceptions.RayError as error:
        return NodeEnd(f"rank {rank}", CANNOT_TELL, "", f"{type(error).__name__}: {str(error).strip().splitlines()[0]}")


def _told(ends: Sequence[NodeEnd], put: Put) -> int:
    sys.stderr.write(ends[0].stderr)
    put(ends[0].stdout, None)
    for end in ends[1:]:
        if end.code != ends[0].code:
            lines = end.stderr.strip().splitlines()
            print(visible(f"envcheck fleet: {end.host} ended with {end.code}{': ' + lines[-1] if lines else ''}"), file=sys.stderr)
    return job_code([end.code for end in ends])


def job_code(codes: Sequence[int]) -> int:
    """Rank 0's code is the job's; where it saw nothing wrong and another process did, that one's."""
    return codes[0] or next((code for code in (BAD_HOST, 1, CANNOT_TELL, *codes) if code and code in codes), 0)
