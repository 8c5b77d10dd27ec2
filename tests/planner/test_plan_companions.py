"""What must move together with torch and what would break: one package and one build at a time."""

from __future__ import annotations

from typing import Any

import pytest
from packaging.requirements import Requirement
from plan_hosts import TABLES

from envcheck.facts.record import replace
from envcheck.planner.candidate import catalogue
from envcheck.planner.companions import Broken, Companions, Move, companions, knows, nearest_known
from envcheck.planner.installers import texts
from envcheck.planner.profile import Card, Profile

PROFILE = Profile(
    os="linux", machine="x86_64", platform="linux-x86_64", python="3.12", torch="2.9.1", variant="cu128", accelerator="cuda"
)  # fmt: skip
CU130, CU132 = "2.13.0+cu130", "2.13.0+cu132"
say = texts(TABLES).say


def found(build: str, packages: dict[str, str] | None = None, *wishes: str, build_on: str = "linux-x86_64", **changes: Any) -> Companions:
    wished = {one.name: one for one in map(Requirement, wishes)}
    profile = replace(PROFILE, packages=packages or {}, **changes)
    [one] = [one for one in catalogue(TABLES, build_on) if one.full == build]
    return companions(one, profile, wished, TABLES)


def moved(name: str, version: str | None = None, specifier: str = "", old: str | None = None, **more: Any) -> Companions:
    return Companions(moves=(Move(name, version, specifier, old, **more),))


def wished(name: str, version: str | None = None, specifier: str = "", **more: Any) -> Companions:
    return moved(name, version, specifier, wished=True, **more)


def broken(name: str, key: str, by_wish: bool = False, **values: Any) -> Companions:
    return Companions(broken=(Broken(name, say(f"broken.{key}", name=name, **values), by_wish),))


NOTHING = Companions()
COMPILED = {"version": "2.8.0", "minor": "2.9", "variant": "cu128"}
P100, A100 = Card(0, "Tesla P100", "6.0"), Card(0, "A100", "8.0")

CASES: dict[str, tuple[Companions, Companions]] = {
    # released with torch
    "torchvision goes along": (found(CU130, {"torchvision": "0.24.1"}), moved("torchvision", "0.28.0", old="0.24.1")),
    "nothing moves beside the same build": (found("2.9.1+cu128", {"torchvision": "0.20"}), NOTHING),
    "another CUDA is another build": (found("2.9.1+cu126", {"torchvision": "0.20"}), moved("torchvision", "0.24.1", old="0.20")),
    "the wished one": (found("2.15.0+cu132", {}, "torchvision"), wished("torchvision", "0.29.2")),
    "not the one for this torch": (
        found(CU130, {}, "torchvision<0.20"),
        broken("torchvision", "wish", True, version="0.28.0", torch="2.13.0", requirement="torchvision<0.20"),
    ),
    "torchaudio has no such CUDA": (
        found(CU132, {"torchaudio": "2.9.1"}),
        broken("torchaudio", "cuda-compare", version="2.11.0", cuda="13.2"),
    ),
    "torchaudio has no such Python": (
        found(CU130, {"torchaudio": "2.9.1"}, python="3.15"),
        broken("torchaudio", "python", version="2.11.0", python="3.15"),
    ),
    "torchaudio of this Python": (found(CU130, {"torchaudio": "2.9.1"}, python="3.14t"), moved("torchaudio", "2.11.0", old="2.9.1")),
    "torchtext ended": (found(CU130, {"torchtext": "0.18.0"}), broken("torchtext", "ended", last="0.18.0", torch="2.3")),
    "torchtext ended, wished": (found(CU130, {}, "torchtext"), broken("torchtext", "ended", True, last="0.18.0", torch="2.3")),
    "torchdata is on its own": (found(CU130, {"torchdata": "0.9.0"}), NOTHING),
    "torchdata of old is not": (found(CU130, {"torchdata": "0.7.0"}), broken("torchdata", "pin", version="0.7.0", wanted="==2.9.1")),
    "torchdata, wished": (found(CU130, {}, "torchdata"), wished("torchdata", specifier=">0.7.0")),
    "torchdata, wished so": (found(CU130, {}, "torchdata>=0.10"), wished("torchdata", specifier=">=0.10")),
    "torchcodec is too old": (found(CU130, {"torchcodec": "0.8.0"}), moved("torchcodec", specifier=">=0.12", old="0.8.0")),
    "torchcodec fits": (found(CU130, {"torchcodec": "0.12.0"}), NOTHING),
    "torchcodec, wished so": (found(CU130, {}, "torchcodec==0.13"), wished("torchcodec", specifier="==0.13")),
    # NumPy
    "NumPy 2 beside a torch for NumPy 1": (found("2.2.2+cu121", {"numpy": "2.1.0"}), moved("numpy", specifier="<2", old="2.1.0")),
    "NumPy 1 beside it": (found("2.2.2+cu121", {"numpy": "1.26"}), NOTHING),
    "NumPy wished beside it": (found("2.2.2+cu121", {}, "numpy>=1.24"), wished("numpy", specifier=">=1.24,<2")),
    "any NumPy wished beside it": (found("2.2.2+cu121", {}, "numpy"), wished("numpy", specifier="<2")),
    "NumPy 2 beside a newer one": (found(CU130, {"numpy": "2.1"}), NOTHING),
    "NumPy wished beside a newer one": (found(CU130, {}, "numpy<2"), wished("numpy", specifier="<2")),
    # compiled against torch
    "compiled for another release": (found(CU130, {"flash-attn": "2.8.0"}), broken("flash-attn", "compiled", **COMPILED)),
    "compiled for another CUDA": (found("2.9.0+cu130", {"flash-attn": "2.8.0"}), broken("flash-attn", "compiled", **COMPILED)),
    "compiled for the same of both": (found("2.9.0+cu126", {"flash-attn": "2.8.0"}), NOTHING),
    "another extension": (found(CU130, {"apex": "2.8.0"}), broken("apex", "compiled", **COMPILED)),
    "another extension of the same of both": (found("2.9.0+cu126", {"apex": "2.8.0"}), NOTHING),
    "an extension, wished": (found(CU130, {}, "apex"), wished("apex", build_here=True, known=False)),
    "kernels for GPUs that are not there": (
        found("2.13.0+cpu", {}, "mamba-ssm"),
        broken("mamba-ssm", "accelerator", True, kinds="CUDA or ROCm", variant="cpu"),
    ),
    "kernels for one vendor's GPUs": (
        found("2.13.0+rocm7.2", {}, "transformer-engine"),
        broken("transformer-engine", "accelerator", True, kinds="CUDA", variant="rocm7.2"),
    ),
    "kernels for both": (
        found("2.13.0+rocm7.2", {}, "flash-attn"),
        wished("flash-attn", build_here=True, known=False),
    ),
    "an extension for any torch": (found("2.13.0+cpu", {}, "torch-scatter"), wished("torch-scatter", build_here=True, known=False)),
    "flash-attn, for which there is a wheel": (
        found("2.8.0+cu128", {}, "flash-attn>=2"),
        wished("flash-attn", specifier=">=2", build_here=True),
    ),
    "flash-attn, for which there is none": (
        found(CU130, {}, "flash-attn"),
        replace(wished("flash-attn", build_here=True, known=False), notes=(say("note.flash-build", major=13),)),
    ),
    "flash-attn on an old GPU": (
        found(CU130, {}, "flash-attn", cards=(P100,)),
        broken("flash-attn", "gpu", True, floor="8.0", gpu=P100.shown),
    ),
    "flash-attn on the oldest that will do": (
        found("2.8.0+cu128", {}, "flash-attn", cards=(A100,)),
        wished("flash-attn", build_here=True),
    ),
    "an nvcc of another CUDA": (
        found(CU130, {"deepspeed": "0.17"}, nvcc="12.8"),
        Companions(notes=(say("note.nvcc", name="deepspeed", nvcc="12.8", cuda="13.0"),)),
    ),
    "an nvcc of the same CUDA": (found(CU130, {"deepspeed": "0.17"}, nvcc="13.2"), NOTHING),
    "an nvcc beside a CPU build": (found("2.13.0+cpu", {"deepspeed": "0.17"}, nvcc="12.8"), NOTHING),
    # bitsandbytes
    "no library for this CUDA yet": (found(CU130, {"bitsandbytes": "0.45.0"}), moved("bitsandbytes", specifier=">=0.48.0", old="0.45.0")),
    "the first with one": (found(CU130, {"bitsandbytes": "0.48.0"}), NOTHING),
    "the first with one for CUDA 12.8": (
        found("2.8.0+cu128", {"bitsandbytes": "0.45.2"}),
        moved("bitsandbytes", specifier=">=0.45.3", old="0.45.2"),
    ),
    "a CUDA that all have": (found("2.9.0+cu126", {"bitsandbytes": "0.45.0"}), NOTHING),
    "too new for this torch": (
        found("2.2.2+cu121", {"bitsandbytes": "0.49.0"}),
        broken("bitsandbytes", "pin", version="0.49.0", wanted="<3,>=2.3"),
    ),
    "bitsandbytes, wished": (found(CU130, {}, "bitsandbytes"), wished("bitsandbytes", specifier=">=0.48.0")),
    "bitsandbytes, wished so": (found(CU130, {}, "bitsandbytes<1"), wished("bitsandbytes", specifier="<1,>=0.48.0")),
    "bitsandbytes, wished without a library for this CUDA": (
        found(CU130, {}, "bitsandbytes==0.45.0"),
        broken("bitsandbytes", "wish-range", True, torch="2.13.0", wanted=">=0.48.0", requirement="bitsandbytes==0.45.0"),
    ),
    "bitsandbytes before it came to this platform": (
        found("2.9.1+cpu", {}, "bitsandbytes<0.46", platform="linux-aarch64", build_on="linux-aarch64"),
        broken("bitsandbytes", "platform", True, version="0.45.5", platform="linux-aarch64"),
    ),
    # pinned to a torch
    "the version for this torch": (
        found("2.8.0+cu128", {"xformers": "0.0.33.post2"}),
        moved("xformers", "0.0.32.post2", old="0.0.33.post2", index="too"),
    ),
    "of another CUDA than its own": (
        found("2.8.0+cu126", {"xformers": "0.0.33.post2"}),
        moved("xformers", "0.0.32.post2", old="0.0.33.post2", index="alone"),
    ),
    "of another CUDA, and no index has its own": (
        found("2.13.0+cu129", {}, "xformers"),
        replace(
            wished("xformers", "0.0.35", age=0),
            notes=(say("note.other-build", name="xformers", version="0.0.35", built="12.8", cuda="12.9"),),
        ),
    ),
    "of another CUDA major, and no index has its own": (
        found(CU132, {}, "xformers"),
        broken("xformers", "other-cuda", True, version="0.0.35", built=12, cuda="13.2"),
    ),
    "for ROCm on its index alone": (found("2.13.0+rocm7.1", {}, "xformers"), wished("xformers", "0.0.35", index="alone")),
    "for no other ROCm": (
        found("2.13.0+rocm7.2", {}, "xformers"),
        broken("xformers", "cuda-alone", True, version="0.0.35", variant="rocm7.2"),
    ),
    "for CUDA alone": (found("2.14.0+cpu", {}, "vllm"), broken("vllm", "cuda-alone", True, version="0.33.0", variant="cpu")),
    "for CUDA alone, installed": (
        found("2.13.0+cpu", {"vllm": "0.32.0"}),
        broken("vllm", "cuda-alone", version="0.32.0", variant="cpu"),
    ),
    "not on these GPUs": (
        found("2.8.0+cu128", {}, "xformers", cards=(P100,)),
        broken("xformers", "gpu-code", True, version="0.0.32.post2", gpu=P100.shown, archs="sm_75 sm_80 sm_90a compute_80"),
    ),
    "not on GPUs as old": (
        found("2.10.0+cu126", {}, "vllm", cards=(P100,)),
        broken("vllm", "gpu", True, floor="7.0", gpu=P100.shown),
    ),
    "not in these versions": (
        found("2.8.0+cu128", {}, "xformers>=0.0.33"),
        broken("xformers", "not-wished", True, torch="2.8.0", versions="0.0.32.post1, 0.0.32.post2", requirement="xformers>=0.0.33"),
    ),
    "compiled for an older torch whatever it asks for": (
        found("2.9.1+cu128", {}, "vllm<0.14"),
        broken("vllm", "not-wished", True, torch="2.9.1", versions="0.14.0, 0.14.1, 0.15.0, 0.15.1, 0.16.0", requirement="vllm<0.14"),
    ),
    "compiled for the newest torch of its day": (
        found("2.1.2+cu121", {}, "vllm<0.2.6", python="3.10"),
        wished("vllm", "0.2.5", age=TABLES.third_party("vllm")[::-1].index(TABLES.pin_of("vllm", "0.2.5"))),
    ),
    "no wheel for this platform": (
        found("2.11.0+cu126", {}, "vllm", platform="windows-x86_64", os="windows", build_on="windows-x86_64"),
        broken("vllm", "platform", True, version="0.26.0", platform="windows-x86_64"),
    ),
    "no wheel for this Python": (
        found("2.6.0+cu124", {}, "torch-tensorrt", python="3.13"),
        broken("torch-tensorrt", "python", True, version="2.6.1", python="3.13"),
    ),
    "no wheel for a free-threaded Python": (
        found("2.10.0+cu128", {}, "xformers==0.0.34", python="3.14t"),
        broken("xformers", "python", True, version="0.0.34", python="3.14t"),
    ),
    "a wheel for any Python": (found("2.10.0+cu128", {}, "xformers", python="3.14t"), wished("xformers", "0.0.35", index="too")),
    "a companion later than its torch": (
        found("2.5.1+cu124", {}, "torchvision", python="3.13"),
        broken("torchvision", "python", True, version="0.20.1", python="3.13"),
    ),
    "a companion in time": (found("2.5.1+cu124", {}, "torchvision", python="3.12"), wished("torchvision", "0.20.1")),
    "companions for XPU": (found("2.14.1+xpu", {}, "torchvision"), wished("torchvision", "0.29.1")),
    "companions for ROCm": (found("2.12.1+rocm7.2", {}, "torchaudio"), wished("torchaudio", "2.11.0")),
    "companions not seen for a ROCm": (
        found("2.12.1+rocm7.1", {}, "torchaudio"),
        broken("torchaudio", "no-build", True, version="2.11.0", torch="2.12.1", variant="rocm7.1"),
    ),
    "a torchcodec of another torch": (
        found(CU130, {}, "torchcodec<0.9"),
        broken("torchcodec", "wish-range", True, torch="2.13.0", wanted=">=0.12", requirement="torchcodec<0.9"),
    ),
    "a torchcodec that both allow": (found(CU130, {}, "torchcodec<0.14"), wished("torchcodec", specifier="<0.14,>=0.12")),
    "a torchcodec without a wheel": (
        found("2.9.1+cpu", {}, "torchcodec", platform="linux-aarch64", build_on="linux-aarch64"),
        broken("torchcodec", "platform", True, version="0.9.1", platform="linux-aarch64"),
    ),
    "the one that is there will do": (found("2.9.1+cu128", {"vllm": "0.16.0"}), NOTHING),
    "a package that nobody knows": (found(CU130, {}, "unknown-thing>=2"), wished("unknown-thing", specifier=">=2", known=False)),
    "a package that nobody knows, installed": (found(CU130, {"unknown-thing": "2"}), NOTHING),
    "with its extras": (
        found(CU130, {}, "transformers[torch,sentencepiece]"),
        wished("transformers", known=False, extras=("sentencepiece", "torch")),
    ),
    # files of the other CUDA
    "other CUDAs go first": (
        found(CU130, {"nvidia-cudnn-cu12": "9", "nvidia-nccl-cu11": "2", "nvidia-cudnn-cu13": "9"}),
        Companions(remove=("nvidia-cudnn-cu12", "nvidia-nccl-cu11")),
    ),
    "back to the CUDA before": (found("2.8.0+cu128", {"nvidia-cudnn-cu13": "9"}), Companions(remove=("nvidia-cudnn-cu13",))),
    "CUDA 11 brings none of them": (found("2.6.0+cu118", {"nvidia-cudnn-cu12": "9"}), NOTHING),
    "a CPU build brings none": (found("2.9.1+cpu", {"nvidia-cudnn-cu12": "9"}), NOTHING),
    "nothing at all": (found(CU130), NOTHING),
    "torch itself is none": (found(CU130, {"torch": "2.9.1"}), NOTHING),
}


@pytest.mark.parametrize("case", CASES)
def test_one_package(case: str) -> None:
    got, wanted = CASES[case]
    assert got == wanted


def test_the_newest_that_goes_with_it_tells_how_old_it_is() -> None:
    """Only of what was wished: a torch with a newer one beside it is better then."""
    [new] = found("2.13.0+cu130", {}, "vllm").moves
    [old] = found("2.9.1+cu128", {}, "vllm").moves
    [installed] = found("2.13.0+cu130", {"vllm": "0.16.0"}).moves
    assert 0 <= new.age < old.age and installed.age == 0
    assert (old.version, installed.version) == ("0.16.0", new.version)


def test_a_note_is_said_once() -> None:
    notes = found(CU130, {"deepspeed": "0.17", "apex": "0.1"}, nvcc="12.8").notes
    assert notes == tuple(say("note.nvcc", name=name, nvcc="12.8", cuda="13.0") for name in ("deepspeed", "apex"))


def test_requirements() -> None:
    assert Move("a", "1.0").requirement() == "a==1.0" and Move("a", "1.0").requirement("cu130") == "a==1.0+cu130"
    assert Move("a", specifier=">=2").requirement("cu130") == "a>=2" and Move("a").new == ""
    assert Move("a", "1.0", extras=("x", "y")).requirement() == "a[x,y]==1.0" and Move("a", "1.0", ">=2").new == "1.0"


def test_names() -> None:
    assert [knows(name, TABLES) for name in ("torchvision", "vllm", "apex", "numpy", "requests")] == [True, True, True, True, False]
    assert [nearest_known(name, TABLES) for name in ("torchvison", "xformer", "requests")] == ["torchvision", "xformers", None]
