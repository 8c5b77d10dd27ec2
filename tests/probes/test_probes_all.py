"""What every host probe promises: it never raises, whatever is missing, and what it says survives JSON."""

from __future__ import annotations

import importlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from machines import NAMES, machine

from envcheck.facts.codec import decode, encode
from envcheck.facts.snapshot import Missing, Snapshot, Why
from envcheck.host.access import RealHost
from envcheck.host.recording import RecordingHost, ReplayHost

PROBES = {
    name: importlib.import_module(f"envcheck.probes.{name}").probe
    for name in ("system", "limits", "container", "network", "launcher", "visibility", "rocm", "xpu", "mps")
}


def hint(section: str) -> Any:
    from envcheck.facts.codec import _hints

    return _hints(Snapshot)[section]


@pytest.mark.parametrize("probe", PROBES)
@pytest.mark.parametrize("name", NAMES)
def test_on_every_machine(name: str, probe: str) -> None:
    facts = PROBES[probe](machine(name))
    assert not isinstance(facts, Missing) or facts.why is Why.ABSENT
    assert decode(hint(probe), json.loads(json.dumps(encode(facts)))) == facts
    assert PROBES[probe](machine(name)) == facts


@pytest.mark.parametrize("probe", PROBES)
@pytest.mark.parametrize("system", ["Linux", "Darwin", "Windows", "FreeBSD", None])
def test_on_a_host_that_says_nothing(probe: str, system: str | None) -> None:
    facts = PROBES[probe](ReplayHost({"platform": {"system": system}} if system else {}))
    assert facts is not None
    assert decode(hint(probe), json.loads(json.dumps(encode(facts)))) == facts


@pytest.mark.parametrize("probe", PROBES)
def test_here_and_replayed(probe: str) -> None:
    """A recording of this machine gives the same facts again."""
    recording = RecordingHost(RealHost())
    here = encode(PROBES[probe](recording))
    again = encode(PROBES[probe](ReplayHost(json.loads(json.dumps(recording.answers)), recording.env)))
    assert here == again


class Garbage(ReplayHost):
    """Every file and folder is there, and each file holds the same text."""

    def __init__(self, text: str, names: tuple[str, ...], env: dict[str, str]) -> None:
        super().__init__({"platform": {"system": "Linux", "release": text, "machine": text, "node": text, "libc": text}}, env)
        self.text, self.names = text, names

    def read(self, path: str, limit: int = 0) -> str | None:
        return self.text

    def listdir(self, path: str) -> tuple[str, ...] | None:
        return self.names if path.count("/") < 9 else None

    def exists(self, path: str) -> bool:
        return True

    def readlink(self, path: str) -> str | None:
        return self.text

    def which(self, name: str) -> str | None:
        return self.text


LINES = st.sampled_from(
    [
        "0x030200", "0::/a", "4:cpu,memory:/docker/x", "1 2 0:3 / / rw - cgroup2 x rw",
        "1 2 0:3 /a /b rw - cgroup x rw,cpu,memory", "max 100000", "100 0", "flags : avx", "Features : ",
        "CPU implementer : 0x41", "MemTotal: 5 kB", "MemAvailable: x kB", "gfx_target_version 90402",
        "gfx_target_version -1", "a: 0100007F:ZZZZ 0 0A 0 0 0 0 0 1", "fe80000000000000c2000afffe280002 02 40 20 80 eth0",
        "# R36 (release), REVISION:", "PRETTY_NAME=\"", "=", ":", "\0", "-1", "²", "9" * 30,
    ]
)  # fmt: skip
NUMBERS = (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "SLURM_PROCID",
    "SLURM_STEP_ID",
    "PET_NNODES",
    "MASTER_PORT",
    "MASTER_ADDR",
    "PMI_RANK",
    "PMI_SIZE",
)


@settings(max_examples=60, deadline=None)
@given(
    text=st.one_of(st.text(max_size=80), st.lists(LINES, max_size=6).map("\n".join)),
    names=st.lists(st.sampled_from(["0", "1", "eth0", "0000:01:00.0", "renderD128", "mlx5_0", "²", "ports"]), max_size=3, unique=True).map(
        tuple
    ),
    env=st.dictionaries(st.sampled_from(NUMBERS), st.text(max_size=6).filter(lambda value: "\0" not in value), max_size=5),
)
def test_garbage_never_raises(text: str, names: tuple[str, ...], env: dict[str, str]) -> None:
    host = Garbage(text, names, env)
    for name, probe in PROBES.items():
        facts = probe(host)
        assert decode(hint(name), json.loads(json.dumps(encode(facts)))) == facts, name
