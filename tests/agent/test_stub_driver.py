"""Half a GPU: real CUDA builds of torch on a driver library of ours (stub_driver/), through envcheck's real command.

`pytest -m torches -k 'stub and 2.7.1'` runs it on one release; without `-m torches` only the stub itself is tested.

Without a GPU this proves what envcheck makes of what torch says when a driver is there: that the process which forks makes no call
of the driver, which devices torch counts and what it says of them, and which rule speaks for which error of cuInit, of the
context, of memory and of a launch. Two libraries of torch's are real or not:

- libtorch, libc10 and torch's Python code are real everywhere, and so is libcudart wherever cuInit fails or the driver is too old.
- Once cuInit has succeeded, libcudart tests whether the driver is NVIDIA's own, and refuses ours. Tests that need a device therefore
  put stub_driver/runtime.c before it (`runtime=True`): what stands between torch and the driver is then ours too. It has the
  layout of CUDA 12 and newer; builds of CUDA 11 (torch 1.13 and 2.0) are tried with their own runtime only.

It cannot prove a kernel: none is ever run, memory stays as it was, and envcheck rightly says that the result is wrong. Nor cuBLAS,
cuDNN and NCCL, which bring a runtime of their own and get no device; nor times, nor what a real driver does to a forked child.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeDriverHost
from stubs import A100, GTX_1080, H100, RTX_3090, RTX_5090, SLICES, Card, Machine, Stubs, h100s, stub_libraries, stubs
from torches import ONE, Made, made
from visible_values import MEASURED

from envcheck.facts import cuda_codes
from envcheck.facts.cuda_visible_devices import Problem
from envcheck.facts.snapshot import CudaDriverFacts
from envcheck.probes.cuda_driver import probe
from envcheck.target.process import AGENT

__all__ = ["made", "stub_libraries", "stubs"]

SECONDS = 300.0


@pytest.fixture(scope="session")
def cuda_torch(made: Made) -> str:
    """A Python with a CUDA build of torch."""
    if not made.build.get("cuda"):
        pytest.skip("the index serves a CPU build")
    return made.python


@pytest.fixture(scope="session")
def device_torch(made: Made, cuda_torch: str) -> str:
    """One that the stand-in for the runtime serves."""
    if int(made.build["cuda"].partition(".")[0]) < 12:
        pytest.skip("the stand-in for the runtime has the layout of CUDA 12 and newer")
    return cuda_torch


@pytest.fixture(scope="session")
def one_torch(made: Made, cuda_torch: str) -> str:
    """Where the build makes no difference."""
    if made.row.torch != ONE:
        pytest.skip(f"tried on torch {ONE}")
    return cuda_torch


def clean(**more: str) -> dict[str, str]:
    taken = ("VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "LD_PRELOAD")
    return {key: value for key, value in os.environ.items() if key not in taken} | more


def check(python: str, env: dict[str, str], *flags: str) -> dict[str, Any]:
    argv = [sys.executable, "-m", "envcheck", "--python", python, "--json", *(flags or ("--live", "off"))]
    done = subprocess.run(argv, env=clean(**env), capture_output=True, text=True, timeout=SECONDS)
    assert done.stdout, done.stderr[-2000:]
    report: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == report["exit_code"]
    return report


def faults(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["rule"]: one for one in report["findings"] if one["severity"] != "info"}


def run(python: str, code: str, env: dict[str, str], *arguments: str) -> Any:
    """What a program in the target prints as its last line, as JSON."""
    argv = [python, "-W", "ignore", "-c", code, *arguments]
    done = subprocess.run(argv, env=clean(**env), capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


# ---- the stub itself


def seen(stubs: Stubs, cards: tuple[Card, ...], visible: str | None = None) -> CudaDriverFacts:
    env = {"PATH": "/usr/bin:/bin", **stubs.environment(Machine(cards))}
    facts = probe(FakeDriverHost(env if visible is None else {**env, "CUDA_VISIBLE_DEVICES": visible}))
    assert isinstance(facts, CudaDriverFacts), facts
    return facts


@pytest.mark.parametrize(("value", "available", "problem"), [row for row in MEASURED if row[0] is not None and "GPU-1" not in row[0]])
def test_the_stub_reads_cuda_visible_devices_as_the_real_driver(stubs: Stubs, value: str, available: bool, problem: Problem) -> None:
    facts = seen(stubs, (H100,), value)
    error = cuda_codes.INVALID_DEVICE if problem is Problem.DUPLICATE else cuda_codes.NO_DEVICE
    assert (facts.init_code, facts.device_count) == ((0, 1) if available else (error, None))


@pytest.mark.parametrize(
    ("visible", "wanted"),
    [(None, [0, 1, 2, 3]), ("3,1", [3, 1]), ("2,9,0", [2]), ("GPU-3", [2]), ("GPU-4,GPU-1", [3, 0]), ("1,GPU-5", [1])],
)
def test_the_stub_shows_devices_in_the_order_that_is_asked_for(stubs: Stubs, visible: str | None, wanted: list[int]) -> None:
    cards = h100s(4)
    assert [one.uuid for one in seen(stubs, cards, visible).devices] == [cards[index].uuid for index in wanted]


def test_the_stub_of_a_partitioned_gpu(stubs: Stubs) -> None:
    facts = seen(stubs, SLICES, SLICES[1].uuid)
    assert [(one.name, one.uuid, one.memory_bytes) for one in facts.devices] == [(SLICES[1].name, A100, SLICES[1].mib << 20)]


# ---- before the fork

QUESTIONS = """
import json, os, sys
sys.path.insert(0, os.path.dirname(sys.argv[1]))
import main
jsonl, torch_constants = main.load("jsonl"), main.load("torch_constants")
def calls():
    try:
        with open(os.environ["STUB_LOG"]) as file:
            return [line.split()[2] for line in file]
    except OSError:
        return []
    finally:
        open(os.environ["STUB_LOG"], "w").close()
import torch
told = {"import torch": calls()}
def call(owner, question, *rest, real=jsonl.call):
    value = real(owner, question, *rest)
    told[question] = calls()
    return value
jsonl.call = call
torch_constants.torch_facts(torch), torch_constants.backend_facts(torch), torch_constants.ask(torch, "cuda.is_initialized")
told["everything else"] = calls()
torch.cuda.device_count(), torch.__config__.show()
print(json.dumps([told, calls(), torch_constants.BEFORE_FORK, torch_constants.OF_PLAIN_BUILDS]))
"""


@pytest.mark.torches
@pytest.mark.parametrize("runtime", [False, True], ids=["real-runtime", "stub-runtime"])
def test_no_question_before_the_fork_reaches_the_driver(cuda_torch: str, stubs: Stubs, runtime: bool) -> None:
    told, last, asked, late = run(cuda_torch, QUESTIONS, stubs.environment(Machine(), runtime), AGENT)
    assert {question: calls for question, calls in told.items() if calls} == {}
    assert set(told) - {"import torch", "everything else"} == set(asked) - set(late)
    assert "cuInit" in last, "what counts the devices is written down"


@pytest.mark.torches
@pytest.mark.parametrize("runtime", [False, True], ids=["real-runtime", "stub-runtime"])
def test_only_children_of_the_agent_use_the_driver(cuda_torch: str, stubs: Stubs, tmp_path: Path, runtime: bool) -> None:
    out = tmp_path / "agent.jsonl"
    told = {"out": str(out), "folder": str(tmp_path), "static": False, "live": "quick", "nproc": None, "backend": "auto"}
    told |= {"start_method": "auto", "devices_seconds": 90.0, "live_seconds": 200.0}
    with subprocess.Popen([cuda_torch, AGENT, json.dumps(told)], env=clean(**stubs.environment(Machine(), runtime))) as agent:
        assert agent.wait(SECONDS) == 0
    lines = {line["section"]: line for line in map(json.loads, out.read_text().splitlines()) if "section" in line}
    assert "value" in lines["devices"] and "value" in lines["live"]
    calls = stubs.calls()
    assert "cuInit" in {call.function for call in calls}
    assert agent.pid not in {call.pid for call in calls}
    assert {call.parent for call in calls} == {agent.pid}


# ---- devices that torch sees


@pytest.mark.torches
def test_a_healthy_machine(device_torch: str, stubs: Stubs) -> None:
    cards = h100s(2)
    report = check(device_torch, stubs.environment(Machine(cards), runtime=True))
    assert (report["verdict"], faults(report), report["unknown"]) == ("pass", {}, [])
    devices, torch = report["facts"]["devices"], report["facts"]["torch"]
    assert (devices["available"], devices["count"], devices["error"], devices["warnings"]) == (True, 2, None, [])
    says = "import json, torch; print(json.dumps([torch._C._cuda_getArchFlags(), torch.__config__.show()]))"
    flags, config = run(device_torch, says, stubs.environment(Machine(cards), runtime=True))
    # A long text is cut between words
    assert (torch["arch_list"], torch["config"]) == (flags.split(), config if len(config) <= 2000 else config[:2000].rpartition(" ")[0])
    for index, (found, card) in enumerate(zip(devices["devices"], cards, strict=True)):
        assert (found["index"], found["name"], found["compute_capability"]) == (index, card.name, card.capability)
        assert (found["memory_bytes"], found["kernel"]) == (card.mib << 20, None)
        assert found["uuid"] in (card.uuid, None)  # torch before 2.5 does not tell it
    assert [one["uuid"] for one in report["facts"]["cuda_driver"]["devices"]] == [card.uuid for card in cards]


@pytest.mark.torches
def test_devices_that_are_chosen(one_torch: str, stubs: Stubs) -> None:
    cards = h100s(8)
    report = check(
        one_torch, {**stubs.environment(Machine(cards), runtime=True), "CUDA_VISIBLE_DEVICES": f"{cards[5].uuid},{cards[2].uuid[:5]}"}
    )
    assert (report["verdict"], faults(report), report["facts"]["devices"]["count"]) == ("pass", {}, 2)
    assert [one["uuid"] for one in report["facts"]["cuda_driver"]["devices"]] == [cards[5].uuid, cards[2].uuid]


@pytest.mark.torches
@pytest.mark.parametrize(
    ("visible", "rule", "count"),
    [
        ("", "visible-devices-empty", 0),
        ("8", "visible-devices-out-of-range", 0),
        ("1,9,0", "visible-devices-truncated", 1),
        ("0,0", "visible-devices-duplicate", 0),
    ],
)
def test_devices_that_are_hidden(one_torch: str, stubs: Stubs, visible: str, rule: str, count: int) -> None:
    env = {**stubs.environment(Machine(h100s(8)), runtime=True), "CUDA_VISIBLE_DEVICES": visible}
    report = check(one_torch, env)
    assert (next(iter(faults(report)), None), report["facts"]["devices"]["count"]) == (rule, count)


@pytest.mark.torches
def test_an_instance_of_a_partitioned_gpu(one_torch: str, stubs: Stubs) -> None:
    env = {**stubs.environment(Machine(SLICES), runtime=True), "CUDA_VISIBLE_DEVICES": SLICES[1].uuid}
    report = check(one_torch, env)
    assert (report["verdict"], faults(report)) == ("pass", {})
    (device,) = report["facts"]["devices"]["devices"]
    assert (device["name"], device["memory_bytes"]) == (SLICES[1].name, SLICES[1].mib << 20)
    assert device["uuid"] in (A100, None)  # libcudart asks for the UUID that is the GPU's
    (gpu,) = report["facts"]["gpus"]["devices"]
    assert (gpu["uuid"], gpu["mig"], gpu["mig_devices"]) == (A100, True, [one.uuid for one in SLICES])


@pytest.mark.torches
@pytest.mark.parametrize("card", [RTX_5090, GTX_1080, H100], ids=lambda card: card.name)
def test_a_gpu_that_the_build_has_code_for_or_not(device_torch: str, stubs: Stubs, card: Card) -> None:
    report = check(device_torch, stubs.environment(Machine((card,)), runtime=True))
    archs, sm = report["facts"]["torch"]["arch_list"], int(card.capability.replace(".", ""))
    built = [int(arch.partition("_")[2]) for arch in archs if arch.partition("_")[2].isdecimal()]
    serves = any(one // 10 == sm // 10 and one <= sm for one in built)
    rule = None if serves else "gpu-too-new-for-torch" if sm > max(built) else "gpu-too-old-for-torch"
    assert list(faults(report)) == ([] if rule is None else [rule])


# ---- errors of the driver

# By the CUDA major of a build: a driver that it cannot run on.
TOO_OLD = {11: Machine((GTX_1080,), cuda=10020, driver="440.100")} | dict.fromkeys((12, 13), Machine(cuda=11040, driver="470.256.02"))
# Code of cuInit → rules one of which must speak. What has no rule of its own is told in CUDA's words.
OF_CUINIT = {
    2: {"torch-cuda-unavailable", "gpu-out-of-memory"},
    3: {"torch-cuda-unavailable"},
    34: {"libcuda-stub"},
    46: {"torch-cuda-unavailable", "gpu-exclusive-mode"},
    100: {"torch-cuda-unavailable"},
    101: {"torch-cuda-unavailable"},
    304: {"nvidia-uvm-missing"},
    802: {"fabric-not-ready"},
    803: {"driver-library-mismatch", "cuda-compat-shadows-driver"},  # the second one in a container
    804: {"driver-library-mismatch", "cuda-compat-unsupported-gpu"},
    999: {"nvidia-uvm-missing"},
}
# What torch says instead of the runtime's own words.
OF_TORCH = {
    3: "CUDA driver initialization failed",
    100: "No CUDA GPUs are available",
    999: "CUDA unknown error",
}


@pytest.mark.torches
@pytest.mark.parametrize("code", OF_CUINIT)
def test_each_error_of_cuinit_has_its_rule(one_torch: str, stubs: Stubs, code: int) -> None:
    report = check(one_torch, stubs.environment(Machine(faults=f"cuInit={code}")))
    assert (report["verdict"], report["facts"]["cuda_driver"]["init_code"]) == ("fail", code)
    found = faults(report)
    assert set(found) & OF_CUINIT[code] and set(found) <= OF_CUINIT[code] | {"torch-cuda-unavailable"}, found
    assert OF_TORCH.get(code, f"Error {code}: ") in report["facts"]["devices"]["error"]


@pytest.mark.torches
def test_a_driver_that_is_too_old(cuda_torch: str, made: Made, stubs: Stubs) -> None:
    machine = TOO_OLD[int(made.build["cuda"].partition(".")[0])]
    report = check(cuda_torch, stubs.environment(machine))
    found = faults(report)
    assert list(found) == ["driver-too-old"] and machine.driver in found["driver-too-old"]["message"]
    assert f"too old (found version {machine.cuda})" in report["facts"]["devices"]["error"]


@pytest.mark.torches
def test_a_driver_of_the_major_before(cuda_torch: str, stubs: Stubs) -> None:
    """12.2 is enough for every build of 11.x and 12.x and for none of 13.x."""
    report = check(cuda_torch, stubs.environment(Machine((RTX_3090,), cuda=12020, driver="535.183.01", faults="cuInit=100")))
    too_old = int(report["facts"]["torch"]["cuda"].partition(".")[0]) > 12
    assert list(faults(report)) == ["driver-too-old" if too_old else "torch-cuda-unavailable"]


@pytest.mark.torches
def test_no_gpu_at_all(one_torch: str, stubs: Stubs) -> None:
    report = check(one_torch, stubs.environment(Machine(())))
    assert (report["verdict"], faults(report), report["facts"]["devices"]["available"]) == ("pass", {}, False)


@pytest.mark.torches
def test_a_driver_that_the_runtime_refuses(cuda_torch: str, stubs: Stubs) -> None:
    """libcuda answers, and CUDA does not start all the same: this is where a driver of ours ends (see above)."""
    report = check(cuda_torch, stubs.environment(Machine((RTX_3090,))))
    assert list(faults(report)) == ["torch-cuda-unavailable"]
    assert (report["facts"]["cuda_driver"]["init_code"], report["facts"]["devices"]["available"]) == (0, False)


CASES = """
import json, os, sys
sys.path.insert(0, os.path.dirname(sys.argv[1]))
import main
jsonl, processes, devices = main.load("jsonl"), main.load("processes"), main.load("devices")
import torch
told = {}
for faults in json.loads(sys.argv[2]):
    os.environ["STUB_FAULTS"] = faults
    pid, receive, send = processes.fork_with_pipe()
    if pid == 0:
        os.close(receive)
        devices.answer(lambda **said: jsonl.write_all(send, jsonl.encoded(said)), sys.argv[3] == "kernels", forked=True)
        os._exit(0)
    os.close(send)
    with open(receive, "rb") as file:
        told[faults] = devices.merged(file.read())
    told[faults]["status"] = os.waitpid(pid, 0)[1]
print(json.dumps(told))
"""


@pytest.mark.torches
def test_the_words_of_every_runtime(cuda_torch: str, stubs: Stubs) -> None:
    """The table of CUDA's errors says what the libcudart of each build says, and torch passes it on."""
    cases = {f"cuInit={code}": OF_TORCH.get(code) or f"Error {code}: {cuda_codes.WORDS[code]}" for code in OF_CUINIT}
    told = run(cuda_torch, CASES, stubs.environment(Machine()), AGENT, json.dumps(list(cases)), "plain")
    for case, words in cases.items():
        value = told[case]["value"]
        assert (told[case]["status"], value["available"]) == (0, False)
        assert words in value["error"], case
        assert case == "cuInit=100" or any(words in one for one in value["warnings"]), case


# ---- contexts, memory and launches that fail

OF_KERNELS = {
    "": ("wrong", "sum of 2i+1 over i < 1024 gave 0"),
    "cuMemAlloc_v2=2": ("unknown", "out of memory"),
    "cuMemAlloc_v2=1": ("failed", "invalid argument"),
    "cuDevicePrimaryCtxRetain=2": ("unknown", "out of memory"),
    "cuDevicePrimaryCtxRetain=46": ("unknown", "busy or unavailable"),
    "cuDevicePrimaryCtxRetain=101": ("failed", "invalid device ordinal"),
    "cuLaunchKernel=209": ("failed", "no kernel image is available for execution on the device"),
    "cuLaunchKernel=700": ("failed", "an illegal memory access was encountered"),
    "cuLaunchKernel=719": ("failed", "unspecified launch failure"),
}


@pytest.mark.torches
def test_kernels_that_fail(device_torch: str, stubs: Stubs) -> None:
    told = run(
        device_torch, CASES, stubs.environment(Machine(), runtime=True), AGENT, json.dumps([*OF_KERNELS, "cuLaunchKernel=segv"]), "kernels"
    )
    for case, (kernel, words) in OF_KERNELS.items():
        (device,) = told[case]["value"]["devices"]
        assert (device["name"], device["kernel"]) == (H100.name, kernel), (case, device)
        assert words in device["kernel_error"], case
    # What the child said before it died is there.
    assert (os.WTERMSIG(told["cuLaunchKernel=segv"]["status"]), set(told["cuLaunchKernel=segv"])) == (
        signal.SIGSEGV,
        {"arch_list", "status"},
    )


@pytest.mark.torches
@pytest.mark.parametrize(
    ("fault", "rules"),
    [("", {"gpu-kernel-failed"}), ("cuLaunchKernel=719", {"gpu-kernel-failed"}), ("cuLaunchKernel=209", {"gpu-kernel-failed"}),
     ("cuDevicePrimaryCtxRetain=101", {"gpu-kernel-failed"}), ("cuDevicePrimaryCtxRetain=46", set())],
)  # fmt: skip
def test_a_gpu_that_computes_nothing(one_torch: str, stubs: Stubs, fault: str, rules: set[str]) -> None:
    report = check(one_torch, stubs.environment(Machine(faults=fault), runtime=True), "--live", "quick")
    assert (report["verdict"], set(faults(report))) == ("fail" if rules else "inconclusive", rules)
    assert report["live"]["status"] == "pass", "gloo needs no GPU"
    assert not [arm for arm in report["live"]["arms"] if arm["backend"] == "nccl"]


@pytest.mark.torches
def test_one_gpu_of_two_without_code(one_torch: str, stubs: Stubs) -> None:
    report = check(one_torch, stubs.environment(Machine((H100, GTX_1080)), runtime=True))
    archs = report["facts"]["torch"]["arch_list"]
    found = faults(report)
    assert list(found) == ([] if "sm_60" in archs else ["gpu-too-old-for-torch"])
    assert all(one["severity"] == "warning" for one in found.values())


# ---- a driver that hangs or crashes


@pytest.mark.torches
@pytest.mark.parametrize(
    ("fault", "rule", "words"),
    [
        ("cuInit=segv", "libcuda-crashed", "died with SIGSEGV"),
        ("cuDriverGetVersion=segv", "libcuda-crashed", "died with SIGSEGV"),
        ("cuInit=hang", "libcuda-unresponsive", "did not end within"),
    ],
)
def test_a_driver_that_hangs_or_crashes(one_torch: str, stubs: Stubs, fault: str, rule: str, words: str) -> None:
    """It takes the ranks with it, which train on the CPU: DDP over gloo asks for devices too. One cause is named, not the ranks."""
    report = check(one_torch, stubs.environment(Machine(faults=fault)), "--live", "quick", "--timeout", "60")
    found = faults(report)
    assert (report["verdict"], list(found)) == ("fail", [rule])
    assert report["live"]["status"] in ("fail", "hang", "inconclusive")
    devices, torch = report["facts"]["devices"], report["facts"]["torch"]
    assert devices["reason"].startswith("asking the devices") and words in devices["reason"]
    assert "agent/devices.py" in devices["evidence"]
    # What was stated before, and before the child died, is there.
    assert torch["import_status"] == "ok" and torch["arch_list"] and torch["nccl_loaded"]


@pytest.mark.torches
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("cuLaunchKernel=segv", "died with SIGSEGV"),
        ("cuLaunchKernel=hang", "did not end within"),
        ("cuDevicePrimaryCtxRetain=hang", "did not end within"),
    ],
)
def test_a_context_or_launch_that_hangs_or_crashes(one_torch: str, stubs: Stubs, fault: str, words: str) -> None:
    """It costs what the devices' child would have said, and nothing else. One death proves no fault for certain; it is named."""
    report = check(one_torch, stubs.environment(Machine(faults=fault), runtime=True), "--live", "quick", "--timeout", "60")
    named = {"gpu-kernel-failed": "likely"} if "SIGSEGV" in words else {}
    found = {rule: one["confidence"] for rule, one in faults(report).items()}
    assert (report["verdict"], found, report["live"]["status"]) == ("inconclusive", named, "pass")
    devices = report["facts"]["devices"]
    assert devices["reason"].startswith("asking the devices") and words in devices["reason"]
    assert "agent/devices.py" in devices["evidence"]


# ---- NVML counts what CUDA cannot use


@pytest.mark.torches
def test_a_count_of_nvml_proves_nothing(one_torch: str, stubs: Stubs) -> None:
    env = {**stubs.environment(Machine(h100s(2), faults="cuInit=999")), "PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
    report = check(one_torch, env)
    devices = report["facts"]["devices"]
    assert (devices["available"], devices["count"], devices["nvml_check"]) == (True, 2, True)
    assert report["verdict"] == "fail" and "nvidia-uvm-missing" in faults(report)
