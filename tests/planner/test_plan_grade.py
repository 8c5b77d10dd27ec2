"""What a plan vouches for: drivers that drive the cards, errors that stay, rows of low confidence; and why there is none."""

from __future__ import annotations

from typing import Any

import pytest
from plan_hosts import RULES, TABLES, TEXTS, checks, machine

from envcheck import planner as plan
from envcheck.engine.rule import Answer, Check, Facts, Hit, Matches, RuleTexts, Severity
from envcheck.facts.record import replace
from envcheck.facts.snapshot import CudaDriverFacts, Distribution, GpusFacts, ImportStatus, PackagesFacts, SystemFacts, TorchFacts
from envcheck.planner.companions import Companions
from envcheck.planner.proof import Change, Judge, apply
from envcheck.planner.result import Grade, PlanReport
from envcheck.planner.ways import planner


def planned(host: dict[str, Any], *wish: str, **options: Any) -> PlanReport:
    return plan.search(machine(host), TABLES, wish, checks=checks(), texts=TEXTS, **options)


def reasons(report: PlanReport) -> str:
    return "\n".join(f"{row.what}: {row.why}" for row in report.excluded)


DROPPED = [
    ("1080ti", "595.58.03", None, "580", "2.14.1+cu126"), ("v100", "640.10", None, "580", "2.14.1+cu126"),
    ("titan xp", "590.48.01", None, "580", "2.14.1+cu126"), ("k80", "535.183.01", None, "470", "2.7.1+cu118"),
    ("k80", "495.29.05", None, "470", "2.7.1+cu118"), ("1080ti", "591.44", "windows", "580", "2.14.1+cu126"),
    ("1080ti", "999.0", "windows", "580", "2.14.1+cu126"), ("1080ti", "596.21", "wsl", "580", "2.14.1+cu126"),
]  # fmt: skip


@pytest.mark.parametrize(("gpu", "driver", "os", "branch", "torch"), DROPPED)
def test_a_card_that_its_driver_dropped_has_no_way_but_an_older_driver(
    gpu: str, driver: str, os: str | None, branch: str, torch: str
) -> None:
    [way] = planned({"gpu": gpu, "driver": driver, "os": os}).ways
    assert way.title == f"Go back to NVIDIA driver branch {branch} and install torch {torch}"
    assert (way.who, way.grade) == ("admin", Grade.CHECKED)
    assert way.changes[0] == f"NVIDIA driver {driver} -> branch {branch}, then a reboot"


@pytest.mark.parametrize(
    ("gpu", "driver", "os"), [("1080ti", "580.95.05", None), ("1080ti", "582.16", "windows"), ("k80", "470.256.02", None)]
)
def test_the_last_branch_still_drives_it(gpu: str, driver: str, os: str | None) -> None:
    way = planned({"gpu": gpu, "driver": driver, "os": os}).ways[0]
    assert (way.who, way.grade) == ("user", Grade.CHECKED)


def test_a_dropped_card_beside_another_is_hidden() -> None:
    hidden, back = planned({"gpu": ("1080ti", "4090"), "driver": "595.58.03"}).ways
    assert "hide the GPUs" in hidden.title and hidden.commands.shell[-1] == "export CUDA_VISIBLE_DEVICES=1"
    assert back.who == "admin" and "branch 580" in back.title


@pytest.mark.parametrize(
    ("gpu", "driver", "first"),
    [("b300", "580.65.06", "580.82.07"), ("b300", "570.124.06", "580.82.07"), ("gb10", "580.65.06", "580.94.13")],
)
def test_a_named_board_needs_the_first_driver_that_lists_it(gpu: str, driver: str, first: str) -> None:
    [way] = planned({"gpu": gpu, "driver": driver}).ways
    assert way.title.startswith(f"Upgrade the NVIDIA driver to {first} or newer") and way.who == "admin"
    assert planned({"gpu": gpu, "driver": first}).ways[0].who == "user"


def test_a_board_that_its_driver_shows_needs_no_list() -> None:
    seen = machine({"gpu": "b300", "driver": "580.65.06"})
    seen = replace(seen, gpus=replace(seen.gpus, source="nvml"))
    assert plan.search(seen, TABLES, (), checks=checks(), texts=TEXTS).ways[0].who == "user"


@pytest.mark.parametrize(("gpu", "driver", "os"), [("a100", "450.51.06", None), ("a100", "451.82", "windows"), ("a100", "450.36.06", None)])
def test_a_driver_below_the_floor_of_its_own_cuda_major(gpu: str, driver: str, os: str | None) -> None:
    way = planned({"gpu": gpu, "driver": driver, "os": os, "python": "3.10"}).ways[0]
    assert way.who == "admin" and way.title.startswith("Upgrade the NVIDIA driver to 580") and way.grade is Grade.CHECKED


def test_a_cuda_compat_library_counts_for_more_than_the_driver() -> None:
    host = machine({"gpu": "h100", "driver": "535.183.01"})
    host = replace(host, cuda_driver=CudaDriverFacts(init_code=0, driver_version="13.0", is_compat=True, device_count=1))
    way = plan.search(host, TABLES, ("torch==2.14.1", "cu130"), checks=checks(), texts=TEXTS).ways[0]
    assert way.who == "user" and way.title == "Install torch 2.14.1+cu130"


@pytest.mark.parametrize("driver", ["527.41", "528.02"])
def test_a_driver_between_two_numbers_of_nvidia_is_not_vouched_for(driver: str) -> None:
    report = planned({"gpu": "4090", "driver": driver, "os": "windows"})
    assert report.ways[0].title == "Install torch 2.7.1+cu118" and f"disagree whether driver {driver}" in reasons(report)


def test_the_cuda_compat_way_is_vouched_for() -> None:
    ways = planned({"gpu": "h100", "driver": "535.183.01", "torch": "2.13.0+cu130"}).ways
    [compat] = [way for way in ways if "compatibility libraries" in way.title]
    assert compat.grade is Grade.CHECKED


def _broken(_facts: Facts, _lines: Matches) -> Answer:
    return Hit({})


driver_broken = Check("driver-broken", _broken, (), ())


class Said(RuleTexts):
    """Texts in which every rule is an error of one layer."""

    layer: str | None = "driver"

    def read(self, rule_id: str) -> Any:
        return replace(TEXTS.read("driver-missing"), id=rule_id, layer=type(self).layer, decides=())


class Elsewhere(Said):
    layer = None


@pytest.mark.parametrize(("texts", "stays"), [(Said((RULES,)), ("driver-broken",)), (Elsewhere((RULES,)), ())])
def test_an_error_of_the_driver_that_was_there_before_is_not_ignored(texts: RuleTexts, stays: tuple[str, ...]) -> None:
    host = machine({"gpu": "h100", "driver": "580.95.05"})
    proof = Judge(host, (driver_broken,), texts, TABLES).prove(Change())
    assert proof.stays == stays and proof.holds is (not stays)
    way = planner(host, TABLES, (driver_broken,), texts).plan().ways[0]
    assert way.grade is (Grade.UNCHECKED if stays else Grade.CHECKED)
    assert ("does not mend driver-broken" in way.note) is bool(stays)


def test_a_severity_that_a_site_set_counts_in_the_proof() -> None:
    host = machine({"gpu": "h100", "driver": "580.95.05"})
    texts = Said((RULES,), (("driver-broken", Severity.INFO),))
    assert Judge(host, (driver_broken,), texts, TABLES).prove(Change()).holds


def test_a_pin_with_two_ends_is_no_version() -> None:
    host = machine({"gpu": "h100", "driver": "580.95.05", "torch": "2.14.1+cu130"})
    host = replace(host, packages=PackagesFacts((Distribution("torch", "1"),)))
    found = apply(host, Change(next(one for one in _builds() if one.full == "2.14.1+cu130"), Companions()), TABLES).packages
    assert isinstance(found, PackagesFacts)
    landed = {row.name: row.version for row in found.distributions}
    assert (landed["nvidia-nvjitlink"], landed["cuda-bindings"], landed["nvidia-nccl-cu13"]) == ("13.0.88", "13.0.3", "2.30.7")


def _builds() -> Any:
    from envcheck.planner.candidate import catalogue

    return catalogue(TABLES, "linux-x86_64")


@pytest.mark.parametrize(("gpu", "said"), [("gb10", "compute capability 12.1"), ("h100", None)])
def test_a_row_of_low_confidence_is_said_aloud(gpu: str, said: str | None) -> None:
    way = planned({"gpu": gpu, "driver": "595.58.03"}).ways[0]
    assert ("row of low confidence" in way.note) is bool(said) and (said or "") in way.note and way.grade is Grade.CHECKED


@pytest.mark.parametrize(("capability", "grade"), [("10.7", Grade.UNCHECKED), ("10.3", Grade.CHECKED)])
def test_a_gpu_newer_than_the_cuda_of_every_build_is_not_vouched_for_on_a_low_row(capability: str, grade: Grade) -> None:
    host = machine({"gpu": "b300", "driver": "615.36.06"})
    assert isinstance(host.gpus, GpusFacts)
    newer = replace(host, gpus=GpusFacts((replace(host.gpus.devices[0], name="NVIDIA R100", compute_capability=capability),), "nvml"))
    way = plan.search(newer, TABLES, (), checks=checks(), texts=TEXTS).ways[0]
    assert way.grade is grade and ("compute capability 10.7" in way.note) is (capability == "10.7")


def test_a_low_branch_of_the_driver_is_said_too() -> None:
    assert "driver branch 620" in planned({"gpu": "h100", "driver": "620.10"}).ways[0].note


# ---------------------------------------------------------------- what is installed


def unseen(host: dict[str, Any], status: ImportStatus | None) -> PlanReport:
    """The plan of a machine whose torch nobody imported."""
    given = machine(host)
    assert isinstance(given.torch, TorchFacts)
    given = replace(given, torch=replace(given.torch, import_status=status))
    return plan.search(given, TABLES, (), checks=checks(), texts=TEXTS)


@pytest.mark.parametrize("torch", ["2.15.0+cu132", "2.9.1+cu128", "2.6.0+cu124"])
@pytest.mark.parametrize("status", [None, ImportStatus.SKIPPED])
def test_a_torch_whose_import_nobody_tried_is_kept(torch: str, status: ImportStatus | None) -> None:
    way = unseen({"gpu": "4090", "driver": "580.95.05", "torch": torch}, status).ways[0]
    assert way.title == f"Keep torch {torch}: it fits this host" and not way.commands.pip


def test_a_torch_that_does_not_import_is_installed_again() -> None:
    way = unseen({"gpu": "4090", "driver": "580.95.05", "torch": "2.15.0+cu132"}, ImportStatus.CRASHED).ways[0]
    assert way.title == "Install torch 2.15.0+cu132 again"


@pytest.mark.parametrize(
    ("torch", "beside", "line"),
    [
        ("2.9.1+cu128", {"torchvision": "0.20.1"}, "torchvision==0.24.1"),
        ("2.9.1+cu128", {"torchaudio": "2.5.1", "torchvision": "0.24.1"}, "torchaudio==2.9.1"),
        ("2.2.2+cu121", {"numpy": "2.1.0"}, "'numpy<2'"),
    ],
)
@pytest.mark.parametrize("status", [None, ImportStatus.OK])
def test_what_does_not_go_with_the_torch_that_stays_moves(
    torch: str, beside: dict[str, str], line: str, status: ImportStatus | None
) -> None:
    way = unseen({"gpu": "4090", "driver": "580.95.05", "torch": torch, "packages": beside}, status).ways[0]
    assert way.title == f"Keep torch {torch} and add the packages"
    assert any(line in text for text in way.commands.pip) and not any(" torch==" in text for text in way.commands.pip)


# ---------------------------------------------------------------- no plan, and why


@pytest.mark.parametrize(
    ("host", "wish", "why"),
    [
        ({"os": "windows", "machine": "arm64"}, (), "Windows on Arm"),
        ({"machine": "riscv64"}, (), "no torch for linux-riscv64"),
        ({"machine": "ppc64le"}, ("torch==2.9.1",), "no torch for linux-ppc64le"),
        ({"gpu": "mi300x", "os": "windows"}, (), "no ROCm build of torch for windows-x86_64"),
        ({"gpu": "4090", "driver": "580.95.05", "python": "3.5"}, (), "not built for Python 3.5"),
        ({"gpu": "4090", "driver": "580.95.05"}, ("torch==2.16.*",), "newer than envcheck's tables, whose newest torch is 2.15.0"),
        ({"gpu": "4090", "driver": "580.95.05"}, ("torch>2.15.0",), "newer than envcheck's tables, whose newest torch is 2.15.0"),
        ({"gpu": "4090", "driver": "580.95.05"}, ("cu134",), "newer than envcheck's tables, whose newest CUDA build is cu132"),
        ({"gpu": "mi300x"}, ("rocm9.1",), "newer than envcheck's tables, whose newest ROCm build is rocm7.14"),
        ({"gpu": "4090", "driver": "580.95.05"}, ("cu127",), "no torch release or build matches cu127"),
    ],
)
def test_no_plan_has_a_reason(host: dict[str, Any], wish: tuple[str, ...], why: str) -> None:
    report = planned(host, *wish)
    assert not report.ways and why in reasons(report)


def test_a_mac_too_old_for_metal_trains_on_its_cpu() -> None:
    old = {"gpu": "m1", "macos": "13.5", "python": "3.14"}
    way = planned(old).ways[0]
    assert way.grade is Grade.CHECKED and "too old for the MPS backend" in way.note and "trains on the CPU alone" in way.note
    cpu = planned({"gpu": "cpu", "os": "macos", "machine": "arm64", "macos": "13.5", "python": "3.14"}).ways[0]
    assert cpu.title == way.title and "MPS" not in cpu.note
    assert "MPS" not in planned({**old, "python": "3.12"}).ways[0].note  # an older torch there has Metal


def test_alpine_by_its_name_takes_no_wheel() -> None:
    host = machine({})
    assert isinstance(host.system, SystemFacts)
    alpine = replace(host, system=replace(host.system, libc=None, glibc=None, distribution="Alpine Linux v3.22"))
    report = plan.search(alpine, TABLES, (), checks=checks(), texts=TEXTS)
    assert not report.ways and "no wheel for musl" in reasons(report)


def test_a_newer_release_that_is_not_certain_is_named_beside_the_certain_one() -> None:
    report = planned({"gpu": "mi300x"})
    assert report.ways[0].title == "Install torch 2.13.0+rocm7.2" and "2.14.1 rocm7.2: it may fit" in reasons(report)
