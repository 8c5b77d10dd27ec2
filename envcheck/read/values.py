"""Single values as people and tools write them: versions with prose, systems, makers of GPUs."""

from __future__ import annotations

import re
from collections.abc import Mapping

# "2.1.0+cu121", "1.1.0a0+4335aac", "2.15.0.dev20260914+cu130", "6.3.42133-1b9c17779"
_VERSION = re.compile(r"v?(\d{1,3}(?:\.\d{1,8})+(?:[a-z]{1,4}\d*)?(?:\.(?:dev|post)\d+)?(?:[+-][0-9A-Za-z.]{1,40})?)")
_NUMBER = re.compile(r"\d\.\d")
_EXAMPLE = re.compile(r"\[e\.?g\.[^\]\n]{0,80}\]")


def answer_of(field: str) -> str:
    """What stands in the field of a form, without the example that the form left there: "[e.g. Ubuntu 16.04] Mac M1" is "Mac M1"."""
    return _EXAMPLE.sub("", field).strip()


def version_in(text: str, *, single: bool = False) -> str | None:
    """The version a value begins with; None if it begins otherwise. `single` also takes "20250302"."""
    match = _VERSION.match(text.strip())
    if match:
        return match[1]
    return text.strip() if single and re.fullmatch(r"\d{4,10}", text.strip()) else None


def stated_version(value: object) -> str | None:
    """A version that a value states beyond doubt.

    "11.3 (inside the container)" is 11.3; "1.5 / 1.6", "1.x", "<0.43", "2.4.0 and 2.5 dev" and "1.6 nightly" are prose.
    """
    if isinstance(value, bool) or value is None:
        return None
    text = str(value).strip()
    bare = re.sub(r"\([^()]{0,200}\)\Z", "", text).rstrip()
    match = _VERSION.fullmatch(bare) or re.fullmatch(r"v?(\d{1,8})", bare)
    if match and not _NUMBER.search(text[len(bare) :]):
        return match[1]
    return match[1] if match and text == bare else None


def cuda_version(value: object) -> str | None:
    """ "10.1.243" and "12.8" as "10.1" and "12.8"; None for words."""
    text = stated_version(value)
    parts = (text or "").split(".")
    if not text or len(parts) < 2 or not all(part.isdecimal() for part in parts[:2]) or not 5 < int(parts[0]) < 40:
        return None  # "13" alone does not say which 13: 13.0 and 13.3 differ in what they can do
    return ".".join(parts[:2])


def machine_of(word: str) -> str:
    return {"amd64": "x86_64", "x64": "x86_64", "aarch64": "aarch64", "i386": "x86_64"}.get(word.lower(), word)


def operating_system(text: str) -> Mapping[str, object]:
    """Facts of a system's name: "Ubuntu 22.04.4 LTS (x86_64)", "macOS 14.5 (arm64)", "Microsoft Windows 11 Pro (10.0.26100 64-bit)"."""
    found: dict[str, object] = {}
    low = text.lower()
    machine = re.search(r"\b(x86_64|aarch64|arm64|amd64|ppc64le)\b", low)
    if "wsl" in low:
        found["system.wsl"] = 1 if re.search(r"wsl\s?1\b", low) else 2
        found["system.os"] = "linux"
    elif "windows" in low:
        found["system.os"] = "windows"
    elif "macos" in low or "mac os" in low or "os x" in low or "darwin" in low:
        found["system.os"] = "darwin"
        version = re.search(r"(?:mac\s?osx?|os x)\s+(\d{2}(?:\.\d+){0,2})", low)
        found["system.macos_version"] = version[1] if version else None
    else:
        names = (
            "ubuntu", "debian", "centos", "red hat", "rhel", "fedora", "arch", "suse", "alpine", "rocky", "alma", "amazon", "linux",
            "nixos", "mint", "manjaro", "pop", "dgx", "gentoo", "oracle", "scientific", "kali", "sles", "photon", "azure",
            "container-optimized",
        )  # fmt: skip
        identity = next((name for name in names if name in low), None)
        if identity:
            found["system.os"] = "linux"
            found["system.distribution_id"] = {"red hat": "rhel", "suse": "opensuse", "pop": "pop", "amazon": "amzn"}.get(
                identity, identity
            )
            if identity == "linux":
                del found["system.distribution_id"]
    if found:
        found["system.distribution"] = re.sub(r"\((?:x86_64|aarch64|arm64|amd64|ppc64le)\)\Z", "", text.rstrip()).strip()
    if machine and found and "emulated" not in low:
        found["system.machine"] = "arm64" if machine[1] == "arm64" else machine_of(machine[1])
    return {path: value for path, value in found.items() if value is not None}


_AMD = re.compile(
    r"\bamd\b|radeon|instinct|\bmi\d{2,3}[ax]?\b|\bgfx\d|ryzen|\brx ?(?:[45]\d0\b|[5-9]\d{3})|\bvega ?(?:20|56|64)\b", re.IGNORECASE
)
_INTEL = re.compile(r"\bintel\b|\barc\b.{0,40}\b[ab]\d{2,3}\b|data center gpu (?:max|flex)|iris xe", re.IGNORECASE)
_APPLE = re.compile(r"\bapple m\d", re.IGNORECASE)
_NVIDIA = re.compile(
    r"nvidia|geforce|quadro|tesla|titan|rtx|gtx|\bgt \d{3}|[ghb][bh]?\d{3}|\b[alvtpkm]\d{1,3}[0se]?\b|nvs|grid|orin"
    r"|xavier|thor|jetson|tegra",
    re.IGNORECASE,
)


def gpu_vendor(name: str) -> str | None:
    """ "nvidia", "amd", "intel", "apple" from a product name; None for what is no known product."""
    for vendor, names in (("amd", _AMD), ("intel", _INTEL), ("apple", _APPLE), ("nvidia", _NVIDIA)):
        if names.search(name):
            return vendor
    return None
