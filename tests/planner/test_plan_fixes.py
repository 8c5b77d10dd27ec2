"""Intents as fixes: commands for pip, uv and conda, and what has none."""

from __future__ import annotations

import pytest
from packaging.specifiers import SpecifierSet
from plan_hosts import TABLES, TEXTS, checks, machine

from envcheck import planner
from envcheck.engine.intents import Install, Intent, Manual, SetEnv, TorchBuild
from envcheck.facts.record import replace
from envcheck.facts.snapshot import BackendsFacts, Distribution, ExpectationsFacts, PackagesFacts, Snapshot, SymptomsFacts, TextEvidence
from envcheck.planner.fixer import _for_system
from envcheck.planner.proof import Change, Judge
from envcheck.planner.result import Fix

INDEX = "https://download.pytorch.org/whl"
TOO_OLD = {"gpu": "4090", "driver": "535.183.01", "torch": "2.15.0+cu132"}
CU126 = {"gpu": "4090", "driver": "550.90.07", "torch": "2.14.1+cu126"}


def fixes(snapshot: Snapshot, *intents: Intent, tool: str = "auto", index_base: str | None = None) -> tuple[Fix, ...]:
    return planner.fixes(intents, snapshot, TABLES, checks=checks(), texts=TEXTS, tool=tool, index_base=index_base)


def test_a_torch_build_gives_the_build_and_the_driver() -> None:
    build, driver = fixes(machine(TOO_OLD), TorchBuild())
    assert build.proved is True and build.kind == "install" and build.who == "user"
    assert f"torch==2.14.1 --index-url {INDEX}/cu126" in build.commands.pip[-1]
    assert driver.who == "admin" and driver.kind == "manual" and "580.65.06" in driver.title
    assert not driver.commands.pip


def test_a_pinned_torch_build() -> None:
    [first, *_] = fixes(machine(CU126), TorchBuild("==2.9.*"))
    assert "torch==2.9.1" in first.commands.pip[-1]


def test_nothing_to_build_where_torch_fits() -> None:
    assert fixes(machine({**CU126, "works": True}), TorchBuild()) == ()


def test_the_build_that_is_there_is_no_cure_for_what_only_the_driver_lacks() -> None:
    """Nor is it one that may be mended: its import works."""
    newer = {**CU126, "driver": "535.183.01", "torch": "2.8.0+cu128"}
    said = TextEvidence("log", "the provided PTX was compiled with an unsupported toolchain", "driver-too-old", variant="minor")
    snapshot = replace(machine(newer), symptoms=SymptomsFacts((said,)))
    assert "driver-too-old" in Judge(snapshot, checks(), TEXTS, TABLES).targeted
    assert [fix.title for fix in fixes(snapshot, TorchBuild()) if "torch 2.8.0+cu128 again" in fix.title] == []


def test_a_build_of_ones_own_without_gloo_is_replaced_by_the_published_one() -> None:
    """The proof takes the published build's backends, not those of the build that goes."""
    own = replace(machine({**CU126, "works": True}), backends=BackendsFacts(cuda=True, distributed=True, gloo=False, nccl=True))
    snapshot = replace(own, expectations=ExpectationsFacts(backend="gloo"))
    assert Judge(snapshot, checks(), TEXTS, TABLES).targeted == {"backend-unavailable"}
    [first, *_] = fixes(snapshot, TorchBuild())
    assert first.title == "Install torch 2.14.1+cu126 again" and first.proved


def test_no_build_for_a_jetson_says_where_wheels_are() -> None:
    [fix] = fixes(machine({"gpu": "orin", "python": "3.10"}), TorchBuild())
    assert "NVIDIA publishes" in fix.text and fix.kind == "manual"


def test_no_build_at_all_says_why() -> None:
    [fix] = fixes(machine({"gpu": "v100", "driver": "580.95.05", "python": "3.15"}), TorchBuild())
    assert "has no code for" in fix.text and not fix.commands.pip


@pytest.mark.parametrize(
    ("intent", "pip"),
    [
        (Install(("numpy<2",)), "/venv/bin/python -m pip install 'numpy<2'"),
        (Install(("torchvision",)), f"/venv/bin/python -m pip install torchvision==0.29.1 --index-url {INDEX}/cu126"),
        (Install(("torchvision==0.29.1",)), f"/venv/bin/python -m pip install torchvision==0.29.1 --index-url {INDEX}/cu126"),
        (
            Install(("torch==2.14.1+cu126",), reinstall=True),
            f"/venv/bin/python -m pip install --force-reinstall --no-deps torch==2.14.1 --index-url {INDEX}/cu126",
        ),
        (
            Install(("torch==2.13.0", "torchvision==0.28.0")),
            f"/venv/bin/python -m pip install torch==2.13.0 torchvision==0.28.0 --index-url {INDEX}/cu126",
        ),
        (Install(("bitsandbytes>=0.48",)), "/venv/bin/python -m pip install 'bitsandbytes>=0.48'"),
    ],
)
def test_install(intent: Install, pip: str) -> None:
    [fix] = fixes(machine(CU126), intent)
    assert fix.commands.pip == (pip,)
    assert not fix.commands.conda and "conda" in fix.no_command


@pytest.mark.parametrize(
    ("intent", "title"),
    [
        (Install(("numpy<2",)), "Install numpy<2"),
        (Install(("numpy<2",), reinstall=True), "Install numpy<2 again"),
        (Install((), ("torchtext",)), "Uninstall torchtext"),
    ],
)
def test_what_is_done_stands_in_the_title(intent: Install, title: str) -> None:
    [fix] = fixes(machine(CU126), intent)
    assert fix.title == title


def test_install_removes_first() -> None:
    [fix] = fixes(machine(CU126), Install(("nvidia-nccl-cu12==2.27.5",), ("nvidia-nccl-cu13",), True, "they share a file"))
    assert fix.commands.pip == (
        "/venv/bin/python -m pip uninstall -y nvidia-nccl-cu13",
        "/venv/bin/python -m pip install --force-reinstall --no-deps nvidia-nccl-cu12==2.27.5",
    )
    assert fix.commands.uv[0].startswith("uv pip uninstall --python /venv/bin/python")
    assert fix.note == "they share a file"


def test_what_is_installed_in_another_variant_is_labelled() -> None:
    # pip and uv: ==0.29.1 is satisfied by 0.29.1+cpu, whatever the index (PEP 440).
    assert SpecifierSet("==0.29.1").contains("0.29.1+cpu") and not SpecifierSet("==0.29.1+cu126").contains("0.29.1+cpu")
    snapshot = machine({**CU126, "packages": {"torchvision": "0.29.1+cpu"}})
    [fix] = fixes(snapshot, Install(("torchvision",)))
    assert "torchvision==0.29.1+cu126" in fix.commands.pip[0] and "torchvision==0.29.1+cu126" in fix.commands.uv[0]


def test_conda_environment() -> None:
    snapshot = machine({"gpu": "4090", "driver": "580.95.05", "environment": "conda", "torch": "conda:2.13.0+cu130"})
    numpy, nccl = fixes(snapshot, Install(("numpy<2",)), Install(("nvidia-nccl-cu13",)))
    assert numpy.commands.conda == ("conda install -p /venv -c conda-forge 'numpy<2'",)
    assert not nccl.commands.conda and "nvidia-nccl-cu13" in nccl.no_command["conda"]


def test_variables_for_a_shell_and_for_windows() -> None:
    unset, put = fixes(machine(CU126), SetEnv("LD_LIBRARY_PATH", None, "it hides"), SetEnv("NCCL_SOCKET_IFNAME", "eth 0"))
    assert unset.commands.shell == ("unset LD_LIBRARY_PATH",) and unset.note == "it hides" and unset.kind == "env"
    assert put.commands.shell == ("export NCCL_SOCKET_IFNAME='eth 0'",)
    [windows] = fixes(machine({"gpu": "4070", "os": "windows", "driver": "581.57"}), SetEnv("A", "b"))
    assert windows.commands.shell == ("$env:A = 'b'",) and windows.commands.cmd == {"shell": ('set "A=b"',)}


def test_manual_work_keeps_its_words() -> None:
    [fix] = fixes(machine(CU126), Manual("Reboot the machine", "admin", ("sudo reboot",)))
    assert (fix.text, fix.who, fix.commands.shell, fix.proved) == ("Reboot the machine", "admin", ("sudo reboot",), None)


def test_what_is_said_twice_is_said_once() -> None:
    assert len(fixes(machine(TOO_OLD), TorchBuild(), TorchBuild(), Install(("numpy<2",)), Install(("numpy<2",)))) == 3


@pytest.mark.parametrize("tool", ["pip", "uv", "conda"])
def test_one_tool_only(tool: str) -> None:
    [build, *_] = fixes(machine({"gpu": "4090", "driver": "580.95.05", "torch": "2.13.0+cpu"}), TorchBuild(), tool=tool)
    given = {name for name in ("pip", "uv", "conda") if getattr(build.commands, name)}
    assert given == {tool}


def test_a_mirror_is_respected() -> None:
    [build, *_] = fixes(machine(TOO_OLD), TorchBuild(), index_base="https://mirror.example.org/whl/")
    for line in (build.commands.pip[-1], build.commands.uv[-1]):
        assert "--index-url https://mirror.example.org/whl/cu126" in line
        assert "download.pytorch.org" not in line


def test_a_broken_import_of_a_fitting_build_is_installed_again() -> None:
    snapshot = machine({"gpu": "4090", "driver": "580.95.05", "torch": "2.14.1+cu130"})
    broken = replace(snapshot, torch=replace(snapshot.torch, import_status=type(snapshot.torch.import_status)("error")))  # type: ignore[union-attr,type-var]
    [fix, *_] = fixes(broken, TorchBuild())
    assert "--force-reinstall torch==2.14.1" in fix.commands.pip[-1]


def test_files_of_a_way() -> None:
    [way, *_] = planner.search(machine(TOO_OLD), TABLES, checks=checks(), texts=TEXTS).ways
    assert way.files["requirements.txt"] == f"--extra-index-url {INDEX}/cu126\ntorch==2.14.1+cu126\n"
    assert way.files["Dockerfile"] == f"RUN python -m pip install --no-cache-dir torch==2.14.1 --index-url {INDEX}/cu126\n"
    assert f'url = "{INDEX}/cu126"' in way.files["pyproject.toml"] and "explicit = true" in way.files["pyproject.toml"]
    [plain, *_] = planner.search(machine({"gpu": "4090", "driver": "580.95.05"}), TABLES, checks=checks(), texts=TEXTS).ways
    assert plain.files["requirements.txt"] == "torch==2.15.0\n"


def test_the_proof_refuses_what_a_rule_refuses() -> None:
    snapshot = machine({"gpu": "5090", "driver": "580.95.05", "torch": "2.6.0+cu124"})
    judge = Judge(snapshot, checks(), TEXTS, TABLES)
    assert "gpu-too-new-for-torch" in judge.targeted
    from plan_hosts import build_of

    assert judge.prove(Change(build_of(snapshot, "2.14.1+cu130"))).holds
    assert judge.prove(Change(build_of(snapshot, "2.14.1+cu126"))).left == ("gpu-too-new-for-torch",)


def test_a_plan_that_brings_an_error_is_not_proved() -> None:
    snapshot = machine({"gpu": "4090", "driver": "580.95.05", "torch": "2.3.1+cpu"})
    rows = (Distribution("torch", "2.3.1+cpu"), Distribution("torchtext", "0.18.0"))
    report = planner.search(replace(snapshot, packages=PackagesFacts(rows)), TABLES, ["torch==2.15.0"], checks=checks(), texts=TEXTS)
    [way] = report.ways
    assert not way.proved and "torch-companion-mismatch" in way.note
    assert any("torchtext" in change for change in way.changes)


def test_findings_of_a_run_share_their_search() -> None:
    from envcheck.planner.fixer import fixer

    snapshot = machine(TOO_OLD)
    one = fixer(snapshot, TABLES, checks(), TEXTS)
    assert fixer(snapshot, TABLES, checks(), TEXTS) is one
    assert fixer(replace(snapshot), TABLES, checks(), TEXTS) is not one
    assert one.report(None) is one.report(None)


def test_lines_for_another_system_are_left_out() -> None:
    apt, dnf, cmd, any_ = "sudo apt x    # Ubuntu, Debian", "sudo dnf x    # Fedora, RHEL: from there", "x.exe    # Windows", "nvidia-smi"
    assert _for_system((apt, dnf, cmd, any_), "linux") == (apt, dnf, any_)
    assert _for_system((apt, cmd, any_), "windows") == (cmd, any_)
    assert _for_system((apt, dnf, cmd), None) == (apt, dnf, cmd)
    assert _for_system((apt,), "windows") == (apt,)  # better than nothing
    elsewhere = "sudo apt y    # Ubuntu; elsewhere see the guide"
    assert _for_system((elsewhere, any_), "windows") == (elsewhere, any_)
