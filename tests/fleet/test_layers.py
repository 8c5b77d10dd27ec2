"""A host's facts in layers: each fact has its place, and a digest stands for a configuration, not for a moment."""

import json
import types
import typing
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envcheck.facts import codec
from envcheck.facts.record import is_record_type
from envcheck.facts.snapshot import SECTIONS, Missing
from envcheck.fleet import layers

# Sections that are no facts of a host: a whole live check or message counts, and what a user asked for is the same for all hosts.
WHOLE = {"live", "symptoms", "expectations", "asked", "fleet"}


def inner(hint: object) -> object:
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return inner(next(one for one in typing.get_args(hint) if one not in (Missing, type(None))))
    return hint


def leaves(cls: type, path: str) -> Iterator[str]:
    for name, hint in codec._hints(cls).items():
        kind = inner(hint)
        if typing.get_origin(kind) is tuple:
            kind = inner(typing.get_args(kind)[0])
        if is_record_type(kind):
            yield from leaves(kind, f"{path}.{name}")
        else:
            yield f"{path}.{name}"


def named(table: dict[str, str]) -> list[str]:
    return [f"{section}.{name}" for section, names in table.items() for name in names.split()]


def test_each_fact_has_one_place() -> None:
    every = {one for section, cls in SECTIONS.items() if section not in WHOLE for one in leaves(cls, section)}
    placed = [*named(layers.JUDGED), *named(layers.LEFT_OUT)]
    placed += [one for sections in layers.COMPARED.values() for one in named(sections)]
    assert sorted(every - set(placed)) == [], "a fact without a place: is it compared, judged, or left out, and why?"
    assert sorted(set(placed) - every) == [], "no such fact"
    twice = [one for one in placed if placed.count(one) > 1]
    assert twice == []


@pytest.fixture(scope="module")
def h100() -> dict:
    from fleet_hosts import base

    return base("h100x8")


def test_the_layers_are_those_that_are_told() -> None:
    assert tuple(layers.COMPARED) == layers.LAYERS


def test_a_look_a_minute_later_has_the_same_digests(h100: dict) -> None:
    later = json.loads(json.dumps(h100))
    later["system"] |= {"time": "23:59:59", "uptime_seconds": 8.0, "memory_available_bytes": h100["system"]["memory_bytes"] - 1}
    later["network"] |= {"hostname": "other", "addresses": ["10.9.9.9"]}
    [eth0] = [one for one in later["network"]["interfaces"] if one["addresses"] == h100["network"]["addresses"]]
    eth0["addresses"] = ["10.9.9.9"]
    later["gpus"]["devices"][0] |= {"uuid": "GPU-other", "temperature_celsius": 31.0, "power_watts": 71.0, "bus_id": "0000:99:00.0"}
    later["driver"]["nvml"]["seconds"] = 0.5
    assert layers.digests(later) == layers.digests(h100)


@pytest.mark.parametrize(
    ("section", "name", "value", "layer"),
    [
        ("driver", "version", "570.124.06", "driver"),
        ("torch", "version", "2.13.0+cu130", "torch"),
        ("torch", "nccl", "2.26.2", "nccl"),
        ("network", "variables", {"NCCL_ALGO": "Ring"}, "nccl"),
        ("network", "peermem", False, "nics"),
        ("limits", "memlock_soft_bytes", 65536, "limits"),
        ("python", "version", "3.11.9", "python"),
        ("python", "pythonpath", "/scratch/old", "code"),
        ("system", "kernel", "6.8.0-1", "system"),
        ("torch", "import_status", "error", "state"),
        ("limits", "shm_error", "No space left on device", "state"),
    ],
)
def test_a_fact_changes_its_layer_and_no_other(h100: dict, section: str, name: str, value: object, layer: str) -> None:
    other = json.loads(json.dumps(h100))
    other[section][name] = value
    before, after = layers.digests(h100), layers.digests(other)
    assert [one for one in before if before[one] != after[one]] == [layer]


def test_a_gpu_that_is_held_back_or_used_is_judged_apart(h100: dict) -> None:
    for change in ({"throttle_reasons": 0x40}, {"ecc_uncorrected_volatile": 3}, {"error": "GPU is lost"}, {"utilization_percent": 90.0}):
        other = json.loads(json.dumps(h100))
        other["gpus"]["devices"][5] |= change
        before, after = layers.digests(h100), layers.digests(other)
        assert [one for one in before if before[one] != after[one]] == ["state"], change


def test_a_missing_section_is_absent_only_where_it_is_known_to_be(h100: dict) -> None:
    absent = {**h100, "driver": {"missing": "absent", "reason": "no driver", "evidence": ""}}
    failed = {**h100, "driver": {"missing": "failed", "reason": "NVML: hang", "evidence": ""}}
    assert layers.layers_of(absent)["driver"]["driver"] == "absent"
    assert "driver" not in layers.layers_of(failed)["driver"]
    assert layers.state_of(failed)["driver"] == "failed: NVML: hang"


def test_memory_of_two_machines_of_a_kind_is_the_same(h100: dict) -> None:
    def memory(count: int) -> str:
        return layers.layers_of({"system": {"memory_bytes": count}})["system"]["system.memory_bytes"]

    assert memory(2015 << 30) == memory((2013 << 30) + 4096) == "2 TiB"
    assert memory(1007 << 30) == "1 TiB"


def test_gpus_are_told_by_how_many_have_what() -> None:
    rows = [{"name": "H100", "mig": False}] * 7 + [{"name": "H200", "mig": True}]
    made = layers.layers_of({"gpus": {"devices": rows}})["gpus"]
    assert made == {"gpus": "present", "gpus.count": "8", "gpus.devices.name": "7 × H100, 1 × H200", "gpus.devices.mig": "7 × no, 1 × yes"}


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
sections = st.dictionaries(
    st.sampled_from([one for one in SECTIONS if one not in WHOLE]),
    st.dictionaries(
        st.sampled_from(["devices", "interfaces", "distributions", "version", "variables", "missing", "caches", "nvml", "addresses"]),
        values,
        max_size=4,
    )
    | values,
    max_size=5,
)


@given(sections)
def test_order_does_not_count_and_what_is_raised_is_what_makes_a_recording_unread(facts: dict) -> None:
    turned = {key: facts[key] for key in reversed(list(facts))}
    made = []
    for one in (facts, turned):
        try:
            made.append(layers.digests(one))
        except (AttributeError, LookupError, OverflowError, TypeError, ValueError):  # of another type than it can be: `told_by`
            made.append(None)
    assert made[0] == made[1]
