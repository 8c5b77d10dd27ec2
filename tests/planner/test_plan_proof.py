"""The machine after a change, as the rules see it when they prove a plan; and what they then hold against it."""

from __future__ import annotations

from typing import Any

import pytest
from plan_hosts import TABLES, TEXTS, build_of, machine

from envcheck.engine.intents import Intent, TorchBuild
from envcheck.engine.rule import Answer, Check, Confidence, Facts, Hit, RuleTexts, Severity, Unknown, check
from envcheck.facts.record import replace
from envcheck.facts.snapshot import (
    CudaDriverFacts,
    Distribution,
    DriverFacts,
    GpusFacts,
    Missing,
    PackagesFacts,
    Snapshot,
    SymptomsFacts,
    TorchFacts,
    Unmet,
    VisibilityFacts,
    Why,
)
from envcheck.planner.companions import Companions, Move
from envcheck.planner.proof import Change, Judge, Proof, apply

SITE = "/venv/lib/python3.12/site-packages"
BEFORE = PackagesFacts(
    (
        Distribution("torch", "2.9.1+cu128", SITE), Distribution("torchvision", "0.24.1+cu128"), Distribution("triton", "3.5.1"),
        Distribution("nvidia-nccl-cu12", "2.27.5"), Distribution("nvidia-ml-py", "13.0"), Distribution("xformers", "0.0.33"),
        Distribution("numpy", "1.26.4"),
    ),
    duplicates=("torch", "numpy"),
    leftovers=("~orch",),
    unmet=(
        Unmet("torchvision", "torch==2.13.0", "2.9.1"), Unmet("accelerate", "torch>=2.10"), Unmet("old", "torch<2.10"),
        Unmet("other", "numpy>=2"), Unmet("more", "numpy<1"), Unmet("none", "scipy"), Unmet("bad", "!!"),
        Unmet("lib", "nvidia-nccl-cu12==1"),
    ),
    overwritten=("a",),
    damaged=("b",),
)  # fmt: skip
HOST = replace(machine({"gpu": "h100", "driver": "580.95.05", "torch": "2.9.1+cu128"}), packages=BEFORE, symptoms=SymptomsFacts(()))


def after(**change: Any) -> Snapshot:
    return apply(HOST, Change(**change), TABLES)


def versions(snapshot: Snapshot) -> dict[str, str | None]:
    assert isinstance(snapshot.packages, PackagesFacts)
    return {row.name: row.version for row in snapshot.packages.distributions}


def skipped(section: object) -> bool:
    return isinstance(section, Missing) and section.why is Why.SKIPPED


def test_a_build_of_the_index() -> None:
    """Its companions carry its label, what torch pinned before is gone, and of what it pins now nothing is known."""
    moves = (
        Move("torchvision", "0.28.0"), Move("torchaudio", "2.11.0+cu130"), Move("torchtext", specifier=">=0.18,<1"),
        Move("flash-attn", specifier="!=2.7,~=2.8.*"), Move("requests"),
    )  # fmt: skip
    found = after(build=build_of(HOST, "2.13.0+cu126"), beside=Companions(moves, remove=("xformers",)))
    assert versions(found) == {
        "nvidia-ml-py": "13.0", "numpy": "1.26.4", "torch": "2.13.0+cu126", "torchvision": "0.28.0+cu126", "torchaudio": "2.11.0+cu130",
        "torchtext": "0.18", "flash-attn": "2.8", "requests": None,
    }  # fmt: skip
    packages, torch = found.packages, found.torch
    assert isinstance(packages, PackagesFacts) and isinstance(torch, TorchFacts)
    assert {row.name: row.location for row in packages.distributions if row.name in ("torch", "torchvision")} == {
        "torch": SITE,
        "torchvision": SITE,
    }
    assert [row.installer for row in packages.distributions if row.name == "torch"] == ["pip"]
    assert (packages.duplicates, packages.leftovers, packages.overwritten, packages.damaged) == (("numpy",), ("~orch",), (), ())
    assert (torch.version, torch.cuda, torch.hip, torch.xpu, torch.cpu_build, torch.conda) == (
        "2.13.0+cu126", "12.6", None, None, False, False,
    )  # fmt: skip
    assert all(skipped(section) for section in (found.devices, found.live, found.symptoms))


def test_wishes_of_other_packages_that_a_build_meets() -> None:
    found = after(build=build_of(HOST, "2.13.0+cu126"), beside=Companions((Move("numpy", "2.1.0"),))).packages
    assert isinstance(found, PackagesFacts)
    assert [(row.distribution, row.requirement) for row in found.unmet] == [
        ("old", "torch<2.10"),
        ("more", "numpy<1"),
        ("none", "scipy"),
        ("bad", "!!"),
    ]


def test_the_build_of_pypi_brings_its_pins() -> None:
    found = versions(after(build=build_of(HOST, "2.13.0+cu130")))
    pins = {name: wanted.removeprefix("==") for name, wanted in TABLES.pins("2.13.0").items() if wanted.startswith("==")}
    assert len(pins) > 10 and found.items() >= {"torch": "2.13.0", **pins}.items() and "nvidia-nccl-cu12" not in found
    windows = replace(machine({"gpu": "4090", "driver": "581.57", "os": "windows", "torch": "2.9.1+cu128"}), packages=BEFORE)
    there = apply(windows, Change(build_of(windows, "2.13.0+cpu")), TABLES)
    assert not {"triton", "nvidia-nccl-cu13"} & versions(there).keys()


def test_a_cpu_build() -> None:
    found = after(build=build_of(HOST, "2.13.0+cpu")).torch
    assert isinstance(found, TorchFacts)
    assert (found.version, found.cuda, found.cpu_build, found.arch_list) == ("2.13.0+cpu", None, True, ())


@pytest.mark.parametrize(("release", "abi"), [("2.5.1+cu124", False), ("2.13.0+cu126", True)])
def test_the_abi_of_a_release(release: str, abi: bool) -> None:
    found = after(build=build_of(HOST, release)).torch
    assert isinstance(found, TorchFacts) and found.cxx11_abi is abi


def test_packages_beside_the_torch_that_stays() -> None:
    live = replace(HOST, live=Missing(Why.FAILED, "x"))
    found = apply(live, Change(beside=Companions((Move("numpy", "2.1.0"), Move("vllm", "0.16.0")))), TABLES)
    assert versions(found) == {**versions(HOST), "numpy": "2.1.0", "vllm": "0.16.0"}
    assert found.torch == HOST.torch and found.devices == HOST.devices and found.live == live.live and skipped(found.symptoms)


def test_a_driver() -> None:
    found = after(driver="595.45.04", driver_cuda="13.2")
    assert isinstance(found.driver, DriverFacts)
    assert (found.driver.version, found.driver.library_version, found.driver.cuda) == ("595.45.04", "595.45.04", "13.2")
    assert (found.driver.module_loaded, found.driver.readings, found.driver.windows_version) == (True, (), None)
    assert skipped(found.cuda_driver)
    wsl = replace(HOST, driver=replace(found.driver, windows_version="581.57"))
    after_ = apply(wsl, Change(driver="596.00"), TABLES).driver
    assert isinstance(after_, DriverFacts) and after_.windows_version == "596.00"


def test_a_library_in_front_of_the_drivers() -> None:
    found = after(compat_cuda="13.2").cuda_driver
    assert isinstance(found, CudaDriverFacts) and (found.init_code, found.driver_version, found.is_compat) == (0, "13.2", True)


def test_gpus_that_are_hidden() -> None:
    host = machine({"gpu": ("4090", "k80", "t4"), "driver": "470.256.02", "torch": "2.9.1+cu128"})
    assert isinstance(host.gpus, GpusFacts)
    named = tuple(replace(gpu, uuid=f"GPU-{gpu.index}" if gpu.index == 2 else None) for gpu in host.gpus.devices)
    found = apply(replace(host, gpus=replace(host.gpus, devices=named)), Change(visible=(2, 0)), TABLES).visibility
    assert isinstance(found, VisibilityFacts)
    assert (found.selected, found.cuda_visible_devices, found.stopped_at) == ((2, 0), "GPU-2,0", None)


# ---------------------------------------------------------------- what is held against a change


def rule(identity: str, answer: Any) -> Check:
    """A check whose answer depends on the version of torch."""

    def function(facts: Facts) -> Answer:
        made: Answer = answer(facts.torch.version or "")
        return made

    return replace(check(needs="", reads="torch")(function), id=identity)


def hit(*fixes: Intent, severity: Severity = Severity.ERROR) -> Hit:
    return Hit(fixes=fixes, severity=severity)


OLD = "2.9.1+cu128"
NEW = "2.13.0+cu126"


def always(answer: Answer) -> Any:
    return lambda version: answer


def on(version: str, answer: Answer) -> Any:
    return lambda here: answer if here == version else None


@pytest.mark.parametrize(
    ("answer", "proof"),
    [
        (always(None), Proof()),
        (on(OLD, hit(TorchBuild())), Proof()),
        (always(hit(TorchBuild())), Proof(left=("some-rule",))),
        (always(hit()), Proof()),  # an error that has nothing to do with the build
        (on(NEW, hit()), Proof(new=("some-rule",))),
        (on(NEW, hit(TorchBuild())), Proof(new=("some-rule",))),
        (on(NEW, hit(severity=Severity.WARNING)), Proof()),
        (always(hit(TorchBuild(), severity=Severity.WARNING)), Proof(left=("some-rule",))),
        (always(hit(TorchBuild(), severity=Severity.INFO)), Proof()),
        (on(NEW, Unknown("x")), Proof()),
    ],
)
def test_what_stands_against_a_change(answer: Any, proof: Proof) -> None:
    judge = Judge(HOST, (rule("some-rule", answer),), RuleTexts(()), TABLES)
    assert judge.prove(Change(build_of(HOST, NEW))) == proof
    assert proof.holds is (proof == Proof())


@pytest.mark.parametrize(
    ("identity", "confidence", "stays"),
    [
        ("driver-not-loaded", Confidence.CERTAIN, ("driver-not-loaded",)),
        ("driver-not-loaded", Confidence.LIKELY, ()),  # a guess keeps nobody from a torch
        ("shm-small", Confidence.CERTAIN, ()),
    ],
)
def test_what_is_surely_wrong_below_torch_stays_whatever_is_installed(
    identity: str, confidence: Confidence, stays: tuple[str, ...]
) -> None:
    error = Hit(severity=Severity.ERROR, confidence=confidence)
    judge = Judge(HOST, (rule(identity, always(error)),), TEXTS, TABLES)
    assert judge.prove_kept() == Proof(stays=stays)
    assert judge.prove(Change(build_of(HOST, NEW))) == Proof(stays=stays)


def test_a_warning_that_turns_into_an_error_is_left_and_new() -> None:
    def answer(version: str) -> Answer:
        return hit(TorchBuild(), severity=Severity.WARNING if version == OLD else Severity.ERROR)

    judge = Judge(HOST, (rule("some-rule", answer),), RuleTexts(()), TABLES)
    assert judge.prove(Change(build_of(HOST, NEW))) == Proof(left=("some-rule",), new=("some-rule",))
    assert (judge.errors, judge.targeted, judge.wanting) == (frozenset(), frozenset(), frozenset(("some-rule",)))


@pytest.mark.parametrize(
    ("identity", "before", "unsure"),
    [("driver-too-old", None, ("driver-too-old",)), ("driver-too-old", Unknown("x"), ()), ("numpy-abi", None, ())],
)
def test_a_rule_that_decides_on_a_build_becomes_unsure(identity: str, before: Answer, unsure: tuple[str, ...]) -> None:
    judge = Judge(HOST, (rule(identity, lambda version: before if version == OLD else Unknown("x")),), TEXTS, TABLES)
    assert judge.prove(Change(build_of(HOST, NEW))) == Proof(unsure=unsure)
