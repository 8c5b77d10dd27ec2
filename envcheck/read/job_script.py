"""What was started, beside commands: #SBATCH lines, a pod's YAML, calls in code. And all of it as facts of the launcher.

#SBATCH --nodes=2                       resources:                          mp.spawn(main, nprocs=4)
#SBATCH --ntasks-per-node=8               limits: {nvidia.com/gpu: 8}       Trainer(devices=8, num_nodes=2)
#SBATCH --gres=gpu:8                    replicas: 4                         init_process_group(init_method="file:///tmp/x")
"""

from __future__ import annotations

import re

from envcheck.facts.record import replace
from envcheck.facts.snapshot import LaunchCommand
from envcheck.read import launch_commands
from envcheck.read.found import Found, Notes, line_at
from envcheck.read.launch_commands import Line, Started, build, logical_lines, read_commands, split

_BATCH = re.compile(r"\s{0,20}#SBATCH\s{1,20}(?P<flags>-[^#]{1,400})")
# "slurm's --gpus-per-task=1 with --ntasks=8": flags in a sentence about Slurm
_SLURM = re.compile(r"(?i)\b(?:slurm|sbatch|salloc|srun)\b")
_SLURM_FLAG = re.compile(
    r"(?<![\w-])--(?:gpus-per-task|ntasks-per-node|ntasks|tasks|tasks-per-node|nodes|gres|gpus-per-node)[= ](?:gpu:)?[\w:]{0,20}\d\b"
)
_SPAWN = re.compile(
    r"\b(?:spawn|start_processes|notebook_launcher)\((?:[^()\n]|\([^()\n]{0,80}\)){0,200}?\b(?P<word>(?:nprocs|num_processes)\s?=\s?\d{1,4})\b"
)
_TRAINER = re.compile(r"\b(?:Trainer|Fabric)\((?P<given>[^)]{0,600})")
_GIVEN = re.compile(r"\b(?P<name>devices|gpus|num_nodes)\s?=\s?(?P<value>\d{1,4})\b")
_TENSOR_PARALLEL = re.compile(r"\btensor_parallel_size\s?=\s?(?P<value>\d{1,3})\b")
_INIT_METHOD = re.compile(
    r"""(?i)\b(?:dist_)?(?:init[_-]method|dist[_-]url)["']?(?:\s?[=:]\s?| )["'](?P<quoted>[^"'\s]{3,300})["']"""
    r"""|\b(?:dist_)?(?:init[ _-]method|dist[_-]url)(?:[= ]|: ?)(?P<bare>(?:env|file|tcp)://[^\s"'`,;)]{0,300})"""
)
# "| distributed init (rank 0): env://", "Distributed init: rank 0/2 - out/dist_init", "File already exists: out/dist_init"
_INIT_PRINTED = re.compile(
    r"(?i)\bdistributed init[^\n]{0,20}?\brank \d{1,5}(?:/\d{1,5})?\)?\s?[:-]\s?(?P<where>[\w./:~-]{3,300})"
    r"|\bfile already exists: (?P<left>[\w./~-]{0,300}(?:dist|init|sync|rdzv|rendezvous)[\w.-]{0,60})"
)
_START_METHOD = re.compile(r"""\bset_start_method\(\s?["'](?P<method>spawn|fork|forkserver)["']""")
# Lightning: "initializing ddp: GLOBAL_RANK: 1, MEMBER: 2/8"; when all of them have met it says so
_GLOBAL_RANK = re.compile(r"GLOBAL_RANK: (?P<rank>\d{1,5}), MEMBER: \d{1,5}/(?P<size>\d{1,5})")
_MET_OR_ENDED = re.compile(r"processes registered|Traceback \(most recent call last\)")
_SCRIPT_OF_JOB = re.compile(
    r"(?m)^\s{0,20}(?P<command>(?:bash|sh|source|\.) [\w./~-]{1,200}\.sh|\./[\w./-]{1,200}\.sh)"
    r"(?P<given>(?: [\w./=-]{1,80}){0,12})\s{0,20}$"
)
_POD = re.compile(
    r"(?im)^\s{0,12}(?:- )?nvidia\.com/gpu|\b(?:in|inside|on|within|with)(?: an?| the| my| our)? (?:kubernetes|k8s|EKS|GKE|AKS|openshift)\b"
    r"|\bkubernetes pod\b|\bkubectl (?:-\S{1,30} (?:[\w-]{1,60} )?){0,3}(?:exec|logs|apply|describe|get)\b"
)
_KIND = re.compile(r"(?m)^kind: (?:Pod|Job|Deployment|StatefulSet|PyTorchJob|MPIJob|TrainJob|RayCluster|RayJob|JobSet)\s{0,4}$")
_LIMIT = re.compile(r"nvidia\.com/gpu[\"']?\s{0,4}:\s{0,4}[\"']?(?P<count>\d{1,3})\b")
_REPLICAS = re.compile(r"(?m)^\s{0,40}replicas:\s{0,4}(?P<count>\d{1,5})\b")


def read_started(text: str) -> Found | None:
    """The facts of a text that says what was started; None where it does not."""
    notes = Notes("launch command")
    seen = read_commands("\n".join([text, *_listed(text)]))
    rows = [*_batch(text, seen), *seen.rows]
    shift = len(rows) - len(seen.rows)
    rows = [replace(one, inside=one.inside + shift) if one.inside is not None else one for one in rows]
    rows = [*(_configured(text, one) for one in rows), *_in_code(text, seen)]
    if "#SBATCH" in text and all(one.launcher == "sbatch" for one in rows):
        rows = [*rows, *_script_of_job(text)]
    _rank_twice(notes, text)
    pods = _pods(text)
    if pods:
        rows = [*rows, pods]
    if rows:
        first = seen.lines[0] if seen.lines else _line_of(text, rows[0].words[0] if rows[0].words else "")
        notes.put("launcher.commands", tuple(rows[: launch_commands.MOST]), first.text, first.number)
    if pods or any(word in text for word in ("ubernetes", "k8s", "kubectl")):
        match = _POD.search(text) or _KIND.search(text)
        if match:
            notes.put("container.kubernetes", True, match[0], text.count("\n", 0, match.start()) + 1)
    for path, pattern in (
        ("launcher.init_method", _INIT_METHOD),
        ("launcher.init_method", _INIT_PRINTED),
        ("launcher.start_method", _START_METHOD),
    ):
        if match := pattern.search(text):
            value = next(group for group in match.groups() if group)
            notes.put(path, value, match[0], text.count("\n", 0, match.start()) + 1)
    return notes.found()


def _script_of_job(text: str) -> list[LaunchCommand]:
    """The shell script that a job script starts and that is not shown."""
    match = _SCRIPT_OF_JOB.search(text, text.find("#SBATCH"))
    if match is None:
        return []
    words = f"{match['command']}{match['given']}".split()
    return [LaunchCommand("bash", tuple(words), program=next(word for word in words if word.endswith(".sh")))]


def _rank_twice(notes: Notes, text: str) -> None:
    """Processes that take the same global rank, while others of the group do not come."""
    if "GLOBAL_RANK: " not in text:
        return
    end = _MET_OR_ENDED.search(text)
    found = [(match["rank"], match["size"], match[0]) for match in _GLOBAL_RANK.finditer(text, 0, end.start() if end else len(text))]
    ranks = [rank for rank, _, _ in found]
    twice = next((one for one in found if ranks.count(one[0]) > 1), None) if len(found) <= MANY_RANKS else None
    if twice and len(set(ranks)) < int(twice[1]):
        notes.sign("launch-rank-duplicate", twice[2], "global-rank-twice", {"rank": twice[0], "size": twice[1]})


MANY_RANKS = 4096  # lines

_LIST = re.compile(r"(?m)(?:^|[\s{,-])(?P<key>command|args|CMD|ENTRYPOINT)\"?:?\s{0,4}\[(?P<items>[^\]]{3,2000})\]")
_ITEM = re.compile(r"\"(?P<double>[^\"\n]{1,400})\"|'(?P<single>[^'\n]{1,400})'|(?P<bare>[^\s,\"'][^,\n]{0,400})")
_BLOCK = re.compile(r"(?m)^[ -]{0,40}(?:command|args):[ ]{0,4}(?P<items>(?:\n[ ]{0,40}- [^\n]{1,400}){1,60})")


def _listed(text: str) -> list[str]:
    """Commands that a pod or an image gives as lists, as the lines of a shell; a pod's args follow its command."""
    if not any(word in text for word in ("command", "args:", "CMD [", "ENTRYPOINT [")):
        return []
    found: list[tuple[int, list[str]]] = []
    found += [(match.start(), _items(match["items"])) for match in _LIST.finditer(text)]
    for match in _BLOCK.finditer(text):
        found += [(match.start(), [item.strip()[2:].strip().strip("\"'") for item in match["items"].strip().split("\n")])]
    words = [word for _, items in sorted(found) for word in items]
    return [" ".join(word if " " not in word else word if word.startswith(("torchrun", "python")) else f"'{word}'" for word in words)]


def _items(text: str) -> list[str]:
    return [one["double"] or one["single"] or one["bare"].strip() for one in _ITEM.finditer(text)]


def _line_of(text: str, part: str) -> Line:
    return Line(*line_at(text, max(text.find(part), 0)))


def _batch(text: str, seen: Started) -> list[LaunchCommand]:
    """What the job asks Slurm for: the #SBATCH lines, or flags that are named beside the word Slurm and stand in no command."""
    words: list[str] = []
    if "#SBATCH" in text:
        for line in logical_lines(text):
            if match := _BATCH.match(line.text):
                words += split(match["flags"])[0]
        return [build("sbatch", words)] if words else []
    if any(one.launcher in ("srun", "sbatch", "salloc") for one in seen.rows) or "--" not in text or not _SLURM.search(text):
        return []
    words = [match[0].replace(" ", "=") for match in _SLURM_FLAG.finditer(text)]
    return [build("sbatch", list(dict.fromkeys(words)))] if words else []


def _in_code(text: str, seen: Started) -> list[LaunchCommand]:
    """Calls that start processes: mp.spawn, notebook_launcher, Lightning's Trainer, vLLM's LLM."""
    found: list[tuple[str, list[str]]] = []
    if "nprocs" in text or "num_processes" in text:
        found += [("spawn", ["".join(match["word"].split())]) for match in _SPAWN.finditer(text)]
    if "Trainer(" in text or "Fabric(" in text:
        given = [[f"{one['name']}={one['value']}" for one in _GIVEN.finditer(match["given"])] for match in _TRAINER.finditer(text)]
        found += [("trainer", words) for words in given if words]
    if match := _TENSOR_PARALLEL.search(text):
        found += [("vllm", [f"tensor_parallel_size={match['value']}"])]
    starts = [one for one in seen.rows if one.launcher == "python" and one.inside is None]
    variables = dict(starts[0].variables if len(starts) == 1 else seen.exported)
    return [replace(build(launcher, words), variables=variables) for launcher, words in found[:4]]


_CONFIGURED = re.compile(r"(?m)^\s{0,8}(?P<name>num_processes|num_machines): (?P<value>\d{1,5})\s{0,4}$")


def _configured(text: str, one: LaunchCommand) -> LaunchCommand:
    """accelerate with what its configuration says, where the text shows that too."""
    if one.launcher != "accelerate" or one.tasks is not None or "num_processes: " not in text:
        return one
    given = {match["name"]: int(match["value"]) for match in _CONFIGURED.finditer(text)}
    tasks, nodes = given.get("num_processes"), one.nodes or given.get("num_machines")
    return replace(one, tasks=tasks, nodes=nodes, each=tasks // (nodes or 1) if tasks is not None else None)


def _pods(text: str) -> LaunchCommand | None:
    limit, replicas = _LIMIT.search(text), _REPLICAS.search(text)
    if limit is None:
        return None
    return LaunchCommand("kubernetes", gpus=int(limit["count"]), nodes=int(replicas["count"]) if replicas else None)
