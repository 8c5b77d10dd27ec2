"""Concepts that compare numbers or take a text apart, and so are code: an exit code and its signal, a driver below what a CUDA needs,
the channel that NCCL made last, two calls of one number, a container that several processes are started in without room for them.

Exited (132) 3 seconds ago     Exit Code:    137     退出码 139     Prozess wurde beendet, Exitcode 137     0xC000001D
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from envcheck.read.concepts import Mention, Said

_SIGNALS = {4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM"}
_WINDOWS = {0xC0000005: "SIGSEGV", 0xC000001D: "SIGILL"}
_FLOORS = {"11": 450, "12": 525, "13": 580}  # the first driver branch of each CUDA, as `rules/compat/cuda-driver` has them by the minor
# "It is stuck" tells no more than that, and a command beside it not what stands still
_BARE = re.compile(r"\W{0,8}(?:it|this|that|everything)(?: \w{1,12}(?:'t)?){1,3}\W{0,8}$", re.IGNORECASE)


def signal_of(code: str) -> str | None:
    """The signal that an exit code stands for: 132 and -4 are SIGILL, as is Windows' 0xC000001D in any spelling."""
    number = int(code, 16) if code.lower().startswith("0x") else int(code)
    number = number + (1 << 32) if -(1 << 31) <= number < -255 else number
    if number in _WINDOWS:
        return _WINDOWS[number]
    return _SIGNALS.get(number - 128 if 128 < number < 160 else -number if number < 0 else 0)


def _ended_by(*signals: str) -> Callable[[Said], Mention | None]:
    """The one code that a text names. Several that differ are a list of what codes mean, or a job of many ranks."""

    def concept(text: Said) -> Mention | None:
        named = [name for name in ("exit-code", "windows-code") if text.find(name)]
        codes = [(place, place.values["code"]) for name in named for place in text.all(name)]
        found = [(place, signal) for place, code in codes if (signal := signal_of(code))]
        if len({signal for _, signal in found}) != 1:
            return None
        place, signal = found[0]
        asked = text.part(text.text[max(place.start - 40, 0) : place.start]).find("asked-about")
        return Mention(place.start, place.end, {"signal": signal}) if signal in signals and not asked else None

    return concept


def _channels_by(way: str, *others: str) -> Callable[[Said], Mention | None]:
    """The channel that NCCL told of last, where nothing comes after it."""

    def concept(text: Said) -> Mention | None:
        if text.find("channel") is None:
            return None
        *_, last = text.all("channel")
        if any(place.start >= last.end for place in text.all("goes-on")):
            return None
        return Mention(last.start, last.end, {}) if last.values["way"].startswith(way) and last.values["way"] not in others else None

    return concept


def _driver_below_cuda(text: Said) -> Mention | None:
    """A driver and a CUDA that the build in the post is for, where the one is older than the other needs."""
    driver, asked = text.find("driver-stated"), max((place.values["cuda"] for place in text.all("cuda-of-build")), default="")
    if driver is None or not asked or int(driver.values["driver"]) >= _FLOORS[asked]:
        return None
    return Mention(driver.start, driver.end, {"driver": driver.values["driver"], "cuda": asked, "minimum": str(_FLOORS[asked])})


def _driver_of_two_sources(text: Said) -> Mention | None:
    """Kernel modules built from the open sources, and libraries of NVIDIA's installer, each of its own version."""
    module, file = text.find("open-module"), text.find("driver-file")
    if module is None or file is None or module.values["module"] == file.values["library"]:
        return None
    values = {"module": module.values["module"], "library": file.values["library"], "arch": file.values["arch"]}
    return Mention(file.start, file.end, values)


def _served_without_room(text: Said) -> Mention | None:
    """A server that is cut into several processes fails in a container with docker's own 64 MiB."""
    started, rest, end = None, "", 0
    for place in text.all("container-started"):
        rest, end = rest + text.text[end : place.start], place.end
        command = text.part(text.text[place.start : place.end])
        if started is None and command.find("served-by-several") and not command.find("room-given"):
            started = place
    said = text.part(rest + text.text[end:])
    return started if started and (said.find("trouble") or said.find("stands-still")) else None


def _several_gpus_meant(text: Said) -> Mention | None:
    """Several GPUs, in a sentence where it says no more than that something stands still."""
    still = text.find("stands-still")
    if still is None or not _BARE.match(text.line(still)):
        return text.find("several-gpus")
    return text.part("\n".join(line for line in text.text.split("\n") if "--" not in line)).find("several-gpus")


def _calls_differ(text: Said) -> Mention | None:
    """Two ranks that time out in the collective of one number, and each of them in another one."""
    first: dict[str, tuple[str, Mention]] = {}
    for place in text.all("collective-of-rank"):
        call = f"{place.values['operation']} {place.values['size']}"
        seen, _ = first.setdefault(place.values["number"], (call, place))
        if seen != call:
            return Mention(place.start, place.end, {})
    return None


COUNTED: Mapping[str, Callable[[Said], Mention | None]] = {
    "ended-by-illegal-instruction": _ended_by("SIGILL"),
    "ended-by-bus-error": _ended_by("SIGBUS"),
    "ended-by-kill": _ended_by("SIGKILL"),
    "ended-by-crash": _ended_by("SIGSEGV", "SIGABRT"),
    "calls-differ": _calls_differ,
    "channels-named": _channels_by(""),
    "channels-by-infiniband": _channels_by("NET/IB"),
    "channels-by-sockets": _channels_by("NET/", "NET/IB"),
    "channels-by-p2p": _channels_by("P2P"),
    "driver-below-cuda": _driver_below_cuda,
    "driver-of-two-sources": _driver_of_two_sources,
    "served-without-room": _served_without_room,
    "several-gpus-meant": _several_gpus_meant,
}
