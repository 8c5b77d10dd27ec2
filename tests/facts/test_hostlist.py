"""Folded names of hosts: Slurm's form, both ways."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envcheck.facts.hostlist import fold, natural, unfold


@pytest.mark.parametrize(
    ("hosts", "text"),
    [
        ([], ""),
        (["n1"], "n1"),
        (["n017", "n203", "n204"], "n[017,203-204]"),
        (["n1", "n2", "n3", "n10"], "n[1-3,10]"),
        (["n08", "n09", "n10", "n9"], "n[9,08-10]"),
        (["n1", "n01"], "n[1,01]"),
        (["n99", "n100"], "n[99-100]"),
        (["rack1n01", "rack1n02", "rack2n01", "rack2n02"], "rack[1-2]n[01-02]"),
        (["rack1n01", "rack1n02", "rack2n01"], "rack1n[01-02],rack2n01"),
        (["r1n1-ib", "r1n2-ib", "r1n1-eth"], "r1n1-eth,r1n[1-2]-ib"),
        (["ip-10-0-3-17.ec2.internal", "ip-10-0-3-18.ec2.internal"], "ip-10-0-3-[17-18].ec2.internal"),
        (["login", "n1", "n1"], "login,n1"),
        (["a1b1c1", "a1b1c2", "a2b1c1", "a2b1c2", "a1b2c1", "a1b2c2", "a2b2c1", "a2b2c2"], "a[1-2]b[1-2]c[1-2]"),
        (["10.0.0.1", "10.0.0.2"], "10.0.0.[1-2]"),
    ],
)
def test_folded(hosts: list[str], text: str) -> None:
    assert fold(hosts) == text
    assert set(unfold(text)) == set(hosts)


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("n[017,203-204]", ("n017", "n203", "n204")),
        ("n[1-2]-[a]", None),
        ("n[1-2],login m3", ("n1", "n2", "login", "m3")),
        ("r[1-2]n[01-02]", ("r1n01", "r1n02", "r2n01", "r2n02")),
        ("n[08-11]", ("n08", "n09", "n10", "n11")),
        ("n[3-1]", None),
        ("n[1-99999999999]", None),
        ("n[1-2", None),
        ("n1]", None),
        ("n[[1]]", None),
        ("n[]", None),
        ("a[1-2000]b[1-2000]", None),
        ("", ()),
        (" n1 ,, n2,", ("n1", "n2")),
    ],
)
def test_unfolded(text: str, hosts: tuple[str, ...] | None) -> None:
    if hosts is None:
        with pytest.raises(ValueError, match=r"^[^\n]+$"):
            unfold(text)
    else:
        assert unfold(text) == hosts


name = st.text("abn-.0123456789", min_size=1, max_size=9)
clustered = st.tuples(
    st.sampled_from(["n", "rack1n", "gpu-", "r2-"]), st.integers(0, 120), st.integers(1, 4), st.sampled_from(["", "-ib", ".x9"])
).map(lambda one: f"{one[0]}{str(one[1]).zfill(one[2])}{one[3]}")


@given(st.sets(name | clustered, max_size=60))
def test_the_way_back_is_without_loss(hosts: set[str]) -> None:
    text = fold(hosts)
    assert sorted(unfold(text)) == sorted(hosts)
    assert fold(sorted(hosts, reverse=True)) == text


@given(st.text(max_size=40))
def test_no_text_makes_it_raise_anything_else(text: str) -> None:
    try:
        unfold(text)
    except ValueError as error:
        assert "\n" not in str(error)
    assert isinstance(fold([text]), str)


def test_people_count_so() -> None:
    assert sorted(["n10", "n2", "n02", "m", "n1a"], key=natural) == ["m", "n1a", "n02", "n2", "n10"]


def test_fifty_thousand_hosts_are_folded_at_once() -> None:
    hosts = [f"rack{rack:02}n{node:04}" for rack in range(50) for node in range(1000)]
    assert fold(hosts) == "rack[00-49]n[0000-0999]"
    assert len(unfold("rack[00-49]n[0000-0999]")) == 50_000
