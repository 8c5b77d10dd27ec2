"""What a text says was started: commands of every launcher, job scripts, pods, calls in code."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envcheck.facts.launch_flags import find, replaced, spelled, without, written
from envcheck.facts.snapshot import LaunchCommand
from envcheck.read import identify
from envcheck.read.found import Found
from envcheck.read.job_script import read_started
from envcheck.read.launch_commands import split


def facts(text: str) -> dict[str, object]:
    found = read_started(text)
    return {} if found is None else {fact.path: fact.value for fact in found.facts}


def commands(text: str) -> tuple[LaunchCommand, ...]:
    rows = facts(text).get("launcher.commands", ())
    assert isinstance(rows, tuple)
    return rows


def one(text: str) -> LaunchCommand:
    rows = commands(text)
    assert len(rows) == 1, rows
    return rows[0]


@pytest.mark.parametrize(
    ("text", "launcher", "numbers"),
    [
        (
            "torchrun --nproc_per_node=4 --nnodes 2 --node-rank=1 --master_port 29501 t.py",
            "torchrun",
            {"each": 4, "nodes": 2, "port": "29501"},
        ),
        ("/opt/venv/bin/torchrun --standalone --nproc-per-node 4 t.py", "torchrun", {"each": 4}),
        ("python3 -m torch.distributed.launch --nproc_per_node 8 t.py", "torch.distributed.launch", {"each": 8}),
        (
            "python -u -m torch.distributed.run --nproc_per_node=2 -m pkg.train",
            "torch.distributed.run",
            {"each": 2, "program": "pkg.train"},
        ),
        ("accelerate launch --num_machines 2 --num_processes 16 t.py", "accelerate", {"tasks": 16, "nodes": 2, "each": 8}),
        ("accelerate launch --config_file c.yaml --num_processes 8 t.py", "accelerate", {"tasks": 8, "each": None}),
        ("deepspeed --include localhost:1,3 --master_port 61000 t.py --deepspeed d.json", "deepspeed", {"each": 2, "port": "61000"}),
        ("deepspeed --num_gpus=4 t.py", "deepspeed", {"each": 4}),
        ("fabric run --devices=2 --num-nodes=3 t.py", "fabric", {"each": 2, "nodes": 3}),
        ("vllm serve org/model --tensor-parallel-size 4", "vllm", {"each": 4}),
        ("ray start --head --num-gpus=8", "ray", {"gpus": 8}),
        ("torchrun --nproc_per_node=gpu t.py", "torchrun", {"each": None}),
        ("torchrun --nproc_per_node=$GPUS --nnodes=1:4 t.py", "torchrun", {"each": None, "nodes": None}),
        ("torchrun --nproc_per_node=2 t.py --nproc_per_node=9", "torchrun", {"each": 2}),
        ("torchrun t.py --nproc_per_node=9", "torchrun", {"each": None, "program": "t.py"}),
    ],
)
def test_numbers_of_a_launcher(text: str, launcher: str, numbers: dict[str, object]) -> None:
    command = one(f"$ {text}")
    assert command.launcher == launcher
    assert {name: getattr(command, name) for name in numbers} == numbers


@pytest.mark.parametrize("text", ["srun -N1 -n8 --gres=gpu:a100:4 ./job", "salloc --nodes=1 --ntasks 8 --gres gpu:4"])
def test_what_slurm_is_asked_for(text: str) -> None:
    command = one(text)
    assert (command.nodes, command.tasks, command.gpus) == (1, 8, 4)


def test_lines_of_a_job_script_are_one_request() -> None:
    job, srun, inner = commands(
        "#!/bin/bash\n#SBATCH -N 2\n#SBATCH --ntasks-per-node=4   # four\n\nsrun --label torchrun --nproc_per_node=4 t.py\n"
    )
    assert (job.launcher, job.nodes, job.each) == ("sbatch", 2, 4)
    assert (srun.launcher, inner.launcher, inner.inside) == ("srun", "torchrun", 1)


def test_continued_lines_quotes_and_assignments() -> None:
    command = one(
        'export NCCL_DEBUG=INFO\n$ CUDA_VISIBLE_DEVICES="1,2" OMP_NUM_THREADS=4 torchrun \\\n    --nproc_per_node=4 \\\n  t.py --name "a b" > log 2>&1\n'  # noqa: E501
    )
    assert command.variables == {"NCCL_DEBUG": "INFO", "CUDA_VISIBLE_DEVICES": "1,2", "OMP_NUM_THREADS": "4"}
    assert command.words == ("torchrun", "--nproc_per_node=4", "t.py", "--name", '"a b"')


def test_a_command_in_a_sentence_ends_with_it() -> None:
    command = one("I run torchrun --nproc_per_node 8 train.py --lr 0.1 and then it stops.")
    assert command.words == ("torchrun", "--nproc_per_node", "8", "train.py", "--lr", "0.1")
    assert one("With `deepspeed --num_gpus 2 t.py` on two cards").words == ("deepspeed", "--num_gpus", "2", "t.py")


@pytest.mark.parametrize(
    "text",
    [
        "usage: torchrun [-h] [--nnodes NNODES] [--nproc-per-node N] training_script",
        "FutureWarning: The module torch.distributed.launch is deprecated. Use torchrun. Note that --use-env is set by default in torchrun.",  # noqa: E501
        "HINT: prepend your python command with srun like so: srun python3 train.py",
        "You should use torchrun --nproc_per_node=8 train.py",
        "Is `srun -n 8 torchrun --nproc_per_node 8 train.py` right?",
        'File "/opt/bin/torchrun", line 8, in <module>',
        "torchrun did not help, nor did accelerate launch or mpirun",
        "python collect_env.py\npython setup.py install",
        "we use torch.distributed.launch",
    ],
)
def test_what_was_not_started(text: str) -> None:
    assert commands(text) == ()


def test_a_script_that_another_command_runs() -> None:
    text = "srun -n 8 --ntasks-per-node 8 python start.py   # start.py calls: deepspeed --master_port 29600 main.py"
    srun, python, inner = commands(text)
    assert (srun.launcher, python.inside, inner.launcher, inner.inside, inner.port) == ("srun", 0, "deepspeed", 1, "29600")
    mpirun, launch = commands("mpirun -np 8 bash go.sh\n\n$ cat go.sh\n#!/bin/bash\ntorchrun --nproc_per_node=8 t.py\n")
    assert (mpirun.tasks, launch.inside) == (8, 0)


def test_calls_in_code() -> None:
    (spawn,) = commands("mp.spawn(run, args=(4,), nprocs=4, join=True)")
    assert (spawn.launcher, spawn.each, spawn.words) == ("spawn", 4, ("nprocs=4",))
    (trainer,) = commands('trainer = pl.Trainer(max_epochs=3, devices=8,\n   num_nodes=2, strategy="ddp")')
    assert (trainer.launcher, trainer.each, trainer.nodes) == ("trainer", 8, 2)
    (engine,) = commands("llm = LLM(model='m', tensor_parallel_size=2)")
    assert (engine.launcher, engine.each) == ("vllm", 2)


@pytest.mark.parametrize(
    ("ranks", "after", "twice"),
    [
        ("0 1 1", "", ["1"]),
        ("0 1 2 3", "", []),
        ("0 1 2 3 0 1 2 3", "", []),  # all of them came: two runs
        ("0 1", "All distributed processes registered. Starting ddp\nGLOBAL_RANK: 1, MEMBER: 2/4", []),
    ],
)
def test_a_global_rank_that_two_processes_take(ranks: str, after: str, twice: list[str]) -> None:
    lines = [f"initializing ddp: GLOBAL_RANK: {rank}, MEMBER: {int(rank) + 1}/4" for rank in ranks.split()]
    found = read_started("\n".join([*lines, after]))
    assert [one.values["rank"] for one in (found.signs if found else ())] == twice


def test_the_script_that_a_job_starts_without_srun() -> None:
    found = read_started("#SBATCH --ntasks-per-node=2\nmodule load cuda\nbash fit.sh --size 128\n")
    assert found and [(one.launcher, one.program) for one in found.facts[0].value] == [("sbatch", None), ("bash", "fit.sh")]


def test_a_variable_set_in_code_is_known_only_as_a_string() -> None:
    (spawn,) = commands(
        "os.environ['CUDA_VISIBLE_DEVICES'] = '0,1'\nos.environ['RANK'] = os.environ['SLURM_PROCID']\nmp.spawn(f, nprocs=4)"
    )
    assert spawn.variables == {"CUDA_VISIBLE_DEVICES": "0,1"}


def test_pods() -> None:
    text = 'kind: Job\nspec:\n  containers:\n  - command: ["torchrun", "--nproc_per_node=8", "t.py"]\n    resources:\n      limits:\n        nvidia.com/gpu: "4"\n'  # noqa: E501
    read = facts(text)
    inner, pod = commands(text)
    assert read["container.kubernetes"] is True
    assert (inner.launcher, inner.each, pod.launcher, pod.gpus) == ("torchrun", 8, "kubernetes", 4)
    listed = "  command:\n  - torchrun\n  - --nproc_per_node=2\n  args:\n  - t.py\n"
    assert one(listed).words == ("torchrun", "--nproc_per_node=2", "t.py")
    assert "container.kubernetes" not in facts("We may move to kubernetes later; now: python train.py")


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("init_process_group('nccl', init_method='file:///s/x', rank=0)", "launcher.init_method", "file:///s/x"),
        ("python main.py --dist-url tcp://127.0.0.1:9000 --rank 0", "launcher.init_method", "tcp://127.0.0.1:9000"),
        ("| distributed init (rank 3): file:///nfs/sync", "launcher.init_method", "file:///nfs/sync"),
        ("File already exists: /ckpt/.dist_init", "launcher.init_method", "/ckpt/.dist_init"),
        ("torch.multiprocessing.set_start_method('spawn')", "launcher.start_method", "spawn"),
    ],
)
def test_how_ranks_meet_and_start(text: str, path: str, value: str) -> None:
    assert facts(text)[path] == value


def test_secrets_stay_out() -> None:
    command = one("$ WANDB_KEY=x HF=hf_abcdefghijklmnopqrst torchrun --nproc_per_node=2 t.py --token=hf_abcdefghijklmnopqrst")
    assert "hf_abcdefghijklmnopqrst" not in repr(command)


def test_words_end_at_an_operator() -> None:
    assert split("a --b 'c d' & e") == (["a", "--b", "'c d'"], "&")
    assert split("a $(date +%s) b # c") == (["a", "$(date +%s)", "b"], "#")
    assert split('a "b') == (["a"], "")
    assert split("a 2>&1 | tee x") == (["a"], ">")


def test_flags_are_found_and_replaced_as_they_are_spelled() -> None:
    words = ("srun", "-n8", "--ntasks_per_node", "4", "--gres=gpu:4")
    assert find(words, ("n",)) == (1, "-n", "8")
    assert replaced(words, ("n",), 2) == ("srun", "-n2", "--ntasks_per_node", "4", "--gres=gpu:4")
    assert replaced(words, ("ntasks-per-node",), 1) == ("srun", "-n8", "--ntasks_per_node", "1", "--gres=gpu:4")
    assert replaced(words, ("N",), 1) is None
    assert without(words, ("gres",)) == words[:4]
    assert without(words, ("ntasks-per-node",)) == ("srun", "-n8", "--gres=gpu:4")
    assert spelled(("--num-nodes", "2"), "main-port", 7) == ("--main-port", "7")
    assert spelled(("--num_gpus=2",), "master-port", 7) == ("--master_port=7",)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("python", "t.py", '"a b"'), "python t.py 'a b'"),
        (("t.py", "--dir=$HOME/x", "${RANK}"), "t.py --dir=$HOME/x ${RANK}"),
        (("t.py", "a;reboot"), "t.py 'a;reboot'"),
        (("t.py", "$(reboot)"), None),
        (("t.py", "$X;reboot"), None),
        (("t.py", "`reboot`"), None),
        (("t.py", '"$X b"'), None),
    ],
)
def test_what_is_printed_runs_nothing_else(words: tuple[str, ...], line: str | None) -> None:
    assert written(words) == line


PARTS = ["torchrun ", "srun ", "mpirun ", "-n", "8 ", "--nproc_per_node", "=", "$X", '"', "'", "\\\n", "\n", "#SBATCH ", "t.py ", "& ", "`", "command: [", "]", "nvidia.com/gpu: 4", "Trainer(", "devices=2", ")", "spawn(", "nprocs=2", "python ", "-m ", "$(", "set A=b "]  # fmt: skip  # noqa: E501


@given(st.lists(st.sampled_from(PARTS), max_size=30).map("".join))
def test_no_text_makes_it_raise(text: str) -> None:
    assert isinstance(read_started(text), Found | None)


def test_accelerate_with_its_configuration() -> None:
    text = "accelerate launch --config_file c.yaml t.py\n\nc.yaml:\nnum_machines: 2\nnum_processes: 8\n"
    command = one(text)
    assert (command.tasks, command.nodes, command.each) == (8, 2, 4)


def test_calls_in_code_see_what_their_script_sees() -> None:
    python, trainer = commands("CUDA_VISIBLE_DEVICES=2 python fit.py\nTrainer(gpus=2)")
    assert (python.program, trainer.variables) == ("fit.py", {"CUDA_VISIBLE_DEVICES": "2"})


@pytest.mark.parametrize("at", [0, 5_000, 9_999])
@pytest.mark.parametrize(
    "command",
    ["$ torchrun --nproc_per_node=8 \\\n    --nnodes=2 train.py", "python -m torch.distributed.run --nproc_per_node=8 --nnodes=2 train.py"],
)
def test_a_command_in_a_long_text_is_read_with_its_line(command: str, at: int) -> None:
    lines = [f"worker {number} has loaded the shard {number * 7919} of the corpus" for number in range(10_000)]
    text = "\n".join([*lines[:at], command, *lines[at:]])
    assert len(text) > identify.WHOLE
    [fact] = [fact for found in identify.read_text(text) for fact in found.facts if fact.path == "launcher.commands"]
    [one] = fact.value
    assert (one.each, one.nodes, fact.number) == (8, 2, at + 1)


JOB = "#SBATCH --job-name=a\n#SBATCH --partition=gpu\n" + "#SBATCH --export=ALL\n" * 9 + "#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\n"


@pytest.mark.parametrize("at", [5_000, 9_000])
@pytest.mark.parametrize(
    ("printed", "first"),
    [
        ("+ srun --nodes=2 --ntasks=16 python train.py", ("srun", 16, 2, None)),
        ("$ mpirun -np 16 -H a:8,b:8 python train.py", ("mpirun", 16, None, None)),
        ("$ mpiexec -n 16 python train.py", ("mpirun", 16, None, None)),
        (f"{JOB}\nsrun python train.py", ("sbatch", None, 2, 4)),
    ],
)
def test_tasks_started_in_the_middle_of_a_long_text(printed: str, first: tuple[object, ...], at: int) -> None:
    lines = [f"worker {number} has loaded the shard {number * 7919} of the corpus" for number in range(14_000)]
    text = "\n".join([*lines[:at], printed, *lines[at:]])
    short = [fact for found in identify.read_text(printed) for fact in found.facts if fact.path == "launcher.commands"]
    [fact] = [fact for found in identify.read_text(text) for fact in found.facts if fact.path == "launcher.commands"]
    one = fact.value[0]
    assert fact.value == short[0].value, "as in a text of its own"
    assert (one.launcher, one.tasks, one.nodes, one.each) == first
    assert fact.number == at + short[0].number


def test_looking_for_what_was_started_is_linear() -> None:
    """A launcher in every line is looked at a few times, not in every line."""
    took = []
    for lines in (20_000, 40_000):
        text = "".join(f"srun mpirun #SBATCH torchrun {number * 7919}\n" for number in range(lines))
        began = time.process_time()
        identify.read_text(text)
        took.append(time.process_time() - began)
    assert took[1] < 3 * took[0] + 0.1 and took[1] < 2.0
