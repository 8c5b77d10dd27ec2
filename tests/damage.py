"""What happens to environments: each function does to a `Place` what a person, a killed installer or a full disk did."""

from __future__ import annotations

import os
import re
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from real_environments import Place, links
from torches import call, interpreters, uv

Damage: TypeAlias = Callable[[Place], None]


def nothing(place: Place) -> None:
    """A healthy environment."""


def all_of(*several: Damage) -> Damage:
    def do(place: Place) -> None:
        for one in several:
            one(place)

    return do


# ---------------------------------------------------------------- packages


def uninstalled(*names: str) -> Damage:
    """`pip uninstall`, which asks nobody who needs them."""
    return lambda place: place.uv("uninstall", *names)


def installed(*requirements: str, deps: bool = False, flags: tuple[str, ...] = ()) -> Damage:
    """`pip install --no-deps`, or with what it requires."""
    more = ("pillow",) if any(one.startswith("torchvision") for one in requirements) else ()  # which torchvision imports
    return lambda place: place.uv("install", *([] if deps else ["--no-deps"]), *flags, *requirements, *more)


def over(*requirements: str) -> Damage:
    """Their files over those that are there, both entries staying: `pip install --target`, or a COPY of another image's site-packages."""

    def do(place: Place) -> None:
        other = place.root / "other"
        call([uv(), "pip", "install", "-q", "--no-deps", "-p", place.python, "--target", str(other), *requirements], place.shell())
        lay(other, place.site)

    return do


def lay(source: Path, target: Path) -> None:
    """Copy a tree over another one by hard links. What is there gives way, for its files belong to others too."""
    for one in source.rglob("*"):
        to = target / one.relative_to(source)
        if one.is_dir():
            to.mkdir(exist_ok=True, parents=True)
        else:
            to.unlink(missing_ok=True)
            os.link(one, to)
    shutil.rmtree(source)


def for_another_python(name: str, version: str, machine: str | None = None) -> Damage:
    """A package that was installed for another Python or machine and copied: its compiled files have other names."""

    def do(place: Place) -> None:
        other = place.root / "other"
        where = ["--target", str(other), "--python-version", version, "--only-binary", ":all:"]
        where += ["--python-platform", machine] if machine else []
        place.uv("uninstall", name)
        call([uv(), "pip", "install", "-q", "--no-deps", "-p", place.python, *where, name], place.shell())
        lay(other, place.site)

    return do


def without_dependencies(*requirements: str) -> Damage:
    """A fresh environment in which someone said --no-deps."""

    def do(place: Place) -> None:
        shutil.rmtree(place.root)
        call([uv(), "venv", "-q", "-p", interpreters()[place.base.python], str(place.root)], place.shell())
        place.uv("install", "--no-deps", *requirements, *(["--find-links", str(links())] if "+" in requirements[0] else []))

    return do


# ---------------------------------------------------------------- files


def gone(*patterns: str) -> Damage:
    def do(place: Place) -> None:
        for pattern in patterns:
            found = list(place.site.glob(pattern))
            assert found, pattern
            for path in found:
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()

    return do


def cut(pattern: str, size: int = 0) -> Damage:
    """A file that ends early: the disk was full, the copy was interrupted. Below zero: so much less than it had."""

    def do(place: Place) -> None:
        path = place.find(pattern)
        whole = path.stat().st_size
        with open(path, "rb") as file:
            content = file.read(size if size >= 0 else whole + size)
        place.replace(pattern, content)

    return do


def written(pattern: str, content: bytes) -> Damage:
    return lambda place: place.replace(pattern, content)


def pyc_cut(place: Place) -> None:
    """Compiled files of a copy that was interrupted; Python takes them where the time in them is right."""
    path = place.find("torch/__pycache__/functional.*.pyc")
    content = path.read_bytes()[:200]
    path.unlink()
    path.write_bytes(content)


def after(letter: str, package: str = "torch") -> Damage:
    """What of a package comes later in the alphabet is not there: an interrupted copy in order of names."""

    def do(place: Place) -> None:
        for path in (place.site / package).iterdir():
            if path.name > letter and path.name != "__init__.py":
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    return do


def other_machine(pattern: str) -> Damage:
    """A library of another architecture, as an image for arm64 has it: the machine in the ELF header is aarch64."""

    def do(place: Place) -> None:
        content = bytearray(place.find(pattern).read_bytes())
        struct.pack_into("<H", content, 18, 183)
        place.replace(pattern, bytes(content))

    return do


def interrupted(place: Place) -> None:
    """Ctrl-C while pip wrote torch: half of its files, and the entry, which is written last, not at all."""
    after("nested")(place)
    gone("torch-*.dist-info")(place)


def metadata(pattern: str, old: bytes, new: bytes) -> Damage:
    def do(place: Place) -> None:
        place.replace(pattern, re.sub(old, new, place.find(pattern).read_bytes(), count=1, flags=re.MULTILINE))

    return do


def leftover(place: Place) -> None:
    """What pip renames before it removes it, and leaves where it is stopped."""
    shutil.copytree(place.site / "torch/bin", place.site / "~orch/bin", copy_function=os.link)
    shutil.copytree(place.find("torch-*.dist-info"), place.site / "~orch-2.12.0.dist-info")


def stale_entry(name: str, version: str) -> Damage:
    """The entry of an older version beside the new one: two installers, or a copy of site-packages over another."""

    def do(place: Place) -> None:
        [here] = place.site.glob(f"{name}-*.dist-info")
        there = place.site / f"{name}-{version}.dist-info"
        there.mkdir()
        text = (here / "METADATA").read_text()
        (there / "METADATA").write_text(re.sub(r"^Version: .*$", f"Version: {version}", text, count=1, flags=re.MULTILINE))
        (there / "INSTALLER").write_text("pip")
        (there / "RECORD").write_text((here / "RECORD").read_text().replace(here.name, there.name))

    return do


def dangling(pattern: str) -> Damage:
    """A link to a disk that is no longer there."""

    def do(place: Place) -> None:
        path = place.find(pattern)
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        path.symlink_to(f"/mnt/old/{path.name}")

    return do


def conda_entry(place: Place) -> None:
    """A conda environment in which pip wrote over conda's torch."""
    folder = place.root / "conda-meta"
    folder.mkdir()
    (folder / "history").touch()
    row = '{"name": "pytorch", "version": "2.5.1", "build": "py3.11_cpu_0", "channel": "https://conda.anaconda.org/pytorch", "files": []}'
    (folder / "pytorch-2.5.1-py3.11_cpu_0.json").write_text(row)


# ---------------------------------------------------------------- the shell and what lies around


def variable(name: str, value: str) -> Damage:
    def do(place: Place) -> None:
        place.env[name] = value.format(site=place.site, root=place.root, cwd=place.cwd)

    return do


def beside(name: str, content: str = "") -> Damage:
    """A file or, with a slash at the end, a folder in the working folder."""

    def do(place: Place) -> None:
        path = place.cwd / name
        path.mkdir() if name.endswith("/") else path.write_text(content)

    return do


def on_pythonpath(name: str, content: str = "") -> Damage:
    def do(place: Place) -> None:
        folder = place.root / "mine"
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(content)
        place.env["PYTHONPATH"] = str(folder)

    return do


def packages_on_pythonpath(*requirements: str, python: str | None = None) -> Damage:
    """The site-packages of another environment on PYTHONPATH, as old instructions and module systems put it there."""

    def do(place: Place) -> None:
        other = place.root / "other"
        which = ["--python-version", python, "--only-binary", ":all:"] if python else []
        call([uv(), "pip", "install", "-q", "--no-deps", "-p", place.python, "--target", str(other), *which, *requirements], place.shell())
        place.env["PYTHONPATH"] = str(other)

    return do


def old_library(soname: str) -> Damage:
    """A folder on LD_LIBRARY_PATH with a library of that name without the symbols: an old system's, a module's, another program's."""

    def do(place: Place) -> None:
        folder = place.root / "old"
        folder.mkdir(exist_ok=True)
        source = folder / "none.c"
        source.write_text("int nothing_of_note;\n")
        call(["cc", "-shared", "-fPIC", f"-Wl,-soname,{soname}", "-o", str(folder / soname), str(source)], place.shell())
        place.env["LD_LIBRARY_PATH"] = str(folder)

    return do


def libraries_on_path(requirement: str, below: str) -> Damage:
    """A package of NVIDIA of another version, unpacked somewhere, on LD_LIBRARY_PATH."""

    def do(place: Place) -> None:
        other = place.root / "other"
        call([uv(), "pip", "install", "-q", "--no-deps", "-p", place.python, "--target", str(other), requirement], place.shell())
        place.env["LD_LIBRARY_PATH"] = str(other / below)

    return do


def moved(place: Place) -> None:
    """The folder of the environment got another name."""
    to = place.root.with_name(f"{place.root.name} moved é")
    place.root.rename(to)
    place.root, place.python = to, str(to / "bin/python")


def other_python(version: str) -> Damage:
    """bin/python became another Python: the base of the environment was upgraded under it."""

    def do(place: Place) -> None:
        python = place.root / "bin/python"
        python.unlink()
        python.symlink_to(interpreters()[version])
        (place.root / f"lib/python{version}/site-packages").mkdir(parents=True)

    return do


def wrapped(*flags: str) -> Damage:
    """An interpreter that a script starts with flags of its own."""

    def do(place: Place) -> None:
        script = place.root / "bin/wrapped"
        script.write_text(f'#!/bin/sh\nexec {place.root}/bin/python {" ".join(flags)} "$@"\n')
        script.chmod(0o755)
        place.python = str(script)

    return do


def user_site(*requirements: str) -> Damage:
    """`pip install --user` of another day, and an environment that sees it (`--system-site-packages`)."""

    def do(place: Place) -> None:
        home = place.root / "user"
        site = home / f"lib/python{place.base.python}/site-packages"
        call([uv(), "pip", "install", "-q", "--no-deps", "-p", place.python, "--target", str(site), *requirements], place.shell())
        config = place.root / "pyvenv.cfg"
        text = config.read_text()
        config.unlink()
        config.write_text(text.replace("include-system-site-packages = false", "include-system-site-packages = true"))
        place.env["PYTHONUSERBASE"] = str(home)

    return do
