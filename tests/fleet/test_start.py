"""`envcheck fleet` before anything connects: the verdict on variables, flags, the command that follows, manifests, Ray's processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import jsonschema
import pytest
import yaml

from envcheck.cli import main
from envcheck.errors import UsageError
from envcheck.fleet import ray_job
from envcheck.fleet.conduct import longest_seconds
from envcheck.fleet.manifests import manifest
from envcheck.fleet.options import FleetOptions
from envcheck.fleet.seat import FIRST_PORT, NEXT_PORTS, PORTS, take_seat
from envcheck.fleet.stages import SLACK_SECONDS
from envcheck.fleet.variables import judge_variables, place_lines, speaks_for_job
from envcheck.report.session import RuleSession

SCHEMAS = Path(__file__).parent / "schemas"
LAUNCHERS = Path(__file__).parent / "launchers"
SRUN = {
    "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "4", "SLURM_LOCALID": "1", "SLURM_NODEID": "0",
    "SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_NODELIST": "n[1-2]", "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
}  # fmt: skip
TORCHRUN = {"RANK": "0", "WORLD_SIZE": "4", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "n1", "MASTER_PORT": "29500"}
AGENT = {"TORCHELASTIC_RUN_ID": "a", "GROUP_RANK": "0", "GROUP_WORLD_SIZE": "2"}
PODS_AS_RANKS = {
    "RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "a", "MASTER_PORT": "1", "PET_NPROC_PER_NODE": "8", "KUBERNETES_SERVICE_HOST": "x",
}  # fmt: skip
EIGHT_AGENTS = {**TORCHRUN, **AGENT, **SRUN, "SLURM_STEP_NUM_TASKS": "16"}


def rules(env: Mapping[str, str]) -> tuple[int, list[str]]:
    report = judge_variables(env, take_seat(env, "n1", 7), "n1", 7, RuleSession())
    return report.exit_code, [one.finding.rule for one in report.findings]


@pytest.mark.parametrize(
    ("env", "code", "first"),
    [
        (SRUN, 0, None),
        ({**TORCHRUN, **AGENT}, 0, None),
        ({**TORCHRUN, **AGENT, **SRUN, "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_TASKS_PER_NODE": "1(x2)"}, 0, None),
        ({}, 0, None),
        ({"PET_NNODES": "4", "PET_NODE_RANK": "2", "PET_MASTER_ADDR": "a-0.a", "KUBERNETES_SERVICE_HOST": "x"}, 0, None),
        # rows of the failures of a start: each ends here, before a port is opened
        (EIGHT_AGENTS, 1, "fleet-launchers-nested"),
        ({"SLURM_JOB_ID": "7", "SLURM_NNODES": "2", "SLURM_NTASKS": "16", "SLURM_PROCID": "0"}, 1, "fleet-outside-step"),
        ({"RANK": "3"}, 1, "fleet-rank-incomplete"),
        ({"WORLD_SIZE": "4"}, 1, "fleet-rank-incomplete"),
        ({**TORCHRUN, "RANK": "4"}, 1, "launch-env-conflict"),
        ({**SRUN, "RANK": "0", "WORLD_SIZE": "1"}, 1, "fleet-launchers-disagree"),
        ({**SRUN, **TORCHRUN, "WORLD_SIZE": "1"}, 1, "fleet-launchers-disagree"),
        ({**TORCHRUN, **AGENT, "MASTER_ADDR": "127.0.0.1"}, 1, "launch-master-address"),
        ({"PMI_RANK": "1", "PMI_SIZE": "4"}, 1, "fleet-master-unknown"),
        # these train, or may: a warning, and the check goes on
        ({"PET_NNODES": "2"}, 0, "launch-variables-leaked"),
        # a shell that was opened from a worker: rank 0 would become a client of the agent's store
        ({"TORCHELASTIC_USE_AGENT_STORE": "True", "MASTER_ADDR": "n1", "MASTER_PORT": "29500"}, 0, "launch-variables-leaked"),
        ({**TORCHRUN, **AGENT, "LOCAL_RANK": "0", "RANK": "1"}, 0, None),  # --virtual-local-rank: 0 for each rank of a host
        ({**TORCHRUN, "LOCAL_RANK": "2"}, 1, "launch-env-conflict"),
        (
            PODS_AS_RANKS,
            0,
            "launch-world-size",
        ),
    ],
)  # fmt: skip
def test_the_verdict_on_variables(env: Mapping[str, str], code: int, first: str | None) -> None:
    got, found = rules(env)
    assert (got, found[:1]) == (code, [first] if first else [])


def test_an_ignored_rule_stops_nobody() -> None:
    from envcheck.report.session import IgnoreSetting

    by = RuleSession(ignore=(IgnoreSetting("fleet-launchers-nested"),))
    report = judge_variables(EIGHT_AGENTS, take_seat(EIGHT_AGENTS, "n1", 7), "n1", 7, by)
    assert "fleet-launchers-nested" not in [one.finding.rule for one in report.findings]


def test_who_won_and_what_the_others_said() -> None:
    seat = take_seat({**SRUN, **TORCHRUN, **AGENT}, "n1", 7)
    assert seat is not None
    first, second, third = place_lines(seat)
    assert first == "rank 0 of 4 on n1 (local rank 0 of 2, node 0 of 2), by torchrun"
    assert "rank 0 at n1, port " in second and "(MASTER_ADDR)" in second
    assert third == "not counted: slurm: rank 1, node 0, world size 4, nodes 2"
    same = take_seat({**SRUN, "PMIX_RANK": "1"}, "n1", 7)
    assert same is not None and place_lines(same)[0].endswith("by slurm; pmix agrees") and len(place_lines(same)) == 2
    assert not speaks_for_job(SRUN) and speaks_for_job({**SRUN, "SLURM_PROCID": "0"}) and speaks_for_job({})


def envcheck(env: Mapping[str, str], *words: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    plain = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    command = (sys.executable, "-m", "envcheck.fleet", *words)
    return subprocess.run(command, env={**plain, **env}, capture_output=True, text=True, timeout=timeout, check=False)


def test_a_verdict_on_variables_takes_no_torch_and_no_two_seconds(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise SystemExit('torch was imported')")
    times = []
    for _ in range(3):  # the machine does ten other things: its best time counts
        start = time.monotonic()
        done = envcheck({**EIGHT_AGENTS, "PYTHONPATH": str(tmp_path)}, "--variables-only")
        times.append(time.monotonic() - start)
        assert done.returncode == 1 and "fleet-launchers-nested" in done.stdout + done.stderr
    assert min(times) < 2


def test_rank_0_tells_of_too_few_open_files_before_it_opens_a_store() -> None:
    """Ranks that it could not let in would only look as if they were missing."""
    import resource

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))

    env = {**TORCHRUN, "WORLD_SIZE": "400"}
    plain = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    command = (sys.executable, "-m", "envcheck.fleet")
    done = subprocess.run(command, env={**plain, **env}, capture_output=True, text=True, timeout=60, check=False, preexec_fn=limited)
    said = " ".join(done.stdout.split())
    assert done.returncode == 1 and "fleet-store-files" in said, done.stderr
    assert "may open 256 files" in said and "400 ranks need 864" in said
    other = judge_variables({**env, "RANK": "1"}, take_seat({**env, "RANK": "1"}, "n1", 7), "n1", 7, RuleSession())
    assert other.fleet.seats[0].open_files_limit is None  # nobody connects to another rank


def test_colour_is_as_asked_for() -> None:
    shown = {color: envcheck({}, "--variables-only", "--color", color).stdout for color in ("always", "never")}
    assert "\x1b[" in shown["always"] and "\x1b[" not in shown["never"]


def test_each_process_of_a_wrong_start_says_so_and_one_at_length() -> None:
    zero = envcheck({**EIGHT_AGENTS, "SLURM_PROCID": "0"})
    other = envcheck(EIGHT_AGENTS)
    assert (zero.returncode, other.returncode) == (1, 1)
    assert "16 tasks" in zero.stdout and other.stdout == ""
    assert len(other.stderr.splitlines()) == 1 and "[fleet-launchers-nested]" in other.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--replay", "x", "--deadline", "5"), "--deadline has no meaning beside --replay"),
        (("--manifest", "job"), "--image IMAGE is missing"),
        (("--manifest", "job", "--image", "x", "--name", "A_b"), "--name A_b"),
        (("--deadline", "0"), "between 1 and 3600"),
        (("--nproc", "0"), "--nproc 0"),
        (("--golden", "/nowhere/x.json"), "no such file"),
        (("--variables-only", "--", "true"), "a command after --"),
        (("--",), "no command"),
        (("--format", "sarif"), "one of text, json, html, junit"),
        (("-o", "sarif=x"), "one of text, json, html, junit"),
        (("--ray",), "pip install 'ray>=2.9'"),
    ],
)
def test_flags_that_contradict_each_other(
    words: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(["fleet", *words]) == 2
    assert said in capsys.readouterr().err


def test_a_configuration_of_the_check_of_one_machine_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "envcheck.toml").write_text('nproc = "all"\ntimeout = 20\nlive = "full"\nexpect = ["gpus>=1"]\n')
    monkeypatch.chdir(tmp_path)
    assert main(["fleet", "--variables-only"]) == 0


@pytest.mark.parametrize("seconds", [20.0, 60.0])
def test_the_bound_and_the_ports_are_those_of_the_documentation(seconds: float) -> None:
    told = (Path(__file__).parents[2] / "docs" / "fleet.md").read_text("utf-8")
    bound = longest_seconds(FleetOptions(deadline_seconds=seconds)) + SLACK_SECONDS
    assert bound == 16 * seconds + 120 and "16 deadlines and two minutes" in " ".join(told.split())
    assert {20.0: "440 seconds with `--deadline 20`", 60.0: "18 minutes by default"}[seconds] in " ".join(told.split())
    last = FIRST_PORT + PORTS - 1 + NEXT_PORTS
    assert f"| {FIRST_PORT} to {last}, TCP; one of {NEXT_PORTS + 1} that" in told


# ------------------------------------------------------------------ the command that follows

ALONE = ("--static", "--skip", "facts", "--skip", "links")


def test_the_command_takes_the_place_of_the_process() -> None:
    program = "import os, sys; print(os.getpid(), sys.argv[1:]); sys.exit(7)"
    plain = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    words = (sys.executable, "-m", "envcheck.fleet", *ALONE, "--", sys.executable, "-c", program, "--json", "--")
    with subprocess.Popen(words, env=plain, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as started:
        out, err = started.communicate(timeout=60)
    assert (started.returncode, out.split()[0], out.strip().endswith("['--json', '--']")) == (7, str(started.pid), True), err
    assert "rank 0 of 1" in err


def test_a_command_ends_by_the_signal_that_meets_it() -> None:
    done = envcheck({}, *ALONE, "--", "sh", "-c", "kill -TERM $$")
    assert done.returncode == -signal.SIGTERM
    closed = envcheck({}, *ALONE, "--", "sh", "-c", "(yes; echo $? >&2) | head -n 1")
    assert closed.stdout == "y\n" and closed.stderr.rstrip().endswith("141"), (
        "a pipe that nobody reads ends a program, unless it inherits otherwise"
    )


def test_a_command_that_is_not_there() -> None:
    assert envcheck({}, *ALONE, "--", "no-such-program-9").returncode == 127
    assert envcheck({}, *ALONE, "--", "/etc").returncode == 126


def test_no_command_where_the_variables_are_wrong() -> None:
    done = envcheck({"RANK": "3"}, "--", "echo", "started")
    assert (done.returncode, done.stdout) == (1, "")


# ------------------------------------------------------------------ manifests


def documents(kind: str, **changes: object) -> list[dict[str, object]]:
    asked = {"name": "check", "image": "registry.example/train:1", "nodes": 4, "gpus": 8, **changes}
    return list(yaml.safe_load_all(manifest(kind, **asked)))  # type: ignore[arg-type]


@pytest.mark.parametrize("gpus", [0, 8])
@pytest.mark.parametrize(("kind", "kinds"), [("job", ["Service", "Job"]), ("jobset", ["JobSet"]), ("trainjob", ["TrainJob"])])
def test_a_manifest_is_what_kubernetes_takes(kind: str, kinds: list[str], gpus: int) -> None:
    made = documents(kind, gpus=gpus)
    assert [one["kind"] for one in made] == kinds
    for one in made:
        schema = json.loads((SCHEMAS / f"{str(one['kind']).lower()}.json").read_text())
        jsonschema.Draft202012Validator(schema).validate(one)


def test_the_schemas_refuse_what_kubernetes_refuses() -> None:
    job = documents("job")[-1]
    schema = json.loads((SCHEMAS / "job.json").read_text())
    text = json.dumps(job)
    for right, wrong in (('"completionMode"', '"completionmode"'), ('"fieldPath"', '"path"'), ('"completions": 4', '"completions": "4"')):
        assert right in text
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(json.loads(text.replace(right, wrong)), schema)


def pod_env(container: Mapping[str, object], index: int) -> dict[str, str]:
    """What a pod of the manifest is told, as the kubelet fills it in."""
    fields = {"job-completion-index": str(index), "controller-uid": "5f1c"}
    told = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "JOB_COMPLETION_INDEX": str(index)}
    for row in container["env"]:  # type: ignore[attr-defined]
        path = row.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath", "")
        told[row["name"]] = row.get("value") or next(value for name, value in fields.items() if name in path)
    return told


@pytest.mark.parametrize(("kind", "master"), [("job", "check-0.check"), ("jobset", "check-node-0-0.check")])
def test_the_pods_of_a_manifest_find_their_places(kind: str, master: str) -> None:
    spec: dict[str, object] = documents(kind)[-1]["spec"]  # type: ignore[assignment]
    if kind == "jobset":
        spec = spec["replicatedJobs"][0]["template"]["spec"]  # type: ignore[index]
    container = spec["template"]["spec"]["containers"][0]  # type: ignore[index]
    assert container["command"] == ["envcheck", "fleet"]
    seats = [take_seat(pod_env(container, index), f"pod{index}", 1) for index in range(4)]
    assert [(one.rank, one.world_size, one.master) for one in seats if one] == [(rank, 4, master) for rank in range(4)]
    assert len({(one.token, one.ports) for one in seats if one}) == 1
    assert all(rules(pod_env(container, index)) == (0, []) for index in range(4))


# ------------------------------------------------------------------ Ray


def test_a_node_gets_the_flags_without_those_of_the_start() -> None:
    words = [
        "--ray",
        "h:1",
        "--deadline",
        "20",
        "-o",
        "json=a.json",
        "-ob.txt",
        "--nodes=3",
        "--exclude-file",
        "x",
        "--strict",
        "--output=c",
    ]
    assert ray_job.flags_of_node(words) == ["--deadline", "20", "--strict"]
    assert ray_job.flags_of_node(["--ray", "--quiet"]) == ["--quiet"]


def test_what_ray_has_left_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(ray_job, "CLUSTER_FILE", str(tmp_path / "cluster"))
    (tmp_path / "cluster").write_text("10.0.0.1:6379\n")
    assert ray_job._listed("auto") == "10.0.0.1:6379"
    (tmp_path / "cluster").unlink()
    os.mkfifo(tmp_path / "cluster")
    assert ray_job._listed("auto") == ""


def test_a_node_of_ray_has_a_seat() -> None:
    envs = [{**ray_job.variables_of(rank, 3, "10.0.0.1", "t"), "RAY_JOB_ID": "01"} for rank in range(3)]
    seats = [take_seat(env, f"n{rank}", 1) for rank, env in enumerate(envs)]
    assert [(one.launcher, one.rank, one.world_size, one.local_rank, one.master) for one in seats if one] == [
        ("ray", rank, 3, 0, "10.0.0.1") for rank in range(3)
    ]
    assert len({one.token for one in seats if one}) == 1 and all(rules(env) == (0, []) for env in envs)


def test_what_is_reserved_on_the_nodes() -> None:
    nodes = [{"CPU": 8.0}, {"CPU": 8.0, "GPU": 4.0}, {"CPU": 0.0, "GPU": 8.0}]
    assert ray_job.bundles_for(nodes, None, None) == [{"CPU": 1.0, "GPU": 4.0}, {"CPU": 1.0}]
    assert ray_job.bundles_for(nodes, 1, 2) == [{"CPU": 1.0, "GPU": 2.0}]
    for wanted, gpus in ((3, None), (2, 1), (None, 5)):
        with pytest.raises(UsageError, match="are alive"):
            ray_job.bundles_for(nodes, wanted, gpus)


@pytest.mark.parametrize(("codes", "code"), [((0, 0), 0), ((4, 0), 4), ((0, 4), 4), ((0, 3, 1), 1), ((3, 1), 3), ((0, 137), 137)])
def test_the_code_of_a_job_on_ray(codes: tuple[int, ...], code: int) -> None:
    assert ray_job.job_code(codes) == code
