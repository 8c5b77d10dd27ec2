"""Environments that are broken for real: a torch that was installed, and then lost files, packages or its place on sys.path."""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from environments import Environment, borrowed
from patients import distribution, examine, fake_torch, needs_torch

from envcheck.commands.bases import base
from envcheck.engine.intents import Install, Manual, TorchBuild
from envcheck.engine.rule import Severity
from envcheck.facts.record import replace
from envcheck.facts.snapshot import Distribution, ImportStatus, Missing, PackagesFacts, TorchFacts, Unmet
from envcheck.report.report import Report
from envcheck.report.session import report_on, rule_session
from envcheck.tables.folders import rules_folder

real = [needs_torch, pytest.mark.torch, pytest.mark.skipif(sys.platform != "linux", reason="symbolic links and ELF")]


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return borrowed(tmp_path / "env")


def loud(report: Report) -> list[tuple[str, str]]:
    """(severity, rule) of what is more than a note. The host is not examined, so only the target speaks."""
    return [(one.finding.severity.value, one.finding.rule) for one in report.findings if one.finding.severity is not Severity.INFO]


def first(report: Report) -> Any:
    return report.findings[0].finding


def installs(finding: Any) -> tuple[str, ...]:
    return tuple(one for fix in finding.fixes if isinstance(fix, Install) for one in fix.requirements)


# ---------------------------------------------------------------- files of torch, on the test interpreter's own build


class TestDamage:
    pytestmark = real

    def test_the_borrowed_environment_is_healthy(self, environment: Environment) -> None:
        report = environment.report(live="quick")
        assert not report.findings and report.exit_code == 0

    @pytest.mark.parametrize(
        ("file", "package", "explained"),
        [
            ("torch/functional.py", "torch", ("torch-import-broken",)),
            ("torch/_C.*.so", "torch", ("torch-import-broken",)),
            ("torch/__init__.py", "torch", ()),
            ("torch/lib/libshm.so", "torch", ("torch-import-broken",)),
            ("torch/lib/libc10.so", "torch", ("torch-import-broken",)),
            ("typing_extensions.py", "typing-extensions", ("torch-import-broken",)),
            ("numpy/_core/_multiarray_umath.*.so", "numpy", ("torch-import-broken",)),
        ],
    )
    def test_a_file_is_gone(self, environment: Environment, file: str, package: str, explained: tuple[str, ...]) -> None:
        gone = environment.remove(file)
        report = environment.report()
        assert loud(report) == [("error", "torch-files-damaged")] and report.exit_code == 1
        finding = first(report)
        assert gone.removesuffix(".py") in finding.message and finding.consequences == explained
        [requirement] = installs(finding)
        assert requirement.startswith(f"{package}==") and finding.fixes[0].reinstall

    @pytest.mark.parametrize(
        ("file", "size"),
        [
            ("torch/lib/libtorch_python.so", 0),
            ("torch/lib/libtorch_cpu.so", 40 << 20),
            ("torch/functional.py", 0),
            ("torch/__init__.py", 0),
        ],
    )
    def test_a_file_is_cut(self, environment: Environment, file: str, size: int) -> None:
        with open(environment.site / file, "rb") as whole:
            environment.write(file, whole.read(size))
        report = environment.report()
        assert loud(report) == [("error", "torch-files-damaged")]
        assert f"{file} of torch" in first(report).message and f"cut short: {size} of " in first(report).message

    def test_a_library_without_its_symbols_is_whole(self, environment: Environment) -> None:
        """What strip takes away lies at the end, behind all that is loaded."""
        file = "torch/lib/libtorch_python.so"
        content = (environment.site / file).read_bytes()
        sections = struct.unpack_from("<Q", content, 40)[0]
        environment.write(file, content[:sections])
        report = environment.report()
        assert not report.findings and report.exit_code == 0

    def test_a_library_that_something_else_provides(self, environment: Environment) -> None:
        environment.remove("torch/lib/libgomp*")
        report = environment.report()
        if isinstance(report.snapshot.torch, TorchFacts) and report.snapshot.torch.import_status is not ImportStatus.OK:
            pytest.skip("this system has no OpenMP runtime of its own")
        assert not loud(report) and first(report).rule == "torch-files-damaged" and not installs(first(report))

    def test_an_edited_module_is_no_damage(self, environment: Environment) -> None:
        content = (environment.site / "torch/functional.py").read_bytes()
        environment.write("torch/functional.py", content.replace(b'    r"""', b'    """', 1))
        report = environment.report()
        assert not report.findings and report.exit_code == 0

    def test_a_module_deeper_down(self, environment: Environment) -> None:
        environment.remove("torch/nn/functional.py")
        report = environment.report()
        assert loud(report) == [("error", "torch-files-damaged")] and installs(first(report))[0].startswith("torch==")

    def test_a_module_deeper_down_holds_nothing(self, environment: Environment) -> None:
        """Of these the sizes are not read; torch's own words tell the rest."""
        environment.write("torch/nn/functional.py", b"")
        report = environment.report()
        assert loud(report) == [("error", "torch-import-broken")] and installs(first(report))[0].startswith("torch==")

    def test_what_only_torchrun_imports(self, environment: Environment) -> None:
        environment.remove("torch/distributed/run.py")
        report = environment.report(live="quick")
        assert loud(report) == [("warning", "torch-files-damaged")] and report.exit_code == 0
        assert "torch/distributed/run.py" in first(report).message and installs(first(report))[0].startswith("torch==")

    @pytest.mark.parametrize("version", [True, False])
    def test_an_installation_that_was_stopped(self, environment: Environment, version: bool) -> None:
        """Metadata is written last. What torch requires may be missing as well, and without version.py nobody knows which one it was."""
        for gone in ("torch-*.dist-info", "torch/torch_version.py", *(() if version else ("torch/version.py",))):
            environment.remove(gone)
        report = environment.report()
        assert loud(report) == [("error", "torch-import-broken")]
        [intent] = [one for one in first(report).fixes if not isinstance(one, Manual)]
        assert (isinstance(intent, Install) and not intent.reinstall) if version else isinstance(intent, TorchBuild)

    def test_a_library_for_another_machine(self, environment: Environment) -> None:
        file = "torch/lib/libtorch_python.so"
        content = bytearray((environment.site / file).read_bytes())
        struct.pack_into("<H", content, 18, 183)  # e_machine: aarch64
        environment.write(file, bytes(content))
        report = environment.report()
        assert loud(report) == [("error", "torch-import-broken")] and installs(first(report))[0].startswith("torch==")

    @pytest.mark.parametrize("static", [True, False])
    @pytest.mark.parametrize("metadata", [True, False])
    def test_what_an_uninstallation_left(self, environment: Environment, static: bool, metadata: bool) -> None:
        environment.remove("torch/__init__.py")
        [info] = environment.site.glob("torch-*.dist-info")
        environment.remove(f"{info.name}/RECORD")
        if not metadata:
            shutil.rmtree(info)
        report = environment.report(static=static)
        assert loud(report) == [("error", "torch-missing")] and report.exit_code == 1
        assert str(environment.site / "torch") in first(report).message


@pytest.mark.environments
class TestRequirementsAlways:
    """Among the longer ones, which every run of CI asks as well."""

    pytestmark = real

    def test_typing_extensions(self, environment: Environment) -> None:
        for name in ("typing-extensions", "jinja2"):
            environment.uninstall(name)
        report = environment.report()
        assert loud(report) == [("error", "torch-requirement-missing")] and first(report).consequences == ("torch-import-broken",)
        assert [one.partition(">")[0] for one in installs(first(report))] == ["typing-extensions", "jinja2"]

    def test_sympy_where_ranks_run(self, environment: Environment) -> None:
        environment.uninstall("sympy")
        report = environment.report(live="quick")
        assert loud(report) == [("error", "torch-requirement-missing")] and first(report).consequences == (
            "live-failed",
            "torch-dynamo-broken",
        )
        assert installs(first(report))[0].startswith("sympy")

    def test_what_only_torch_compile_needs(self, environment: Environment) -> None:
        environment.uninstall("networkx")
        assert loud(environment.report()) == [("warning", "torch-requirement-missing")]

    def test_what_nothing_needs_that_people_use(self, environment: Environment) -> None:
        """torch requires no NumPy at all, and three packages that training and torch.compile do without."""
        for name in ("jinja2", "fsspec", "markupsafe", "numpy"):
            environment.uninstall(name)
        report = environment.report(live="quick")
        assert not loud(report) and report.exit_code == 0
        assert {one.finding.rule for one in report.findings} == {"torch-requirement-missing", "numpy-abi"}

    def test_numpy_whose_folder_is_gone(self, environment: Environment) -> None:
        (environment.site / "numpy").unlink()
        report = environment.report()
        assert loud(report) == [("warning", "numpy-abi")] and "the package is not" in first(report).message
        assert [one.finding.rule for one in report.findings] == ["numpy-abi"]


class TestSomethingInTheWay:
    pytestmark = real

    def test_a_file_of_pythonpath(self, environment: Environment, tmp_path: Path) -> None:
        (tmp_path / "lib").mkdir()
        (tmp_path / "lib" / "typing_extensions.py").write_text("")
        report = environment.report(env={"PYTHONPATH": str(tmp_path / "lib")})
        assert loud(report) == [("error", "torch-shadowed")]
        assert str(tmp_path / "lib" / "typing_extensions.py") in first(report).message and not installs(first(report))

    def test_a_sitecustomize_that_raises(self, environment: Environment, tmp_path: Path) -> None:
        (tmp_path / "hooks").mkdir()
        (tmp_path / "hooks" / "sitecustomize.py").write_text(
            "import builtins\nwas = builtins.__import__\n"
            "def hook(name, *rest, **more):\n    if name == 'torch._C': raise KeyError('mine')\n    return was(name, *rest, **more)\n"
            "builtins.__import__ = hook\n"
        )
        report = environment.report(env={"PYTHONPATH": str(tmp_path / "hooks")})
        assert loud(report) == [("error", "torch-import-broken")]
        assert str(tmp_path / "hooks" / "sitecustomize.py") in first(report).message and not installs(first(report))

    def test_an_interpreter_without_site_packages(self, environment: Environment, tmp_path: Path) -> None:
        wrapper = tmp_path / "python"
        wrapper.write_text(f'#!/bin/sh\nexec "{environment.python}" -S "$@"\n')
        wrapper.chmod(0o755)
        report = environment.report(python=str(wrapper))
        assert loud(report) == [("error", "torch-missing")] and "-S" in first(report).message
        assert not any(isinstance(one, Install) for one in first(report).fixes) and len(first(report).fixes) == 1

    def test_an_environment_whose_python_was_exchanged(self, environment: Environment) -> None:
        other = environment.site.parents[1] / "python3.99"
        environment.site.parent.rename(other)
        environment.site.mkdir(parents=True)
        report = environment.report()
        assert loud(report) == [("error", "torch-missing")] and str(other / "site-packages") in first(report).message

    @pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
    def test_an_old_libstdcxx(self, environment: Environment, tmp_path: Path) -> None:
        folder = tmp_path / "old"
        folder.mkdir()
        (folder / "old.c").write_text("int old_cxx(void) { return 1; }\n")
        (folder / "old.map").write_text("GLIBCXX_3.4 { global: old_cxx; };\n")
        library = folder / "libstdc++.so.6"
        options = ["-shared", "-fPIC", f"-Wl,-soname,{library.name}", f"-Wl,--version-script={folder}/old.map"]
        subprocess.run(["gcc", *options, "-o", str(library), str(folder / "old.c")], check=True, timeout=60)
        report = environment.report(env={"LD_LIBRARY_PATH": str(folder)})
        assert loud(report) == [("error", "library-path-shadows")] and str(library) in first(report).message
        assert [(fix.name, fix.value) for fix in first(report).fixes] == [("LD_LIBRARY_PATH", None)]


# ---------------------------------------------------------------- metadata, on made-up distributions


def packages_of(site: Path) -> PackagesFacts:
    packages = examine(path=site, static=True).facts["packages"]
    assert isinstance(packages, PackagesFacts)
    return packages


def companion(site: Path, name: str, version: str, stated: str) -> None:
    distribution(site, name, version)
    (site / name).mkdir()
    (site / name / "version.py").write_text(f"__version__ = '{stated}'\ngit_version = 'a'\nfrom {name}.extension import x\n")


def test_the_build_of_a_companion_is_read_from_its_version_file(tmp_path: Path) -> None:
    companion(tmp_path, "torchvision", "0.28.0", "0.28.0+cu130")
    companion(tmp_path, "torchaudio", "2.11.0", "2.9.0+cu128")  # of another version: left over
    companion(tmp_path, "torchtext", "0.18.0", "0.18.0+cpu")  # there is no other build of it
    distribution(tmp_path, "xformers", "0.0.35")
    (tmp_path / "xformers").mkdir()
    (tmp_path / "xformers" / "cpp_lib.json").write_text('{"version": {"cuda": 1208, "torch": "2.10.0+cu128"}, "env": {}}')
    packages = packages_of(tmp_path)
    found = {row.name: row for row in packages.distributions if row.location == str(tmp_path)}
    assert {name: row.version for name, row in found.items()} == {
        "torchvision": "0.28.0+cu130", "torchaudio": "2.11.0", "torchtext": "0.18.0", "xformers": "0.0.35",
    }  # fmt: skip
    assert found["xformers"].built_for == "2.10.0+cu128"


@pytest.mark.parametrize("text", ["", "[]", '{"version": 1}', '{"version": {"torch": 2}}', "\0"])
def test_an_xformers_that_does_not_say_it(tmp_path: Path, text: str) -> None:
    distribution(tmp_path, "xformers", "0.0.35")
    (tmp_path / "xformers").mkdir()
    (tmp_path / "xformers" / "cpp_lib.json").write_text(text)
    assert next(row for row in packages_of(tmp_path).distributions if row.name == "xformers").built_for is None


HERE = f"cp{sys.version_info[0]}{sys.version_info[1]}"


@pytest.mark.parametrize(
    ("tags", "foreign"),
    [
        ((f"{HERE}-{HERE}-manylinux_2_28_x86_64.manylinux2014_x86_64", f"{HERE}-{HERE}-manylinux_2_28_aarch64"), False),
        (("py3-none-any",), False),
        (("py2-none-any", "py3-none-any"), False),
        (("cp38-abi3-manylinux2014_x86_64", "cp38-abi3-manylinux2014_aarch64"), False),
        ((f"{HERE}-{HERE}t-any",), False),  # free threads are another matter
        (("cp39-cp39-any",), True),
        (("cp399-abi3-any",), True),
        (("py3-none-manylinux_2_28_s390x",), True),
        (("py3-none-win_amd64", "py3-none-macosx_11_0_arm64"), True),
        (("py3-none-a_system_of_tomorrow",), False),
        (("nonsense",), False),
        ((), False),
    ],
)
@pytest.mark.skipif(sys.platform != "linux", reason="tags for Linux")
def test_a_wheel_for_another_python_or_machine(tmp_path: Path, tags: tuple[str, ...], foreign: bool) -> None:
    distribution(tmp_path, "numpy", "2.5.5")
    [info] = tmp_path.glob("numpy-*.dist-info")
    (info / "WHEEL").write_text("".join(f"Tag: {tag}\n" for tag in tags))
    row = next(row for row in packages_of(tmp_path).distributions if row.name == "numpy" and row.location == str(tmp_path))
    assert row.foreign_tag == (tags[0] if foreign else None)


def test_pins_behind_an_extra(tmp_path: Path) -> None:
    toolkit = (
        "nvidia-cublas==13.4.1.3.*; (sys_platform == 'linux' or sys_platform == 'win32') and extra == 'cublas'",
        "nvidia-nvjitlink<14,>=13.2.86; extra == 'cufft'",
        "nvidia-npp==13.1.0.59.*; extra == 'npp'",
        "nvidia-cufft==12.2.0.57.*; extra == 'cufft'",
    )
    fake_torch(tmp_path, "", version=None)
    distribution(tmp_path, "torch", "2.15.0", requires=("cuda-toolkit[cublas,cufft]==13.2.2", 'optree>=0.13; extra == "optree"'))
    distribution(tmp_path, "cuda-toolkit", "13.2.2", requires=toolkit)
    distribution(tmp_path, "nvidia-cublas", "13.0.0.19")
    distribution(tmp_path, "nvidia-nvjitlink", "13.5.37")
    unmet = packages_of(tmp_path).unmet
    assert Unmet("cuda-toolkit", "nvidia-cublas==13.4.1.3.*", "13.0.0.19") in unmet
    assert Unmet("cuda-toolkit", "nvidia-cufft==12.2.0.57.*") in unmet
    assert len([row for row in unmet if row.distribution == "cuda-toolkit"]) == 2, "npp was not asked for, nvjitlink fits"


def test_a_requirement_is_absent_only_without_metadata_and_module(tmp_path: Path) -> None:
    python = tmp_path / "bare-python"
    site = tmp_path / "site"
    program = f"import sys; sys.path.append({str(site)!r}); sys.argv = sys.argv[1:]"
    program += "; import runpy; runpy.run_path(sys.argv[0], run_name='__main__')"
    python.write_text(f'#!/bin/sh\nshift 2\nexec "{sys.executable}" -I -S -c "{program}" "$@"\n')
    python.chmod(0o755)
    fake_torch(site, "", version=None)
    requires = ("filelock", "networkx>=2.5", "jinja2", "fsspec; python_version < '3'", "nvidia-nccl-cu12==2.27.5")
    distribution(site, "torch", "2.9.1", requires=requires)
    distribution(site, "networkx", "3.4")  # metadata alone
    (site / "networkx").mkdir()
    (site / "networkx" / "__init__.py").write_text("__version__ = '3.4'")
    (site / "jinja2").mkdir()  # a module alone: another installer's
    (site / "jinja2" / "__init__.py").touch()
    packages = examine(executable=str(python), static=True).facts["packages"]
    assert {row.requirement for row in packages.unmet} == {"filelock", "nvidia-nccl-cu12==2.27.5"}
    assert not packages.damaged


@pytest.mark.parametrize("installer", ["conda", None])
def test_the_list_of_files_counts_only_for_pip_and_its_kin(tmp_path: Path, installer: str | None) -> None:
    distribution(tmp_path, "numpy", "2.4.6", files=("numpy/_core/_multiarray_umath.so",), make=False)
    assert packages_of(tmp_path).damaged == ("numpy/_core/_multiarray_umath.so (numpy)",)
    mark = tmp_path / "numpy-2.4.6.dist-info" / "INSTALLER"
    mark.write_text(installer) if installer else mark.unlink()
    assert not packages_of(tmp_path).damaged


def test_two_versions_over_each_other_are_not_damage(tmp_path: Path) -> None:
    distribution(tmp_path, "numpy", "2.4.6", files=("numpy/_core/new.so",))
    distribution(tmp_path, "numpy", "1.26.4", files=("numpy/core/old.so",), make=False)
    packages = packages_of(tmp_path)
    assert not packages.damaged and "numpy" in packages.duplicates


def test_an_editable_torch_lists_no_files(tmp_path: Path) -> None:
    fake_torch(tmp_path, "", version=None)
    distribution(tmp_path, "torch", "2.16.0a0+git1", files=("__editable___torch_finder.py", "../../../bin/torchrun"), make=False)
    assert not packages_of(tmp_path).damaged


def test_an_editable_sympy_has_its_module_elsewhere(tmp_path: Path) -> None:
    distribution(tmp_path, "sympy", "1.15.dev0")
    assert packages_of(tmp_path).damaged == ("sympy (sympy)",)
    (tmp_path / "sympy-1.15.dev0.dist-info" / "direct_url.json").write_text('{"url": "file:///src/sympy", "dir_info": {"editable": true}}')
    assert not packages_of(tmp_path).damaged


def elf(loaded: int, size: int) -> bytes:
    """A header with one PT_LOAD segment of `loaded` bytes, in a file of `size` bytes."""
    header = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, size, 0, 64, 56, 1, 64, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, loaded, loaded, 4096)
    return (header + segment).ljust(size, b"\0")[:size]


@pytest.mark.skipif(sys.platform != "linux", reason="ELF")
@pytest.mark.parametrize(
    ("content", "cut"),
    [
        pytest.param(elf(4000, 5000), False, id="whole"),
        pytest.param(elf(4000, 4000), False, id="stripped"),
        pytest.param(elf(4000, 3999), True, id="one byte short"),
        pytest.param(elf(4000, 100), True, id="no table of segments"),
        pytest.param(b"", True, id="empty"),
        pytest.param(b"version https://git-lfs.github.com/spec/v1", True, id="a pointer"),
    ],
)
def test_which_libraries_end_early(tmp_path: Path, content: bytes, cut: bool) -> None:
    distribution(tmp_path, "numpy", "2.4.6", files=("numpy/x.so",))
    (tmp_path / "numpy/x.so").write_bytes(content)
    (tmp_path / "numpy-2.4.6.dist-info" / "RECORD").write_text("numpy/x.so,sha256=abc,6000\n")
    expected = (f"numpy/x.so (numpy): {len(content)} of 6000 bytes",) if cut else ()
    assert packages_of(tmp_path).damaged == expected


# ---------------------------------------------------------------- what the fixes become


def test_a_companion_for_another_build_is_asked_for_by_its_label() -> None:
    """`torchvision==0.28.0` is what pip would call satisfied."""
    machine = base(Path(rules_folder()), "cpu")
    assert isinstance(machine.torch, TorchFacts)
    torch = replace(machine.torch, version="2.13.0+cpu")
    rows = (Distribution("torch", "2.13.0+cpu", "/venv"), Distribution("torchvision", "0.28.0+cu130", "/venv"))
    report = report_on(replace(machine, torch=torch, packages=PackagesFacts(rows)), rule_session())
    [shown] = [one for one in report.findings if one.finding.rule == "torch-companion-mismatch"]
    assert "torchvision==0.28.0+cpu" in shown.fixes[0].commands.pip[-1]


# ---------------------------------------------------------------- builds for CUDA, which cost gigabytes


@pytest.fixture(scope="module")
def cuda(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """torch 2.9.1 from the registry with its companions and NVIDIA's packages."""
    made = Environment(tmp_path_factory.mktemp("cuda") / "env")
    subprocess.run([sys.executable, "-m", "venv", str(made.root)], check=True, timeout=120)
    wanted = ["torch==2.9.1", "torchvision==0.24.1", "numpy"]
    if uv := shutil.which("uv"):  # it links what its cache holds
        done = subprocess.run([uv, "pip", "install", "--python", made.python, *wanted], capture_output=True, text=True, timeout=1200)
    else:
        done = pip(made, "install", *wanted)
    if done.returncode:
        pytest.skip(f"torch 2.9.1 cannot be installed: {done.stderr[-300:]}")
    return made


def pip(environment: Environment, *words: str) -> subprocess.CompletedProcess[str]:
    command = [environment.python, "-m", "pip", "--no-cache-dir", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)


def run_fix(report: Report) -> None:
    """The first command that is printed for pip, as it is printed."""
    [*_, command] = report.findings[0].fixes[0].commands.pip
    subprocess.run(["sh", "-c", command], check=True, timeout=1200, capture_output=True)


@pytest.mark.slow
@pytest.mark.network
class TestBuildForCuda:
    def test_it_is_healthy(self, cuda: Environment) -> None:
        assert not loud(cuda.report())

    @pytest.mark.parametrize(
        "pinned", ["nvidia-nvjitlink-cu12==12.1.105", "nvidia-cuda-runtime-cu12==12.1.105", "nvidia-nccl-cu12==2.21.5"]
    )
    def test_a_pin_that_another_package_moved(self, cuda: Environment, pinned: str) -> None:
        assert not pip(cuda, "install", "--no-deps", pinned).returncode
        report = cuda.report()
        assert loud(report)[0] == ("error", "torch-pin-unmet") and len(loud(report)) == 1
        assert pinned.replace("==", " ") in first(report).message
        run_fix(report)
        assert not loud(cuda.report())

    def test_a_newer_library_is_a_warning(self, cuda: Environment) -> None:
        assert not pip(cuda, "install", "--no-deps", "nvidia-nccl-cu12==2.28.9").returncode
        report = cuda.report()
        assert loud(report) == [("warning", "torch-pin-unmet")]
        run_fix(report)
        assert not loud(cuda.report())

    def test_several_libraries_are_not_there(self, cuda: Environment) -> None:
        assert not pip(cuda, "uninstall", "-y", "nvidia-cudnn-cu12", "nvidia-nccl-cu12", "nvidia-cufft-cu12").returncode
        report = cuda.report()
        assert loud(report) == [("error", "torch-requirement-missing")]
        run_fix(report)
        assert not loud(cuda.report())

    def test_a_library_of_another_package_is_cut(self, cuda: Environment) -> None:
        file = cuda.site / "nvidia/cublas/lib/libcublasLt.so.12"
        with open(file, "rb") as whole:
            beginning = whole.read(30 << 20)
        file.unlink()  # it may be a link into an installer's cache
        file.write_bytes(beginning)
        report = cuda.report()
        assert loud(report) == [("error", "torch-files-damaged")]
        assert installs(first(report))[0].startswith("nvidia-cublas-cu12==")
        run_fix(report)
        assert not loud(cuda.report())

    def test_companions_of_another_cuda(self, cuda: Environment) -> None:
        assert not pip(cuda, "install", "--no-deps", "torchtext==0.18.0", "xformers==0.0.33.post2").returncode
        assert loud(cuda.report()) == [("error", "torch-companion-mismatch")], "torchtext is past; this xformers is for torch 2.9.1"
        assert subprocess.run([cuda.python, "-c", "import torchtext"], capture_output=True, timeout=120, check=False).returncode
        assert not pip(cuda, "uninstall", "-y", "torchtext", "xformers").returncode


@pytest.mark.slow
@pytest.mark.network
@needs_torch
@pytest.mark.torch
@pytest.mark.parametrize(("package", "module"), [("torchvision==0.28.0", "torchvision"), ("torchaudio==2.11.0", "torchaudio")])
def test_a_companion_for_cuda_under_a_torch_for_the_cpu(environment: Environment, package: str, module: str) -> None:
    torch = environment.report(static=True).snapshot.torch
    if isinstance(torch, Missing) or torch.version != "2.13.0+cpu":
        pytest.skip("the test interpreter has another torch")
    target = [sys.executable, "-m", "pip", "install", "--no-deps", "--target", str(environment.site), package, "pillow"]
    if subprocess.run(target, capture_output=True, timeout=600, check=False).returncode:
        pytest.skip("the package registry does not answer")
    assert subprocess.run([environment.python, "-c", f"import {module}"], capture_output=True, timeout=120, check=False).returncode
    report = environment.report()
    assert loud(report) == [("error", "torch-companion-mismatch")] and "is built for CUDA 13.0" in first(report).message
