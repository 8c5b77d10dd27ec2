"""Facts inside wheels: METADATA of any of them, and of torch's also torch/version.py, headers and the architectures compiled in."""

from __future__ import annotations

import email.parser
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version
from registry import File, RangeFile, Registry, RegistryError

METADATA_BYTES = 8 << 20  # list of files (1.3 MB for torch 2.15) and a few small files
ARCHS_BYTES = 60 << 20  # and torch/lib/libtorch_python.so, 10 MB compressed in 2.15


@dataclass(frozen=True)
class Wheel:
    """A wheel by its name alone."""

    file: File
    version: Version
    build: int  # of two wheels for the same Python and platform the higher one is installed: torch-2.10.0-3-cp312-…
    python: str  # "3.12", "3.13t"; "py3" for any
    platform: str  # "linux-x86_64", "any", or the tag where it is no platform of ours
    floor: str | None  # glibc or macOS that the name states; None = the name does not (manylinux1 of torch up to 2.6 is not true)


def wheel_of(file: File) -> Wheel | None:
    """What the name of a file says; None for source archives and what is no wheel name."""
    try:
        _, version, build, tags = parse_wheel_filename(file.name)
    except (InvalidWheelFilename, ValueError):
        return None
    tag = max(tags, key=str)
    platform, floor = _platform(tag)
    return Wheel(file, version, build[0] if build else 0, _python(tag), platform, floor)


def _python(tag: Tag) -> str:
    """cp312-cp312 -> "3.12", cp313-cp313t -> "3.13t", cp37-cp37m -> "3.7"; py3-none and abi3 -> "py3"."""
    match = re.match(r"cp3(\d+)\Z", tag.interpreter)
    if match is None or tag.abi == "abi3":
        return "py3"
    return f"3.{match[1]}{'t' if tag.abi.endswith('t') else ''}"


def _platform(tag: Tag) -> tuple[str, str | None]:
    """manylinux_2_28_x86_64, manylinux1_x86_64, manylinux2014_aarch64, win_amd64, macosx_11_0_arm64, any."""
    name = tag.platform
    if match := re.match(r"manylinux_(\d+)_(\d+)_(\w+)\Z", name):
        return f"linux-{match[3]}", f"{match[1]}.{match[2]}"
    if match := re.match(r"(?:manylinux(1|2010|2014)|linux)_(\w+)\Z", name):
        return f"linux-{match[2]}", "2.17" if match[1] == "2014" else None
    if match := re.match(r"macosx_(\d+)_(\d+)_(\w+)\Z", name):
        return f"macos-{match[3]}", f"{match[1]}.{match[2]}"
    return {"win_amd64": "windows-x86_64", "win_arm64": "windows-arm64"}.get(name, name), None


@dataclass(frozen=True)
class Metadata:
    """METADATA of a wheel: name, version, Requires-Python and Requires-Dist."""

    version: str
    requires_python: str
    requires: tuple[Requirement, ...]

    def asked(self, platform: str, python: str, extra: str = "") -> Mapping[str, Requirement]:
        """Requirements that hold on a platform and a Python, by normalized name; of an extra only its own."""
        plain = [one for one in self.requires if _holds(one, platform, python, "")]
        wanted = [one for one in self.requires if _holds(one, platform, python, extra) and one not in plain] if extra else plain
        return {str(canonicalize_name(one.name)): one for one in wanted}


def _holds(requirement: Requirement, platform: str, python: str, extra: str) -> bool:
    system, _, machine = platform.partition("-")
    names = {"linux": ("linux", "Linux", "posix"), "windows": ("win32", "Windows", "nt"), "macos": ("darwin", "Darwin", "posix")}
    sys_platform, platform_system, os_name = names.get(system, names["linux"])
    number = python.rstrip("t") if python[0].isdecimal() else "3.12"
    environment = {
        "sys_platform": sys_platform, "platform_system": platform_system, "os_name": os_name, "platform_machine": machine or "x86_64",
        "python_version": number, "python_full_version": f"{number}.0", "implementation_name": "cpython",
        "platform_python_implementation": "CPython", "extra": extra,
    }  # fmt: skip
    return requirement.marker is None or requirement.marker.evaluate(environment)


def parse_metadata(text: str) -> Metadata:
    """Requires-Dist: triton~=3.9.0; platform_system == "Linux" and python_version < "3.16"."""
    message = email.parser.HeaderParser().parsestr(text)
    requires = []
    for line in message.get_all("Requires-Dist") or ():
        try:
            requires.append(Requirement(line))
        except InvalidRequirement as error:
            raise RegistryError(f"METADATA: {line!r}: {error}") from error
    return Metadata(message.get("Version", ""), message.get("Requires-Python", ""), tuple(requires))


def specifier_text(specifier: SpecifierSet) -> str:
    """As the tables write it: "==2.11.0", "<3,>=2.3"."""
    return ",".join(sorted(str(one) for one in specifier))


@dataclass(frozen=True)
class TorchFacts:
    """What a wheel of torch says of itself."""

    version: str  # with its local part: "2.15.0+cu132"
    cuda: str | None
    metadata: Metadata
    cxx: int | None  # C++ standard that ATen/ATen.h asks for; None = it does not say
    archs: tuple[str, ...] | None  # ("sm_75", …, "compute_120"); () = compiled for no GPU, None = not read
    numpy: int | None  # NumPy major of the headers it was compiled with; None = not read
    bytes_read: int


def read_metadata(registry: Registry, wheel: Wheel) -> Metadata:
    with _opened(RangeFile(registry, wheel.file.url, METADATA_BYTES)) as archive:
        return _metadata(archive)


def read_torch(registry: Registry, wheel: Wheel, *, archs: bool = False) -> TorchFacts:
    """Reads 1.5 MB of a wheel of torch; 6 to 11 MB with the architectures, which stand late in a large library."""
    file = RangeFile(registry, wheel.file.url, ARCHS_BYTES if archs else METADATA_BYTES)
    with _opened(file) as archive:
        version, cuda = parse_version_file(_text(archive, "torch/version.py"))
        metadata = _metadata(archive)
        cxx = parse_cxx(_text(archive, "torch/include/ATen/ATen.h"))
        found: tuple[str, ...] | None = None
        numpy: int | None = None
        if archs:
            found, numpy = _compiled(file, archive, cuda is not None)
    return TorchFacts(version, cuda, metadata, cxx, found, numpy, file.bytes_read)


def _opened(file: RangeFile) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(file)
    except zipfile.BadZipFile as error:
        raise RegistryError(f"{file.url}: {error}") from error


def _text(archive: zipfile.ZipFile, name: str) -> str:
    try:
        return archive.read(name).decode("utf-8", "replace")
    except KeyError as error:
        raise RegistryError(f"{archive.filename or 'wheel'}: no {name}") from error


def _metadata(archive: zipfile.ZipFile) -> Metadata:
    names = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA") and name.count("/") == 1]
    return parse_metadata(_text(archive, names[0] if names else "METADATA"))


def parse_version_file(text: str) -> tuple[str, str | None]:
    """("2.15.0+cu132", "13.2") of torch/version.py.

    __version__ = '2.15.0+cu132'
    cuda: Optional[str] = '13.2'            (`cuda = None` in a CPU build)
    """
    version = re.search(r"^__version__ = '([^']*)'", text, re.MULTILINE)
    cuda = re.search(r"^cuda(?:: Optional\[str\])? = (?:'([^']*)'|None)", text, re.MULTILINE)
    if version is None or cuda is None:
        raise RegistryError("torch/version.py: no __version__ or cuda")
    return version[1], cuda[1]


def parse_cxx(text: str) -> int | None:
    """17 of `#error C++17 or later compatible compiler is required to use ATen.`"""
    match = re.search(r"#error C\+\+(\d\d) or later", text)
    return int(match[1]) if match else None


# The string that torch.cuda.get_arch_list() splits (torch/csrc/cuda/Module.cpp), up to its NUL. Before it another constant may end
# without one: "…std::string ipc_hsm_70 sm_75 sm_80 sm_86 sm_90 sm_100 sm_120\0" in 2.8.0.
_ARCHS = re.compile(rb"(?<! )((?:sm|compute)_\d+[af]?(?: (?:sm|compute)_\d+[af]?)*) ?\0")
_LONGEST = 1024  # bytes kept between two blocks, so that a string over their border is seen


def _compiled(file: RangeFile, archive: zipfile.ZipFile, cuda: bool) -> tuple[tuple[str, ...], int]:
    """Architectures, and NumPy 2 by the module name that its headers import (`numpy._core`, NumPy 1: `numpy.core`)."""
    names = [name for name in archive.namelist() if re.match(r"torch/lib/(lib)?torch_python\.(so|dylib|dll)\Z", name)]
    if not names:
        raise RegistryError(f"{file.url}: no torch_python library")
    archs: tuple[str, ...] = ()
    modern = False
    tail = b""
    for block in _inflated(file, archive.getinfo(names[0])):
        text = tail + block
        if not archs and (match := _ARCHS.search(text)):
            archs = tuple(match[1].decode().split())
        modern = modern or b"numpy._core" in text
        if modern and (archs or not cuda):
            break
        tail = text[-_LONGEST:]
    if cuda and not archs:
        raise RegistryError(f"{file.url}: a CUDA build without an architecture string in {names[0]}")
    return archs, 2 if modern else 1


def _inflated(file: RangeFile, info: zipfile.ZipInfo) -> Iterator[bytes]:
    """A member as a stream of one request: zipfile would ask for each 4 KiB, or for the whole."""
    file.seek(info.header_offset)
    header = file.read(30)
    if header[:4] != b"PK\3\4" or info.compress_type not in (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED):
        raise RegistryError(f"{file.url}: {info.filename} cannot be read")
    first = info.header_offset + 30 + sum(struct.unpack("<HH", header[26:30]))
    inflate = zlib.decompressobj(-15)
    for block in file.stream(first, info.compress_size):
        try:
            yield block if info.compress_type == zipfile.ZIP_STORED else inflate.decompress(block)
        except zlib.error as error:
            raise RegistryError(f"{file.url}: {info.filename}: {error}") from error


def newest_first(wheels: Sequence[Wheel]) -> list[Wheel]:
    """Of wheels that serve alike the one that an installer takes first: highest build, then newest Python that is not free-threaded."""

    def rank(wheel: Wheel) -> tuple[int, bool, int]:
        minor = wheel.python.rstrip("t").partition(".")[2]
        return wheel.build, not wheel.python.endswith("t"), int(minor) if minor.isdecimal() else 0

    return sorted(wheels, key=rank, reverse=True)
