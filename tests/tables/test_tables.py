"""The compatibility tables: format, agreement with each other, and values checked by hand."""

from __future__ import annotations

import datetime
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from table_checks import contradictions, problems

from envcheck.tables.compat import PLATFORMS, Tables, platform_of, runs_on
from envcheck.tables.file import read_table, table_names
from envcheck.tables.folders import rules_folder

FOLDER = Path(rules_folder("compat"))
NAMES = table_names((FOLDER,))
EXPECTED = [
    "conda",
    "cuda-driver",
    "cudnn",
    "driver-branch",
    "forward-compat",
    "gpu-architecture",
    "gpu-product",
    "host-compiler",
    "installer",
    "mps",
    "system-library",
    "third-party",
    "torch-build",
    "torch-companion",
    "torch-name",
    "torch-name-history",
    "torch-pins",
    "torch-release",
    "xid",
]


@pytest.fixture(scope="module")
def tables() -> Tables:
    return Tables((FOLDER,))


# ---------------------------------------------------------------- the files


def test_every_table_is_there() -> None:
    assert set(EXPECTED) <= set(NAMES)


def test_a_reader_can_open_every_source(tables: Tables) -> None:
    """An address, except where there is none by nature: no list was seen, or a device said its own name."""
    without = {"torch-build neighbours", "gpu-product device-name"}
    for name in table_names((FOLDER,)):
        for key, text in tables.table(name).sources.items():
            assert "https://" in text or f"{name} {key}" in without, f"{name}: {key} = {text}"


def test_no_file_breaks_the_format() -> None:
    assert problems(FOLDER) == ()


def test_no_table_contradicts_another(tables: Tables) -> None:
    assert contradictions(tables) == ()


@pytest.mark.parametrize("name", NAMES)
def test_every_row_names_a_primary_source(name: str) -> None:
    table = read_table(name, (FOLDER,))
    assert table.verified is not None
    assert table.sections
    for rows in table.sections.values():
        assert rows
        for row in rows:
            source = table.source(row)
            assert source
            assert not re.search(r"shared|archived|\.\./|stored copy|mirror", source, re.IGNORECASE), source


@pytest.mark.parametrize("name", NAMES)
def test_sources_are_primary(name: str) -> None:
    text = (FOLDER / f"{name}.toml").read_text(encoding="utf-8")
    assert not re.search(r"archived cop|\.\./shared|facts/|from memory|not opened", text, re.IGNORECASE)


def test_verified_gives_a_date_for_every_table_that_was_read() -> None:
    tables = Tables((FOLDER,))
    assert tables.verified == {}
    assert tables.driver_floor("13.0")
    assert tables.verified == {"cuda-driver": datetime.date(2026, 11, 27)}


HEAD = 'verified = 2026-11-27\n[sources]\na = "x"\n'


def floor(*rows: str, key: str = "cuda") -> str:
    return f'{HEAD}[floor]\nkey = ["{key}"]\nrows = [{", ".join(f"{{ {row} }}" for row in rows)}]\n'


BROKEN = {
    "has no source": floor('cuda = "13.0"'),
    "'b' is not in": floor('cuda = "13.0", source = "b"'),
    "has no `verified`": floor('cuda = "1", source = "a"').partition("\n")[2],
    "twice": floor('cuda = "1", source = "a"', 'cuda = "1", source = "a"'),
    "none of its key": floor('torch = "2.1", source = "a"'),
    "'new' is not a version": floor('cuda = "new", source = "a"'),
    "'so so' is neither": floor('cuda = "1", torch = "so so", source = "a"'),
    "backwards": floor('from = "2.1.0", to = "2.0.0", source = "a"', key="from"),
    "confidence is 'sure'": floor('cuda = "1", confidence = "sure", source = "a"'),
    "used by no row": floor('cuda = "1", source = "a"').replace('a = "x"', 'a = "x"\nb = "y"'),
    "needs `key`": floor('cuda = "1", source = "a"').replace("key =", "keys ="),
    "cannot be read": HEAD + "[floor\n",
}


@pytest.mark.parametrize("named, text", BROKEN.items(), ids=list(BROKEN))
def test_a_broken_file_is_named(tmp_path: Path, named: str, text: str) -> None:
    (tmp_path / "cuda-driver.toml").write_text(text, encoding="utf-8")
    found = problems(tmp_path)
    assert found
    assert all(line.startswith("cuda-driver.toml") for line in found)
    assert any(named in line for line in found), found


def overlay(folder: Path, name: str, section: str, row: str) -> Tables:
    """The real tables with one row of a site on top."""
    key = next(
        line for line in (FOLDER / f"{name}.toml").read_text(encoding="utf-8").split(f"[{section}]")[1].splitlines() if "key" in line
    )
    (folder / f"{name}.toml").write_text(f"[{section}]\n{key}\nrows = [{{ {row} }}]\n", encoding="utf-8")
    return Tables((FOLDER, folder))


WRONG = {
    ("cuda-driver", "floor", 'cuda = "12.4", linux = "600.1", windows = "528.33", source = "x"'): "comes after 600.1",
    ("driver-branch", "branch", 'branch = 580, cuda = "12.0", source = "x"'): "driver-branch",
    ("driver-branch", "windows", "branch = 570, first = 570, last = 590, source = 'x'"): "overlap",
    ("forward-compat", "package", "cuda = '13.0', driver = 580, bridges = [595], source = 'x'"): "595",
    ("gpu-product", "product", "group = 'x', compute_capability = '7.7', names = ['NVIDIA X'], source = 'x'"): "7.7",
    ("gpu-product", "product", "group = 'x', compute_capability = '8.0', names = ['NVIDIA H200'], source = 'x'"): "H200",
    (
        "torch-build",
        "build",
        "variant = 'cu126', platform = 'linux-x86_64', from = '2.15.0', to = '2.15.0', archs = '101', source = 'x'",
    ): "sm_101",
    (
        "torch-build",
        "build",
        "variant = 'cu150', platform = 'linux-x86_64', from = '2.15.0', to = '2.15.0', source = 'x'",
    ): "no driver floor",
    ("torch-release", "numpy", "os = 'linux', from = '2.14.0', to = '2.14.1', numpy = 2, source = 'x'"): "2 rows for 2.14.0 on linux",
    ("torch-companion", "companion", "torch = '2.14.1', torchaudio = '2.11.0', source = 'x'"): "no torchvision for torch 2.14.1",
}


@pytest.mark.parametrize("change, named", WRONG.items(), ids=[f"{name}-{section}-{n}" for n, (name, section, _) in enumerate(WRONG)])
def test_a_wrong_row_is_named(tmp_path: Path, change: tuple[str, str, str], named: str) -> None:
    found = contradictions(overlay(tmp_path, *change))
    assert any(named in line for line in found), found


def test_an_overlay_replaces_a_row_by_key_and_adds_others(tmp_path: Path) -> None:
    changed = overlay(
        tmp_path,
        "gpu-product",
        "product",
        "group = 'site', compute_capability = '8.0', kind = 'datacenter', names = ['ACME A1'], source = 'site'",
    )
    assert changed.compute_capability("ACME A1") == "8.0"
    assert changed.compute_capability("NVIDIA H200") == "9.0"
    changed = overlay(tmp_path, "cuda-driver", "floor", "cuda = '12.8', linux = '570.26', windows = '570.65', source = 'site'")
    assert changed.driver_floor("12.8") == "570.26"
    assert changed.driver_floor("12.6") == "525.60.13"


def test_a_table_is_read_once_and_only_when_asked(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    import envcheck.tables.compat as module

    read: list[str] = []

    def counting(name: str, folders: object) -> object:
        read.append(name)
        return read_table(name, (FOLDER,))

    monkeypatch.setattr(module, "read_table", counting)
    fresh = Tables((FOLDER,))
    assert read == []
    assert fresh.driver_floor("13.0") and fresh.driver_floor("12.8") and fresh.driver_suffices("580.95.05", "13.0")
    assert read == ["cuda-driver"]
    fresh.builds()
    fresh.builds("2.9.0")
    assert sorted(read) == ["cuda-driver", "torch-build", "torch-release"]


def test_a_table_that_no_folder_has_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no table nonsense\.toml"):
        Tables((tmp_path,)).table("nonsense")


# ---------------------------------------------------------------- drivers


@pytest.mark.parametrize(
    "cuda, os, floor",
    [
        ("13.2", "linux", "580.65.06"),
        ("13.0.2", "linux", "580.65.06"),
        ("12.8", "linux", "525.60.13"),
        ("11.8", "linux", "450.80.02"),
        ("10.2", "linux", "440.33"),
        ("12.8", "windows", "528.33"),
        ("11.3", "windows", "452.39"),
        ("10.2", "windows", "441.22"),
        ("13.0", "wsl", "580"),
        ("13.6", "linux", None),  # newer than the newest row
        ("14.0", "linux", None),
        ("12.7", "linux", None),  # never was a toolkit
        ("nonsense", "linux", None),
    ],
)
def test_driver_floor(tables: Tables, cuda: str, os: str, floor: str | None) -> None:
    assert tables.driver_floor(cuda, os) == floor


@pytest.mark.parametrize(
    "driver, cuda, os, suffices",
    [
        ("580.65.06", "13.2", "linux", True),
        ("580.95.05", "13.0", "linux", True),
        ("575.57.08", "13.0", "linux", False),
        ("570.211.01", "12.9", "linux", True),
        ("525.60.13", "12.8", "linux", True),
        ("525.60.11", "12.8", "linux", False),
        ("470.256.02", "11.8", "linux", True),
        ("470.256.02", "12.1", "linux", False),
        ("615.78.08", "12.6", "linux", True),  # drivers are backward compatible
        ("581.29", "13.0", "windows", True),
        ("577.00", "13.0", "windows", False),
        ("528.33", "12.6", "windows", True),
        ("527.41", "12.6", "windows", None),  # NVIDIA's pages disagree between 527.41 and 528.33
        ("527.37", "12.6", "windows", False),
        ("no driver", "12.6", "linux", None),
        ("580.95.05", "19.0", "linux", None),
    ],
)
def test_driver_suffices(tables: Tables, driver: str, cuda: str, os: str, suffices: bool | None) -> None:
    assert tables.driver_suffices(driver, cuda, os) is suffices


@pytest.mark.parametrize(
    "driver, os, cuda",
    [
        ("580.95.05", "linux", "13.0"),
        ("535.183.01", "linux", "12.2"),
        ("610.57.04", "linux", "13.3"),
        ("595.71.05", "linux", "13.2"),
        ("570.124.06", "linux", "12.8"),
        ("565.57.01", "linux", "12.7"),
        ("470.256.02", "linux", "11.4"),
        ("418.87", "linux", "10.1"),
        ("531.79", "windows", "12.1"),
        ("616.92", "windows", "13.4"),
        ("591.86", "wsl", "13.1"),
        ("620.10", "linux", None),  # the pairing of R620 is inferred
        ("640.10", "linux", None),  # newer than the newest row
        ("540.4.0", "linux", None),  # a Jetson driver is no branch of the table
        ("garbage", "linux", None),
    ],
)
def test_driver_cuda(tables: Tables, driver: str, os: str, cuda: str | None) -> None:
    assert tables.driver_cuda(driver, os) == cuda


def test_branch_maps_windows_numbers(tables: Tables) -> None:
    assert tables.branch("580.95.05") == 580
    assert tables.branch("531.79", "windows") == 530
    assert tables.branch("616.92", "wsl") == 615
    assert tables.branch("700.1", "windows") is None


@pytest.mark.parametrize(
    "cuda, driver, gpu, answer",
    [
        ("13.0", "535.183.01", "NVIDIA H100 80GB HBM3", True),
        ("13.2", "570.124.06", "Tesla T4", True),
        ("13.0", "535.183.01", "NVIDIA GeForce RTX 4090", False),
        ("13.0", "535.183.01", "NVIDIA RTX A6000", None),  # only some workstation boards may
        ("13.0", "535.183.01", None, None),
        ("13.0", "550.54.15", "NVIDIA H100 80GB HBM3", None),  # R550 has ended and is not in the matrix
        ("13.0", "580.95.05", "NVIDIA H100 80GB HBM3", False),  # nothing to bridge
        ("12.4", "570.124.06", "NVIDIA H100 80GB HBM3", False),  # would be older than the driver: error 803
        ("13.4", "590.48.01", "NVIDIA H100 80GB HBM3", None),  # listed, and called no supported target
        ("13.9", "535.183.01", "NVIDIA H100 80GB HBM3", None),
    ],
)
def test_forward_compat(tables: Tables, cuda: str, driver: str, gpu: str | None, answer: bool | None) -> None:
    assert tables.forward_compat(cuda, driver, gpu) is answer


# ---------------------------------------------------------------- GPUs


@pytest.mark.parametrize(
    "name, capability",
    [
        ("NVIDIA H200", "9.0"),
        ("nvidia geforce rtx 5090", "12.0"),
        ("GeForce RTX 4090", "8.9"),  # older drivers leave "NVIDIA" out
        ("Tesla V100-SXM2-16GB", "7.0"),
        ("NVIDIA GB10", "12.1"),
        ("NVIDIA GB300", "10.3"),
        ("NVIDIA GeForce RTX 2050", "8.6"),  # an Ampere chip under a 20 name
        ("NVIDIA GeForce RTX 3050 A Laptop GPU", "8.9"),
        ("NVIDIA GeForce MX450", "7.5"),
        ("Orin", "8.7"),
        ("NVIDIA Thor", "11.0"),
        ("GeForce GT 730", None),  # three generations
        ("NVIDIA GeForce RTX 2080 ...", None),
        ("NVIDIA RTX Spark N1X", None),  # not published
        ("RTX 9090", None),
    ],
)
def test_compute_capability_by_name(tables: Tables, name: str, capability: str | None) -> None:
    assert tables.compute_capability(name) == capability


def test_compute_capability_by_pci_id(tables: Tables) -> None:
    assert tables.compute_capability_of_pci("2684") == "8.9"  # RTX 4090
    assert tables.compute_capability_of_pci("2B85") == "12.0"  # RTX 5090
    assert tables.compute_capability_of_pci("1af1") is None  # an NVSwitch
    assert tables.compute_capability_of_pci("zz") is None


def test_gpu_rows(tables: Tables) -> None:
    hopper, volta, blackwell = tables.gpu("9.0"), tables.gpu("7.0"), tables.gpu("12.0")
    assert hopper and volta and blackwell
    assert (hopper.architecture, hopper.first_cuda, hopper.last_cuda, hopper.datacenter) == ("Hopper", "11.8", None, True)
    assert "NVIDIA H200" in hopper.products
    assert (volta.last_cuda, volta.last_branch, volta.open_module) == ("12.9", 580, "impossible")
    assert (blackwell.first_cuda, blackwell.first_driver, blackwell.open_module) == ("12.8", "570", "required")
    orin = tables.gpu("8.7")
    assert orin and orin.jetson and orin.last_branch is None
    assert tables.gpu("99.0") is None


def test_first_driver_of_a_product(tables: Tables) -> None:
    assert tables.first_driver("geforce rtx 5090") == "570.86.16"
    assert tables.first_driver("geforce rtx 5090", "windows") is tables.first_driver("geforce rtx 5090", "wsl") is None
    assert tables.first_driver("NVIDIA H200") is None


def test_datacenter(tables: Tables) -> None:
    assert tables.is_datacenter("NVIDIA L40S") is True
    assert tables.is_datacenter("NVIDIA GeForce RTX 5090") is False
    assert tables.is_datacenter("NVIDIA RTX 6000 Ada Generation") is None
    assert tables.is_datacenter("unheard of") is None


CUBINS = {
    # the rules of a cubin
    (("sm_86",), "8.9"): True,
    (("sm_80",), "8.6"): True,
    (("sm_86",), "8.0"): False,
    (("sm_60",), "6.1"): True,
    (("sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90"), "12.0"): False,
    (("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"), "7.0"): False,
    (("sm_120",), "12.1"): True,
    (("sm_121",), "12.0"): False,
    (("sm_100",), "10.3"): True,
    (("sm_100",), "12.0"): False,  # both Blackwell, and yet
    (("sm_100",), "10.7"): True,
    # a: that one only; f: the family
    (("sm_90a",), "9.0"): True,
    (("sm_100a",), "10.3"): False,
    (("sm_100f",), "10.3"): True,
    (("sm_120f",), "10.0"): False,
    # PTX
    (("sm_50", "compute_50"), "12.0"): True,
    (("compute_90",), "8.9"): False,
    (("compute_90",), "9.0"): True,
    (("compute_90a",), "10.0"): False,
    (("sm_70", "compute_120"), "12.1"): True,
    # Tegra
    (("sm_87",), "8.7"): True,
    (("sm_80", "sm_86"), "8.7"): None,
    (("sm_50", "sm_90"), "8.7"): False,
    (("sm_60",), "6.2"): None,
    (("sm_70",), "7.2"): None,
    (("sm_50",), "5.3"): None,
    (("sm_72",), "7.5"): None,
    (("sm_110",), "11.0"): True,
    (("sm_120",), "11.0"): False,
    (("sm_100",), "11.0"): False,
    (("sm_101",), "11.0"): None,
    (("sm_110",), "10.1"): None,
    (("sm_80", "sm_90", "sm_100", "sm_110", "sm_120"), "11.0"): True,
    # lists that say nothing
    ((), "9.0"): None,
    (("gfx90a", "gfx942"), "9.0"): None,
    (("sm_90",), "nine"): None,
}


@pytest.mark.parametrize("case, answer", CUBINS.items(), ids=[f"{' '.join(archs) or 'none'} on {cc}" for archs, cc in CUBINS])
def test_runs_on(case: tuple[tuple[str, ...], str], answer: bool | None) -> None:
    assert runs_on(*case) is answer


def test_runs_on_orin_from_cuda_13_2_on() -> None:
    assert runs_on(("sm_80", "sm_90"), "8.7", "13.2") is True
    assert runs_on(("sm_80", "sm_90"), "8.7", "13.0") is None
    assert runs_on(("sm_70",), "7.2", "13.4") is True


@given(st.lists(st.text(max_size=12), max_size=5), st.text(max_size=8), st.none() | st.text(max_size=5))
def test_runs_on_any_text(archs: list[str], capability: str, cuda: str | None) -> None:
    assert runs_on(archs, capability, cuda) in (True, False, None)


def test_names_of_platforms() -> None:
    assert platform_of("linux", "x86_64") == "linux-x86_64"
    assert platform_of("linux", "arm64") == "linux-aarch64"
    assert platform_of("darwin", "arm64") == "macos-arm64"
    assert platform_of("windows", "AMD64") == "windows-x86_64"
    assert platform_of("linux", "ppc64le") == "linux-ppc64le"
    assert platform_of(None, None) not in PLATFORMS


# ---------------------------------------------------------------- torch


def variants(tables: Tables, version: str, platform: str = "linux-x86_64", least: str = "medium") -> set[str]:
    order = ("low", "medium", "high")
    return {one.variant for one in tables.builds(version) if one.platform == platform and order.index(one.exists) >= order.index(least)}


def test_releases(tables: Tables) -> None:
    releases = tables.releases()
    assert len(releases) == 36
    assert (releases[0].version, releases[-1].version) == ("1.10.0", "2.15.0")
    one = tables.release("2.14.1+cu130")
    assert one is not None and one.version == "2.14.1"
    assert tables.release("2.16.0") is None
    assert tables.release("2.14.1.dev20260901") is None


def test_pythons_differ_by_platform(tables: Tables) -> None:
    new, old = tables.release("2.15.0"), tables.release("1.13.1")
    assert new and old
    assert new.pythons["linux-x86_64"] == ("3.11", "3.12", "3.13", "3.14", "3.14t", "3.15", "3.15t")
    assert "3.11" in old.pythons["linux-x86_64"] and "3.11" not in old.pythons["windows-x86_64"]
    assert "macos-x86_64" not in new.pythons


def test_facts_of_releases(tables: Tables) -> None:
    def facts(version: str) -> tuple[object, ...]:
        one = tables.release(version)
        assert one is not None
        return (
            one.default_variant["linux-x86_64"],
            one.default_variant["linux-aarch64"],
            one.glibc["x86_64"],
            one.cxx_standard,
            one.index_form,
        )

    assert facts("1.12.1") == ("cu102", "cpu", "2.17", 14, "extra-index-url")
    assert facts("2.6.0") == ("cu124", "cpu", "2.17", 17, "index-url")
    assert facts("2.10.0") == ("cu128", "cpu", "2.28", 17, "index-url")
    assert facts("2.14.1") == ("cu130", "cu130", "2.28", 20, "index-url")
    assert facts("2.15.0") == ("cu132", "cu132", "2.28", 20, "index-url")
    old, new = tables.release("2.4.0"), tables.release("2.4.1")
    assert old and new
    assert (old.numpy_major["windows"], new.numpy_major["windows"], old.numpy_major["linux"]) == (1, 2, 2)


def test_builds_that_exist_and_those_that_do_not(tables: Tables) -> None:
    assert {"cpu", "cu126", "cu130", "cu132"} <= variants(tables, "2.14.1")
    assert "cu126" in variants(tables, "2.14.1", "windows-x86_64")
    assert variants(tables, "2.15.0") == {"cpu", "cu132"}  # the rest was never seen
    assert "cu126" not in variants(tables, "2.15.0", least="low")
    assert "cu128" not in variants(tables, "2.12.0", least="low")
    assert "cu128" in variants(tables, "2.11.0")
    assert "cu129" not in variants(tables, "2.12.0", least="low")
    assert "cu129" in variants(tables, "2.12.1")
    assert "cu129" not in variants(tables, "2.9.1", "windows-x86_64", least="low")
    assert "cu129" in variants(tables, "2.8.0", "windows-x86_64")
    assert "cu129" not in variants(tables, "2.14.0", least="low")
    assert variants(tables, "2.3.0", "linux-aarch64") == {"cpu"}
    assert "cu118" in variants(tables, "2.7.1") and "cu118" not in variants(tables, "2.8.0")
    assert "cu102" not in variants(tables, "1.12.1", "windows-x86_64", least="low")
    assert "macos-x86_64" not in {one.platform for one in tables.builds("2.3.0")}
    assert "macos-x86_64" in {one.platform for one in tables.builds("2.2.2")}


def test_what_is_unsure_is_marked(tables: Tables) -> None:
    for name, platform in (("2.15.0+cu130", "linux-x86_64"), ("2.15.0+cu134", "linux-x86_64"), ("1.11.0+cu115", "linux-x86_64")):
        build = tables.build(name, platform)
        assert build is not None
        assert build.exists == build.confidence == "low"
    seen = tables.build("2.10.0+cu129", "linux-x86_64")
    assert seen is not None
    assert (seen.exists, seen.archs_confidence, seen.confidence) == ("high", "low", "low")
    assert tables.build("2.8.0+cu126", "windows-x86_64").archs_confidence == "low"  # type: ignore[union-attr]


ARCHS = {
    ("1.12.1", "linux-x86_64"): "37 50 60 70",
    ("2.0.1+cu118", "linux-x86_64"): "37 50 60 70 75 80 86 90",
    ("2.7.1+cu128", "linux-x86_64"): "75 80 86 90 100 120 +120",
    ("2.7.1+cu128", "windows-x86_64"): "50 60 61 70 75 80 86 90 100 120",
    ("2.8.0", "linux-x86_64"): "70 75 80 86 90 100 120",
    ("2.11.0+cu128", "linux-x86_64"): "75 80 86 90 100 120",
    ("2.11.0", "linux-x86_64"): "75 80 86 90 100 120",
    ("2.11.0", "linux-aarch64"): "80 90 100 110 120",
    ("2.14.1+cu126", "linux-x86_64"): "50 60 70 75 80 86 90",
    ("2.4.1+cu124", "linux-aarch64"): "90",
    ("2.5.1+cu118", "windows-x86_64"): "37 50 60 61 70 75 80 86 90 +37",
    ("2.15.0", "linux-aarch64"): "80 90 100 110 120",
}


@pytest.mark.parametrize("build, archs", ARCHS.items(), ids=[" ".join(key) for key in ARCHS])
def test_architectures(tables: Tables, build: tuple[str, str], archs: str) -> None:
    found = tables.build(*build)
    assert found is not None
    assert found.archs == tuple(f"compute_{one[1:]}" if one.startswith("+") else f"sm_{one}" for one in archs.split())


def test_every_build_says_what_it_needs(tables: Tables) -> None:
    builds = tables.builds()
    assert len(builds) > 480
    for build in builds:
        assert build.platform in PLATFORMS
        assert build.pythons
        assert build.source
        assert (build.glibc is not None) == build.platform.startswith("linux")
        assert (build.macos is not None) == build.platform.startswith("macos")
        assert build.archs == () if build.variant == "cpu" else True
        if build.cuda:
            assert build.archs, build
        if build.on_pypi:
            assert build.exists == "high", build
    assert all(len(tables.builds(release.version)) >= 6 for release in tables.releases())


def test_one_variant_of_2_6_was_built_on_a_newer_glibc(tables: Tables) -> None:
    default, newer = tables.build("2.6.0", "linux-x86_64"), tables.build("2.6.0+cu126", "linux-x86_64")
    assert default and newer
    assert (default.glibc, default.cxx11_abi, newer.glibc, newer.cxx11_abi) == ("2.17", False, "2.28", True)


def test_rocm_builds_list_gfx_targets(tables: Tables) -> None:
    build = tables.build("2.11.0+rocm7.2", "linux-x86_64")
    assert build and build.archs and "gfx942" in build.archs
    assert tables.build("1.10.0+rocm4.2", "linux-x86_64").archs is None  # type: ignore[union-attr]
    assert tables.build("2.11.0+rocm7.2", "windows-x86_64") is None


def test_companions(tables: Tables) -> None:
    assert tables.companions("2.14.1+cu126") == {"torchvision": "0.29.1", "torchaudio": "2.11.0"}
    assert tables.companions("2.0.0")["torchaudio"] == "2.0.1"
    assert tables.companions("1.12.1") == {"torchvision": "0.13.1", "torchaudio": "0.12.1", "torchtext": "0.13.1", "torchdata": "0.4.1"}
    assert tables.companions("9.9.9") == {}
    assert tables.companion_specifiers("2.9.1")["torchcodec"] == ">=0.8.0,<=0.9.1"
    assert tables.companion_specifiers("2.15.0")["triton"] == "~=3.9.0"


def test_what_a_companion_requires(tables: Tables) -> None:
    assert tables.companion_requires("torchvision", "0.28.0+cu130") == "==2.13.0"
    assert tables.companion_requires("torchvision", "0.29.0") == "==2.14.0"
    assert tables.companion_requires("torchvision", "0.29.2") == ">=2.14.0"
    assert tables.companion_requires("torchaudio", "2.10.0") == "==2.10.0"
    assert tables.companion_requires("torchaudio", "2.11.0+cu130") == ""
    assert tables.companion_requires("torchvision", "0.99.0") is None
    assert tables.companion_conflict("2.15.0", "torchaudio", "2.11.0")
    assert tables.companion_conflict("2.14.1", "torchaudio", "2.11.0") is None


def test_pins(tables: Tables) -> None:
    assert tables.pins("1.12.1") == {}
    old, new = tables.pins("2.6.0+cu124"), tables.pins("2.14.1")
    assert old["nvidia-cudnn-cu12"] == "==9.1.0.70" and old["triton"] == "==3.2.0"
    assert new["nvidia-nccl-cu13"] == "==2.30.7" and new["nvidia-cublas"] == "==13.1.1.3"
    assert tables.pins("2.12.0")["nvidia-cublas"] == "<=13.1.1.3,>=13.1.0.3"  # torch's own range, not the extra's
    assert "nvidia-curand" not in tables.pins("2.15.0")
    assert tables.pins("2.14.1+cu130") == new and tables.pins("2.14.1+cu126") == tables.pins("2.14.1+cpu") == {}
    assert tables.cudnn_of("2.14.1", "cu126") == "9.10.2.21"
    assert tables.cudnn_of("2.14.1", "cu130") == "9.24.0.43"
    assert tables.cudnn_of("2.14.1", "cu132") == "9.24.0.43" and tables.cudnn_of("2.7.1", "cu118") is None
    assert tables.cudnn_of("2.14.1", "cpu") is tables.cudnn_of("2.14.1", "cu118") is None
    assert tables.shared_files() == ("nvidia-cudnn", "nvidia-nccl", "nvidia-nvshmem", "nvidia-cusparselt")
    assert (tables.cudnn_floor("9.10.2.21"), tables.cudnn_floor("9.24.0.43"), tables.cudnn_floor("9.40.0")) == ("5.0", "7.5", None)


# ---------------------------------------------------------------- kernel log, packages, installers


def test_xid(tables: Tables) -> None:
    assert tables.xid(79).action == "reboot"  # type: ignore[union-attr]
    assert tables.xid(13).action == "restart_app"  # type: ignore[union-attr]
    assert tables.xid(9999) is None


def test_host_compilers(tables: Tables) -> None:
    def gcc(cuda: str) -> int | None:
        row = tables.host_compiler(cuda)
        return row.max_gcc if row else None

    assert [gcc(cuda) for cuda in ("10.2", "11.3", "11.8", "12.4", "12.8", "13.0", "13.5", "13.9")] == [8, 10, 11, 13, 14, 15, 16, None]
    row = tables.host_compiler("12.8.93")
    assert row and "sm_120" in row.archs and "sm_103" not in row.archs


def test_third_party(tables: Tables) -> None:
    assert tables.third_party("nonsense") == ()
    assert tables.third_party("xformers")[-1].torch == ">=2.10"
    vllm = tables.pin_of("vllm", "0.25.0")
    assert vllm and (vllm.torch, vllm.python, vllm.requires["torchvision"]) == ("==2.11.0", "<3.15,>=3.10", "==0.26.0")
    assert tables.pin_of("bitsandbytes", "0.49.1").torch == "<3,>=2.3"  # type: ignore[union-attr]
    assert tables.pin_of("bitsandbytes", "0.44.1").torch == ""  # type: ignore[union-attr]
    assert tables.pin_of("bitsandbytes", "0.42.0").torch is None  # type: ignore[union-attr]
    assert tables.pin_of("vllm", "99.0") is None
    assert (tables.linked_cuda_major("vllm", "0.19.1"), tables.linked_cuda_major("vllm", "0.20.0")) == (12, 13)


def test_a_compiled_wheel_loads_beside_the_torch_of_its_day_alone(tables: Tables) -> None:
    old, new = tables.pin_of("vllm", "0.2.5"), tables.pin_of("xformers", "0.0.35")
    assert old and [old.takes(torch) for torch in ("2.1.0", "2.1.2", "2.2.0", "2.14.1")] == [False, True, False, False]
    assert new and new.takes("2.10.0") and new.takes("2.15.0") and not new.takes("2.9.1")


def test_what_wheels_are_for(tables: Tables) -> None:
    lacks = tables.wheel_lacks
    assert [lacks("vllm", "0.33.0", platform, "3.12") for platform in ("linux-aarch64", "windows-x86_64")] == [None, "platform"]
    assert [lacks("vllm", "0.33.0", "linux-x86_64", python) for python in ("3.14", "3.14t", None)] == [None, "python", None]
    assert [lacks("torch-tensorrt", "2.6.1", "linux-x86_64", python) for python in ("3.12", "3.13", None)] == [None, "python", None]
    assert [lacks("torchvision", "0.20.1+cu124", "linux-x86_64", python) for python in ("3.12", "3.13")] == [None, "python"]
    assert (lacks("torchtext", "0.16.0", "linux-aarch64", None), lacks("torchtext", "0.16.0", "linux-x86_64", "3.11")) == ("platform", None)
    assert lacks("vllm", "99.0", "windows-x86_64", "3.12") is None and lacks("nonsense", "1.0", "linux-x86_64", "3.12") is None
    assert (tables.cuda_alone("vllm", "0.33.0"), tables.cuda_alone("bitsandbytes", "0.50.0")) == (True, False)
    assert tables.with_wheels("torchcodec")[0] == "0.0.1" and tables.with_wheels("nonsense") == ()


def test_builds_of_a_package_on_the_index_of_torch(tables: Tables) -> None:
    on = tables.on_index
    assert on("xformers", "0.0.35") == (("cu126", "cu128", "cu130", "rocm7.1"), "cu128")
    assert on("xformers", "0.0.35", "windows-x86_64") == (("cu126", "cu128", "cu130"), "cu128")
    assert on("xformers", "0.0.35", "linux-aarch64") == ((), "cu128")
    assert on("xformers", "0.0.16") is None and on("vllm", "0.33.0") is None


def test_the_gpus_that_a_package_supports(tables: Tables) -> None:
    assert [tables.gpu_floor("vllm", version) for version in ("0.0.1", "0.19.1", "0.20.0", None)] == [None, "7.0", "7.5", "7.5"]
    assert tables.gpu_floor("flash-attn", None) == "8.0" and tables.gpu_floor("xformers", None) is None


def test_uv(tables: Tables) -> None:
    assert {"cpu", "cu126", "cu132", "rocm7.2", "xpu"} <= tables.uv_backends()
    assert "cu134" not in tables.uv_backends()


def test_mps(tables: Tables) -> None:
    assert [tables.mps_floor(version) for version in ("1.11.0", "1.12.0", "2.5.1", "2.14.1", "2.15.0", "2.16.0")] == [
        None, "12.3", "13.0", "14.0", "15.0", "15.0",
    ]  # fmt: skip


def test_the_macos_floor_of_single_pythons(tables: Tables) -> None:
    release, build = tables.release("2.10.0"), tables.build("2.10.0", "macos-arm64")
    assert release and build and build.macos == "11.0"
    assert [release.macos_on("arm64", python) for python in ("3.12", "3.13t", "3.14", None)] == ["11.0", "14.0", "14.0", "11.0"]
    assert build.macos_pythons == (("3.13t", "14.0"), ("3.14", "14.0"), ("3.14t", "14.0"))
    assert release.macos_on("x86_64", "3.14") is None


@given(st.text(max_size=20))
def test_no_lookup_raises_on_any_text(text: str) -> None:
    tables = _TABLES
    answers = (
        tables.driver_floor(text), tables.driver_suffices(text, text), tables.driver_cuda(text), tables.branch(text, "windows"),
        tables.forward_compat(text, text, text), tables.gpu(text), tables.compute_capability(text), tables.compute_capability_of_pci(text),
        tables.release(text), tables.build(text, text), tables.companions(text), tables.companion_specifiers(text),
        tables.companion_requires("torchvision", text), tables.pins(text), tables.host_compiler(text),
        tables.pin_of("vllm", text), tables.mps_floor(text),
        tables.cudnn_floor(text), tables.cudnn_of(text, text),
    )  # fmt: skip
    assert len(answers) == 19


_TABLES = Tables((FOLDER,))
