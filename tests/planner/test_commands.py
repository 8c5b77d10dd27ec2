"""Commands that are printed to be pasted: what they hold is of this machine, and nothing in it is a word of the shell's own."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from string import Formatter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plan_hosts import TABLES, TEXTS, checks, machine

from envcheck import planner
from envcheck.checks import all_checks
from envcheck.cli import main
from envcheck.commands.bases import example_snapshot
from envcheck.engine.intents import Intent, SetEnv, TorchBuild
from envcheck.engine.judge import Outcome, command, findings, is_about, judge
from envcheck.facts.snapshot import GpusFacts
from envcheck.tables.folders import rules_folder

RULES = Path(rules_folder())
HOSTILE = """a'b"c $(id);d|e`f`"""


def names(template: str) -> list[str]:
    return [name for _, name, _, _ in Formatter().parse(template) if name]


def templates() -> Iterator[tuple[str, dict[str, Any], str]]:
    for rule in sorted(TEXTS.ids):
        for fix in TEXTS.read(rule).fixes:
            for line in fix.get("commands", ()):
                yield rule, dict(fix), line


FILLED = [pytest.param(rule, fix, line, id=f"{rule}: {line[:50]}") for rule, fix, line in templates() if names(line)]

# ------------------------------------------------------------------ of this machine

# What is of one machine: the number of a GPU, a network interface, an address, a port, a rank, a process, a minor number.
OF_A_MACHINE = re.compile(
    r"nvidia-smi\b.*\s(?:-i|--id)[ =]?\d|VISIBLE_DEVICES=(?:\d|GPU|MIG)|/dev/nvidia\d|cuda:\d|device=\d|\b(?:mlx\d_|card|renderD)\d"
    r"|(?:\b|_)(?:rank|RANK|port|PORT|addr|ADDR|address|endpoint|nnodes)=(?:\d|[a-z][\w.-]*\d)|:\d{4,5}\b|\b\d{1,3}(?:\.\d{1,3}){3}\b"
    r"|\b(?:eth|eno|ens|enp|ib|bond|wlan|docker|br)\d|\b(?:kill|ps|gdb|py-spy|strace)\b.*\s(?:-p|--pid)[ =]?\d|\bkill (?:-\w+ )?\d"
    r"|nvidia-modprobe\b.* -c ?\d|\bmig\b.* -cgi ?\d|\bslots=\d|nvidia-(?:driver|utils|compute)-\d"
)
ALLOWED = {
    ("nvidia-uvm-missing", "sudo nvidia-modprobe -c 0 -u"): "0 is the minor number of /dev/nvidia-uvm, on every machine",
    ("gloo-interface", "sudo ip addr add 127.0.0.1/8 dev lo"): "loopback has this address on every machine",
    (
        "nccl-interface",
        "mpirun --mca btl_tcp_if_exclude lo,docker0,virbr0 --mca oob_tcp_if_exclude lo,docker0,virbr0"
        " -x NCCL_SOCKET_IFNAME=^lo,docker,virbr,br-,veth …",
    ): "docker0 is left out: docker's own bridge, by its name on every machine",
    (
        "host-name-unresolved",
        "echo '127.0.0.1 localhost' | sudo tee -a /etc/hosts    # in place of a line that gives localhost another address",
    ): "loopback has this address on every machine",
    (
        "host-name-unresolved",
        'echo "127.0.1.1 $(hostname)" | sudo tee -a /etc/hosts    # a machine that trains alone',
    ): "the address that Debian gives a machine's own name",
    (
        "launch-unreachable",
        "export MASTER_ADDR=127.0.0.1 MASTER_PORT=PORT    # for each process; accelerate launch --main_process_ip, deepspeed --master_addr",
    ): "loopback has this address on every machine",
    (
        "launch-unreachable",
        'getent hosts localhost $(hostname) || echo "127.0.1.1 $(hostname)" | sudo tee -a /etc/hosts'
        "    # the name that fails is this machine's own (hostname prints it)",
    ): "Debian's address for a machine's own name, on every machine",
    (
        "launch-unreachable",
        "torchrun --standalone --local-addr=127.0.0.1 …    # one machine: its ranks then meet without a name",
    ): "loopback has this address on every machine",
    (
        "nvcc-host-compiler",
        "winget install --id Microsoft.VisualStudio.2022.BuildTools --override '--wait --passive"
        " --add Microsoft.VisualStudio.Workload.VCTools"
        " --add Microsoft.VisualStudio.Component.VC.14.38.17.8.x86.x64 --includeRecommended'",
    ): "no address: 14.38.17.8 is Microsoft's name of a release of its compiler",
    (
        "gpu-exclusive-mode",
        "torchrun --standalone --nproc-per-node=gpu --no-python"
        " bash -c 'CUDA_VISIBLE_DEVICES=$LOCAL_RANK LOCAL_RANK=0 exec python TRAIN.PY'"
        "    # one visible GPU for each rank, and so device 0 in each",
    ): "each rank sees one GPU, whose number is 0 there on every machine",
    ("driver-needs-open-module", "sudo apt install nvidia-driver-580    # Ubuntu"): "the last branch for every GPU this variant is about",
}


def test_no_command_holds_what_is_of_one_machine() -> None:
    of_one = {(rule, line) for rule, _, line in templates() if OF_A_MACHINE.search(line)}
    assert of_one - set(ALLOWED) == set()
    assert set(ALLOWED) - of_one == set(), "no exception is needed any more"
    assert not [(rule, line) for rule, _, line in templates() if "\n" in line]


def test_no_variable_is_set_to_what_is_of_one_machine() -> None:
    for rule in TEXTS.ids:
        for fix in TEXTS.read(rule).fixes:
            if rule == "launch-master-port":
                continue  # the variable holds no port at all, and any free one will do: 29500 is torchrun's own
            if fix.get("value") == "-1" and "VISIBLE_DEVICES" in fix["name"]:
                continue  # no GPU at all: that is the same on every machine
            if fix["kind"] == "env" and fix.get("value"):
                assert not re.search("VISIBLE_DEVICES|IFNAME|HCA|ADDR|PORT|RANK", fix["name"]) or names(fix["value"]), rule


@pytest.mark.parametrize(
    "line",
    [
        "sudo nvidia-smi -i 0 -r", "CUDA_VISIBLE_DEVICES=2 python train.py", "export CUDA_VISIBLE_DEVICES=1", "nvidia-smi mig -cgi 9 -C",
        "torchrun --node-rank=0 train.py", "torchrun --master-port=29500 train.py", "torchrun --rdzv-endpoint=10.0.0.1:29500 train.py",
        "ip addr show eth0", "kill -9 4711", "py-spy dump --pid 4711", "docker run --device /dev/nvidia0", "printf 'a slots=8' > hostfile",
        "nvidia-modprobe -c 0", "ray start --head --port=6379", "apt-cache policy nvidia-driver-580",
    ],
)  # fmt: skip
def test_what_the_search_is_for(line: str) -> None:
    assert OF_A_MACHINE.search(line)


CASES = [
    ("gpu-ecc-error", "errors since the driver was loaded", ["sudo nvidia-smi -i 2 -r"]),
    ("gpu-ecc-error", "a contained error in the kernel log", ["sudo nvidia-smi -i 0000:b3:00.0 -r"]),
    ("gpu-ecc-error", "a training run was stopped", []),
    ("gpu-row-remap", "a row waits for a reset", ["sudo nvidia-smi -i 1 -r"]),
    ("gpu-row-remap", "a row was marked, the kernel log says", ["sudo nvidia-smi -i 0000:b3:00.0 -r"]),
    ("gpu-busy", "nearly full", []),  # one GPU: there is no other
    ("visible-devices-too-late", "two selected, eight seen", ["CUDA_VISIBLE_DEVICES=0,1 python train.py"]),
    ("visible-devices-too-late", "a program says so", []),
    ("visible-devices-truncated", "two MIG instances", ["CUDA_VISIBLE_DEVICES=MIG-1 python train.py"]),
    ("gpu-mig", "two instances, none chosen", ["CUDA_VISIBLE_DEVICES=MIG-1 python train.py"]),
    ("gpu-mig", "ranks by index on instances", ["sudo nvidia-smi -i 0 -mig 0"]),
    ("gpu-mig", "Slurm's daemon finds MIG mode without instances", []),
    ("gpu-exclusive-mode", "prohibited", ["sudo nvidia-smi -i 0 -c DEFAULT"]),
    ("gpu-lost", "the words in a report", []),
    (
        "driver-dropped-gpu",
        "GTX 1080 Ti on driver 595",
        [
            "apt-cache policy nvidia-driver-580",
            "sudo apt install nvidia-driver-580 && sudo apt-mark hold nvidia-driver-580"
            "    # Ubuntu; elsewhere see the driver installation guide",
        ],
    ),
    ("driver-dropped-gpu", "the kernel log", []),
    ("launch-port-in-use", "another process listens on the master's port", ["ss -ltnp sport = :29500"]),
]
OF_THE_FINDING = re.compile(r"nvidia-smi .*-i |VISIBLE_DEVICES=|nvidia-driver-|sport|-p ")


def shell_lines(rule: str, example: Mapping[str, Any]) -> list[str]:
    snapshot = example_snapshot(RULES, example)
    [one] = findings(judge(snapshot, [check for check in all_checks() if check.id == rule], TABLES), TEXTS)
    return [line for fix in planner.fixes(one.fixes, snapshot, TABLES, checks=checks(), texts=TEXTS) for line in fix.commands.shell]


@pytest.mark.parametrize(("rule", "name", "wanted"), CASES)
def test_a_command_names_what_the_finding_is_about(rule: str, name: str, wanted: list[str]) -> None:
    example = next(one for one in TEXTS.read(rule).examples if one.get("name") == name)
    assert [line for line in shell_lines(rule, example) if OF_THE_FINDING.search(line)] == wanted


def busy(set_: dict[str, Any]) -> list[str]:
    full = {"gpus.devices.0.memory_free_bytes": 1 << 29, "gpus.devices.0.memory_used_bytes": 79 << 30}
    lines = shell_lines("gpu-busy", {"base": "h100x8", "set": full | set_})
    return [line for line in lines if "VISIBLE" in line]


def test_the_free_gpus_are_those_that_nobody_uses() -> None:
    snapshot = example_snapshot(RULES, {"base": "h100x8"})
    assert isinstance(snapshot.gpus, GpusFacts)
    uuids = [gpu.uuid or "" for gpu in snapshot.gpus.devices]
    assert busy({}) == [f"export CUDA_VISIBLE_DEVICES={','.join(uuids[1:])}    # not in use"]
    assert busy({"gpus.devices.1.processes": [{"pid": 1}], "visibility.selected": [0, 1, 2]})[0].split()[1].endswith(f"={uuids[2]}")
    assert busy({"visibility.selected": [0]}) == []
    without = {f"gpus.devices.{at}.uuid": None for at in range(8)}
    assert busy(without)[0].split()[1].endswith("=1,2,3,4,5,6,7")
    assert busy(without | {"gpus.devices.7.name": "NVIDIA A100-SXM4-80GB"}) == []  # CUDA may count them in another order


def test_a_uuid_becomes_the_number_of_its_gpu() -> None:
    uuid = "GPU-00000000-0000-0000-0000-000000000000"
    said = f"ValueError: invalid literal for int() with base 10: '{uuid}'"
    there = {"base": "rtx4090", "set": {"gpus.devices.0.uuid": uuid, "visibility.cuda_visible_devices": uuid}, "log": said}
    [line] = shell_lines("visible-devices-unreadable", there)
    assert line.startswith("export CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=0    # ")
    there["set"]["gpus.devices.0.uuid"] = "GPU-1"  # type: ignore[index]
    assert shell_lines("visible-devices-unreadable", there) == []


# ------------------------------------------------------------------ words of the shell


@pytest.mark.parametrize(("rule", "fix", "line"), FILLED)
def test_a_template_puts_no_quotes_around_a_placeholder(rule: str, fix: dict[str, Any], line: str) -> None:
    filled = command(line, dict.fromkeys(names(line), HOSTILE))
    assert filled and shlex.split(filled) == [word.replace("MARK", HOSTILE) for word in shlex.split(re.sub(r"\{\w+\}", "MARK", line))]


@pytest.mark.parametrize("rule", sorted(TEXTS.ids))
def test_no_sentence_holds_a_command_with_a_value(rule: str) -> None:
    """What stands between backticks is pasted too, and there nothing is quoted."""
    text = TEXTS.read(rule)
    for one in (text.title, *text.messages.values(), *(str(fix.get(key, "")) for fix in text.fixes for key in ("text", "note"))):
        assert not any(names(part) for part in one.split("`")[1::2]), one


@pytest.mark.parametrize(("rule", "fix", "line"), FILLED)
def test_a_placeholder_has_a_value_in_some_example(rule: str, fix: dict[str, Any], line: str) -> None:
    """A name that no check gives would only ever leave the command out."""
    [check] = [one for one in all_checks() if one.id == rule]
    for example in TEXTS.read(rule).examples:
        [verdict] = judge(example_snapshot(RULES, example), [check], TABLES)
        if verdict.hit and is_about(fix, verdict.hit.variant) and command(line, verdict.hit.values):
            return
    pytest.fail("no example fills it")


@given(st.text())
def test_a_value_is_one_word_or_there_is_no_command(value: str) -> None:
    line = command("getent hosts {address}", {"address": value})
    if line is None:
        assert not value.isprintable() or not value or value.startswith("-")
    else:
        assert shlex.split(line) == ["getent", "hosts", value] and line.isprintable()
    within = command("LD_PRELOAD=/opt/{library}:{library} python -c 'x' '*/'{library}", {"library": value})
    if within is not None:
        assert shlex.split(within) == [f"LD_PRELOAD=/opt/{value}:{value}", "python", "-c", "x", f"*/{value}"] and within.isprintable()


@pytest.mark.parametrize("values", [{}, {"address": None}, {"address": ""}, {"address": "-oProxyCommand=id"}, {"address": "a\x1b[31m"}])
def test_what_cannot_be_pasted_is_left_out(values: dict[str, object]) -> None:
    assert command("ssh {address} hostname", values) is None


def test_braces_of_the_shell_stay() -> None:
    assert command("awk '{{print $1}}' {file}", {"file": "a b"}) == "awk '{print $1}' 'a b'"


ATTACKS = [
    ("ImportError: /opt/lib;id;/libgomp-x.so.1: cannot allocate memory in static TLS block", "libgomp"),
    ("OSError: /opt/$(id)lib.so.1: cannot enable executable stack as shared object requires: Invalid argument", "patchelf"),
]


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    main([*words, "--json"])
    document = json.loads(capsys.readouterr().out)
    return [line for one in document["findings"] for fix in one["fixes"] for lines in fix["commands"].values() for line in lines]


@pytest.mark.parametrize(("text", "mark"), ATTACKS)
def test_a_line_of_a_log_runs_nothing(text: str, mark: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "train.log"
    log.write_text(f"Traceback (most recent call last):\n{text}\n")
    lines = [line for line in printed(capsys, "diagnose", str(log)) if mark in line]
    assert lines
    for line in lines:
        assert not own_words(line), line


@pytest.mark.parametrize(
    ("example", "mark", "wanted"),
    [
        (
            {"launcher.master_addr": "node-0$(touch x)", "launcher.master_addr_resolves": []},
            "getent hosts",
            ["getent hosts 'node-0$(touch x)'"],
        ),
        ({"launcher.rank_claims": ["pid 1;id (python x)", "pid 2 (python x)"]}, "ps -o", ["ps -o pid,ppid,lstart,args -p 2"]),
        ({"launcher.rank_claims": ["pid", "pid $(id)"]}, "ps -o", []),
    ],
)
def test_a_strangers_facts_run_nothing(example: dict[str, Any], mark: str, wanted: list[str]) -> None:
    snapshot = example_snapshot(RULES, {"base": "h100x8", "set": {"launcher": {}} | example})
    verdicts = judge(snapshot, all_checks(), TABLES)
    assert not any(verdict.outcome is Outcome.CRASHED for verdict in verdicts)
    intents = [intent for one in findings(verdicts, TEXTS) for intent in one.fixes]
    fixes = planner.fixes(intents, snapshot, TABLES, checks=checks(), texts=TEXTS)
    assert [line for fix in fixes for line in fix.commands.shell if mark in line] == wanted


def own_words(line: str) -> list[str]:
    """What a shell would take for its own, outside of quotes."""
    return re.findall(r"[;`]|\$\(", re.sub(r"'[^']*'", "", line.partition("    # ")[0]))


# ------------------------------------------------------------------ to look is not to mend

# What shows and changes nothing, as the first words of a command.
_LOOKS = re.compile(
    r"(?:sudo )?(?:LD_DEBUG=\w+ )?(?:"
    r"(?:cat|ls|ps|ss|lspci|getent|dmesg|grep|find|findmnt|df|du|uptime|which|where\.exe|type|id|head|tail|journalctl"
    r"|dpkg|apt-cache|rpm|ldd"
    r"|nm|readelf|free|lsmod|modinfo|uname|stat|netstat|getconf|hostname|lscpu|nproc|file|objdump|strings|cuobjdump|ping|nc|ibstat|ibv_\w+"
    r"|show_gids|squeue|sinfo|sacct|sycl-ls|rocminfo|tasklist|Get-\w+|apt list|ldconfig -p|mokutil --sb-state|dkms status"
    r"|scontrol show|nft list"
    r"|iptables -S|kubectl (?:get|describe|logs)|docker (?:ps|info|inspect|version)|conda (?:list|info)"
    r"|ip (?:-br (?:addr|link)|route get|addr$|link$)"
    r"|ip addr show|python3? -c|python3? -m pip (?:list|show|check|debug|index|config list)|ssh -o)(?![\w-])"
    r"|env(?: \||$)|echo (?!.*tee )|ulimit -\w+ *$|\S+ (?:--version|-V)$|envcheck (?:--static|explain|record|diagnose)"
    r"|nvidia-smi(?!.* (?:-r|-c|-mig|-pl|-pm|-lgc|mig)\b)|rocm-smi(?! --set))"
)
_TO_MEND = {
    ("gpu-hardware-fault", "link"): "hardware: a slot, a cable, a setting of the BIOS",
    ("gpu-pcie-degraded", ""): "hardware: a slot, a riser, a setting of the BIOS",
    ("torch-dynamo-broken", "compile"): "the reader's own program",
    ("torch-cuda-unavailable", "checkpoint"): "the reader's own program",
    ("visible-devices-out-of-range", "checkpoint"): "the reader's own program",
    ("torch-cuda-unavailable", "default"): "CUDA's own error, which it prints, has a rule of its own",
    ("torch-cuda-unavailable", "error"): "CUDA's own error, which it prints, has a rule of its own",
    ("torch-cuda-unavailable", "unlisted"): "NVIDIA's installer for Windows is a page in a browser",
    ("mps-unavailable", "default"): "the same command in another window",
    ("expectation-failed", "default"): "what a site expects, it has written itself",
}


def only_looks(line: str) -> bool:
    bare = re.sub(r"""\{\w+\}|'[^']*'|"[^"]*\"""", "WORD", line.partition("    # ")[0])
    return all(_LOOKS.match(part.strip()) and not re.search(r"\| *(?:sudo )?(?:tee|xargs)\b", part) for part in re.split(r"; | && ", bare))


def without_a_change() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    for rule in sorted(TEXTS.ids):
        text = TEXTS.read(rule)
        for fix in text.fixes if text.severity.value != "info" else ():
            lines = tuple(fix.get("commands", ()))
            when = fix.get("when", "")
            if lines and all(map(only_looks, lines)):
                yield rule, when if isinstance(when, str) else "/".join(fix.get("on", when)[:1]), lines


def test_a_fix_with_commands_has_one_that_changes_something() -> None:
    """A reader who has looked still has the fault. What no command can change is named above, with the reason."""
    found = {(rule, when): lines for rule, when, lines in without_a_change()}
    assert {place: lines for place, lines in found.items() if place not in _TO_MEND} == {}, "add the command that mends it, with a remark"
    assert set(_TO_MEND) - set(found) == set(), "no exception is needed any more"


@pytest.mark.parametrize(
    ("line", "looks"),
    [
        ("sudo nft list ruleset    # or: sudo iptables -S", True), ("sudo ufw allow from NETWORK", False),
        ("ulimit -f; ulimit -f unlimited", False),
        ("echo FOLDER | sudo tee /etc/ld.so.conf.d/nvidia.conf && sudo ldconfig", False), ("echo $LD_LIBRARY_PATH", True),
        ("nvidia-smi --query-gpu=index,name --format=csv", True), ("sudo nvidia-smi -r -i {gpu}", False), ("ip link set lo up", False),
        ("env -u LD_LIBRARY_PATH python TRAIN.PY", False), ("python -c {statement}", True), ("ip -br addr    # then: export A=B", True),
    ],
)  # fmt: skip
def test_what_only_looks(line: str, looks: bool) -> None:
    assert only_looks(line) is looks


# ------------------------------------------------------------------ argv of the planner

WORDS = st.text(st.characters(blacklist_categories=("Cc", "Cs")), max_size=20)


def commands_of(*intents: Intent, **spec: object) -> tuple[str, ...]:
    fixes = planner.fixes(intents, machine({"gpu": "4090", "driver": "580.95.05", **spec}), TABLES, checks=checks(), texts=TEXTS)
    return tuple(line for fix in fixes for line in (*fix.commands.shell, *fix.commands.pip))


@given(WORDS, WORDS.filter(lambda name: "=" not in name and name != ""))
def test_variables_are_words(value: str, name: str) -> None:
    put, gone = commands_of(SetEnv(name, value), SetEnv(name, None))
    assert shlex.split(put) == ["export", f"{name}={value}"] and shlex.split(gone) == ["unset", name]


def test_a_value_that_would_hide_every_gpu_is_not_printed_as_a_command() -> None:
    assert shell_lines("visible-devices-too-late", {"base": "h100x8", "set": {"visibility.cuda_visible_devices": "9"}}) == []
    assert shell_lines("visible-devices-too-late", {"base": "h100x8", "set": {"visibility.cuda_visible_devices": "-1"}}) == [
        "CUDA_VISIBLE_DEVICES=-1 python train.py"  # meant so
    ]


OF_A_MAKER = re.compile(r"nvidia-smi|rocm-smi|xpu-smi|\btop\b|PYTORCH_\w+")


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("HIP out of memory.", {"rocm-smi", "PYTORCH_HIP_ALLOC_CONF"}),
        ("RuntimeError: HIP error: out of memory", {"rocm-smi", "PYTORCH_HIP_ALLOC_CONF"}),
        ("torch.OutOfMemoryError: XPU out of memory.", {"xpu-smi"}),
        ("RuntimeError: MPS backend out of memory", {"top", "PYTORCH_MPS_HIGH_WATERMARK_RATIO"}),
        ("RuntimeError: CUDA error: out of memory", {"nvidia-smi", "PYTORCH_CUDA_ALLOC_CONF"}),
    ],
)
def test_what_looks_at_memory_is_of_the_gpu_whose_memory_is_full(said: str, wanted: set[str]) -> None:
    assert {
        word for line in shell_lines("gpu-out-of-memory", {"base": "nothing", "log": said}) for word in OF_A_MAKER.findall(line)
    } == wanted


def test_a_torch_for_an_old_glibc_asks_for_less_than_what_is_missing() -> None:
    """The newest release would ask for the same glibc again."""
    said = "ImportError: /lib64/libc.so.6: version `GLIBC_2.28' not found (required by /v/site-packages/torch/lib/libtorch_cpu.so)"
    rules = [check for check in all_checks() if check.id == "glibc-too-old"]
    for set_, wanted in (({}, "==2.6.0"), ({"system.glibc": "2.17"}, None)):
        snapshot = example_snapshot(RULES, {"base": "blank", "set": set_, "log": said})
        [one] = findings(judge(snapshot, rules, TABLES), TEXTS)
        assert [fix.version for fix in one.fixes if isinstance(fix, TorchBuild)] == [wanted]
    row = TABLES.release("2.6.0")
    assert row is not None and row.glibc["x86_64"] == "2.17"
