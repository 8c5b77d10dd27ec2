"""Which names torch and its companions have since which release, and up to which: rules/compat/torch-name-history.toml out of wheels.

    python tools/torch_names.py --keep FOLDER           reads what FOLDER does not have yet, and says what would change
    python tools/torch_names.py --keep FOLDER --write   and writes the table

Asks pip for one wheel of the first release of each minor version (a small one, for macOS, where there is one: the Python files are the
same), reads its names (wheel_names.py) and deletes it. FOLDER keeps the names of each wheel as JSON, 0.3 to 3 MB: without it everything
is read anew, some 4 GB and half an hour. What pip does not have is said and left out.

Exit: 0 done; 2 usage, or not a single wheel of a package.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from packaging.version import Version
from registry import Registry, pip_settings
from wheel_names import Names, names_in
from wheels import Wheel, wheel_of

from envcheck.tables.compat import Tables

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "rules", "compat")
TABLE = "torch-name-history.toml"
PACKAGES = ("torch", "torchaudio", "torchdata", "torchtext", "torchvision")
# Releases that torch-companion does not pair with a torch: those before its first row, and later ones of torchdata and torchtext.
_BESIDE = {
    "torch": "1.7.0 1.8.0 1.9.0",
    "torchaudio": "0.7.0 0.8.0 0.9.0",
    "torchdata": "0.8.0 0.9.0 0.10.0 0.11.0",
    "torchtext": "0.8.0 0.9.0 0.10.0 0.18.0",
    "torchvision": "0.8.1 0.9.0 0.10.0",
}
# Left out: what is torch's own business, tests, and code that torch took over from others. Of these packages only the names
# right below them stand in the table.
_CLOSED = (
    "torch._decomp", "torch._dynamo", "torch._export", "torch._functorch", "torch._higher_order_ops", "torch._inductor", "torch._lazy",
    "torch._library", "torch._native", "torch._numpy", "torch._prims", "torch._refs", "torch._subclasses", "torch._vendor",
    "torch.distributions.constraint_registry", "torch.fx.experimental", "torch.fx.passes", "torch.onnx._internal", "torch.package",
    "torch.testing._internal", "torch.utils.benchmark", "torch.utils.model_dump", "torch.utils.viz",
)  # fmt: skip
# Of these it stands only that they are there: what they hold is long, and hardly anybody's.
_BARE = re.compile(
    r"torch\.(?:_meta_registrations|_refs|_export|_guards|_higher_order_ops|_jit_internal|_linalg_utils|_lobpcg|_namedtensor_internals|_ops"
    r"|_prims.*|_sources|_storage_docs|_tensor_docs|_tensor_str|_torch_docs|_utils_internal|_weights_only_unpickler|ao\.\w+\..*|ao\.ns"
    r"|autograd\.gradcheck|contrib|distributed\.(?:_functional_collectives|_tools|benchmarks|rpc\..*)|export\._.*|fx\.experimental|jit\..*"
    r"|nn\.(?:intrinsic|quantized)\..*|onnx\.(?:symbolic_opset\d+|_.*)|quantization\.(?:fx.*|observer|quantize)|testing|testing\._internal.*"
    r"|utils\.(?:bottleneck|jit)|utils\.(?:_cxx|_sympy|hipify).*)\Z"
)
# Private modules whose private names others import all the same.
_OPENED = re.compile(
    r"torch\.(?:_six|_utils|_tensor|_custom_ops|_dynamo|_inductor|utils\._pytree|utils\._triton|nn\.modules\.\w+"
    r"|nn\.parallel\._functions|onnx\.symbolic_helper)\Z"
)
_IMPORTED = 2  # modules that have a name: so many have it from one of them
_DEEP = 4  # parts of a module whose submodules are told; its other names up to one part less


def main(arguments: Sequence[str] | None = None) -> int:
    args = _arguments(arguments)
    registry, tables, histories = Registry(pip_settings()), Tables((args.tables,)), {}
    for package in PACKAGES:
        wheels = [wheel for file in registry.files(package) if (wheel := wheel_of(file))]
        read = [(one, names) for one in releases(package, tables) if (names := kept(package, one, wheels, args.keep)) is not None]
        if not read:
            print(f"torch_names: no wheel of {package}", file=sys.stderr)
            return 2
        histories[package] = changes(read)
    text = table_text(histories, datetime.date.today())
    path = os.path.join(args.tables, TABLE)
    if args.write:
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
    print(f"{path}: {len(text)} bytes, {'written' if args.write else 'not written'}")
    return 0


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="torch_names.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", metavar="FOLDER", help="where the names of wheels are kept between two runs")
    parser.add_argument("--write", action="store_true", help="write the table")
    parser.add_argument("--tables", default=FOLDER, metavar="FOLDER", help="the tables (default: rules/compat of this checkout)")
    return parser.parse_args(arguments)


def releases(package: str, tables: Tables) -> list[str]:
    """The first release of each minor version, oldest first."""
    paired = [one.version for one in tables.releases()]
    known = paired if package == "torch" else [of for one in paired if (of := tables.companions(one).get(package))]
    first: dict[tuple[int, ...], Version] = {}
    for version in sorted(map(Version, (*_BESIDE[package].split(), *known))):
        first.setdefault(version.release[:2], version)
    return [str(version) for version in first.values()]


# ---------------------------------------------------------------- wheels


def kept(package: str, version: str, wheels: Sequence[Wheel], folder: str | None) -> Names | None:
    """The names of one release, from the folder or from its wheel; None where there is none."""
    path = os.path.join(folder, f"{package}-{version}.json") if folder else None
    if path and os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            return {module: frozenset(names) for module, names in json.load(file).items()}
    with tempfile.TemporaryDirectory() as place:
        wheel = _download(package, version, wheels, place)
        if wheel is None:
            print(f"{package} {version}: no wheel", file=sys.stderr)
            return None
        with zipfile.ZipFile(wheel) as archive:
            names = names_in(archive, package, _CLOSED)
    print(f"{package} {version}: {sum(map(len, names.values()))} names, {os.path.basename(wheel)}", file=sys.stderr)
    if path:
        with open(path, "w", encoding="utf-8") as file:
            json.dump({module: sorted(of) for module, of in sorted(names.items())}, file, indent=0)
    return names


def _download(package: str, version: str, wheels: Sequence[Wheel], folder: str) -> str | None:
    """By pip, in the variant that is small: for macOS on ARM, then for the other, then for Linux."""
    ranks = ("any", "macos-arm64", "macos-x86_64", "linux-x86_64")
    fit = [
        one for one in wheels if str(one.version) == version and one.platform in ranks and re.search(r"-(?:cp|py|py2\.py)3", one.file.name)
    ]
    fit = [one for one in fit if not one.python.endswith("t")]
    for wheel in sorted(fit, key=lambda one: (ranks.index(one.platform), -int(one.python.partition(".")[2] or 0))):
        line = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "download", "--no-deps", "--only-binary", ":all:"]
        if wheel.platform != "any":
            line += ["--platform", wheel.file.name.removesuffix(".whl").rpartition("-")[2], "--implementation", "cp"]
            line += [] if wheel.python == "py3" else ["--python-version", wheel.python]
        subprocess.run([*line, "--dest", folder, f"{package}=={version}"], capture_output=True, check=False)
        if found := [os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".whl")]:
            return found[0]
    return None


# ---------------------------------------------------------------- what changed

Changes: TypeAlias = dict[tuple[str, str], set[str]]  # (module, release) -> names


def changes(read: Sequence[tuple[str, Names]]) -> tuple[Changes, Changes]:
    """Names that came after the first release, by the first that has them, and names that are gone, by the last that had them."""
    spans: dict[str, tuple[int, int]] = {}
    for number, (_, names) in enumerate(read):
        for name in {f"{module}.{one}" for module, of in names.items() for one in of}:
            spans[name] = (spans.get(name, (number, 0))[0], number)
    wanted = _Wanted([names for _, names in read])
    came: Changes = {}
    gone: Changes = {}
    for name, (first, last) in spans.items():
        module, _, own = name.rpartition(".")
        if not wanted.holds(module, own):
            continue
        above = spans.get(module)  # of a package: always there
        if first and (above is None or above[0] != first):
            came.setdefault((module, read[first][0]), set()).add(own)
        if last < len(read) - 1 and (above is None or above[1] != last):
            gone.setdefault((module, read[last][0]), set()).add(own)
    return came, gone


class _Wanted:
    """Which names the table has."""

    def __init__(self, releases: Sequence[Names]) -> None:
        self.modules = set().union(*releases)
        self.packages = {name.rpartition(".")[0] for name in self.modules}
        self.everywhere: set[str] = set()
        for names in releases:
            times = Counter(one for module, of in names.items() if module not in self.packages for one in of)
            self.everywhere |= {one for one, many in times.items() if many >= _IMPORTED}

    def holds(self, module: str, own: str) -> bool:
        parts = module.split(".")
        hidden, opened = any(part.startswith("_") for part in parts), _OPENED.match(module)
        if own.startswith("__") or {"test", "tests", "examples", "prototype"} & {*parts, own} or _BARE.match(module):
            return False
        if f"{module}.{own}" in self.modules:
            return len(parts) <= _DEEP
        if opened:
            return True
        if hidden and parts[0] == "torch" and parts[1] != "distributed":
            return False
        if len(parts) > _DEEP - 1 or (own.startswith("_") and (hidden or not own[1:2].isupper())):
            return False
        imported = own in self.everywhere and module not in self.packages and parts[0] == "torch"
        return not imported or module in ("torch.functional", "torch.nn.functional")


def table_text(histories: Mapping[str, tuple[Changes, Changes]], day: datetime.date) -> str:
    text = _HEAD.format(day=day)
    for number, (section, comment) in enumerate(_SECTIONS.items()):
        rows = "".join(_rows(section, [of[number] for of in histories.values()]))
        text += f'\n{comment}\n[{section}]\nkey = ["module", "{section}"]\nrows = [\n{rows}]\n'
    return text


def _rows(section: str, found: Iterable[Changes]) -> Iterator[str]:
    for of in found:
        for module, release in sorted(of, key=lambda one: (one[0], Version(one[1]))):
            names = " ".join(sorted(of[module, release]))
            yield f"  {{ module = '{module}', {section} = '{release}', names = '{names}', source = 'pypi' }},\n"


_HEAD = """\
# Names of torch and its companions that came with a release or are gone with one, made out of their wheels by tools/torch_names.py:
# change nothing here by hand. The first release of each minor version was read. A row for a module holds for all below it.

verified = {day}

[sources]
pypi = "https://pypi.org/project/torch/#files (Python files and stubs in the wheels of torch and of its companions)"
"""
_SECTIONS = {
    "since": "# The first release that has these names, of those read.",
    "last": "# The last release that has them.",
}


if __name__ == "__main__":
    sys.exit(main())
