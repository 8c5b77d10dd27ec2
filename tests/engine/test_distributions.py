"""Lines of a fix for another distribution than the machine's are left out."""

from __future__ import annotations

import pytest

from envcheck.engine.distributions import own_lines

BOTH = (
    "dkms status; uname -r",
    "sudo apt install linux-headers-$(uname -r)    # Ubuntu, Debian",
    "sudo dnf install kernel-devel-$(uname -r)    # Fedora, RHEL",
    "sudo apt install nvidia-driver-BRANCH",
    "sudo update-initramfs -u    # Ubuntu, Debian; sudo dracut -f on Fedora",
)
HOST = "sudo apt install nvidia-container-toolkit    # on the host, Ubuntu"


@pytest.mark.parametrize(
    ("traits", "left"),
    [
        (None, BOTH),
        ({"linux"}, BOTH),
        ({"linux", "debian"}, (BOTH[0], BOTH[1], BOTH[3], BOTH[4])),
        ({"redhat"}, (BOTH[0], BOTH[2], BOTH[4])),
        ({"linux", "arch"}, (BOTH[0],)),
    ],
)
def test_lines_of_others_are_left_out(traits: set[str] | None, left: tuple[str, ...]) -> None:
    assert own_lines(BOTH, traits) == left


def test_something_is_always_left() -> None:
    assert own_lines(BOTH[1:2], {"redhat"}) == BOTH[1:2]


def test_what_says_what_to_do_elsewhere_stays() -> None:
    line = "sudo apt install x    # Ubuntu; elsewhere see the guide"
    assert own_lines((BOTH[0], line), {"redhat"}) == (BOTH[0], line)


def test_the_host_of_a_container_may_have_another_one() -> None:
    assert own_lines((BOTH[0], HOST), {"redhat", "container"}) == (BOTH[0], HOST)
    assert own_lines((BOTH[0], HOST), {"redhat"}) == (BOTH[0],)
