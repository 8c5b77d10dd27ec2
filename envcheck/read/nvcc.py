"""Version texts of the compilers and build tools that extensions need."""

from __future__ import annotations

import re

from envcheck.facts.record import record


@record
class NvccVersion:
    version: str  # "12.8"
    release: str | None = None  # "12.8.93"
    built: str | None = None  # "cuda_12.8.r12.8/compiler.35583870_0"


# Cuda compilation tools, release 12.8, V12.8.93
# Build cuda_12.8.r12.8/compiler.35583870_0
_RELEASE = re.compile(r"release\s+(\d{1,3}\.\d{1,3})(?:,\s*V(\d{1,3}(?:\.\d{1,6}){1,3}))?")
_BUILD = re.compile(r"^Build (cuda_\S{1,80})", re.MULTILINE)


def read_nvcc(text: str) -> NvccVersion | None:
    """The answer of `nvcc --version`; torch reads the same word, `release (\\d+[.]\\d+)`."""
    match = _RELEASE.search(text)
    if match is None:
        return None
    build = _BUILD.search(text)
    return NvccVersion(match.group(1), match.group(2), build.group(1) if build else None)


_NUMBER = re.compile(r"(?<![\w.])(\d{1,4}(?:\.\d{1,6}){1,3})(?![\w.]*\))")


def read_tool_version(text: str) -> str | None:
    """The version in the first line that has one.

    gcc (Ubuntu 13.3.0-6ubuntu2~24.04) 13.3.0        → the one outside the parentheses
    Ubuntu clang version 18.1.3 (1ubuntu1)
    13.3.0                                           `gcc -dumpfullversion`
    """
    for line in text.splitlines():
        bare = re.sub(r"\([^()]{0,200}\)", " ", line[:400])
        match = _NUMBER.search(bare)
        if match:
            return match.group(1)
    first = text.strip().splitlines()[:1]
    # `gcc -dumpversion` of some builds is the major number alone.
    return first[0].strip() if first and re.fullmatch(r"\d{1,3}", first[0].strip()) else None
