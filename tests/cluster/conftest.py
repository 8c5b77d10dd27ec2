"""One cluster of four hosts for all tests of a file; what a test broke is mended before the next one."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from hosts import NEEDED, SLURM, Cluster, lacking


@pytest.fixture(scope="module")
def hosts() -> Iterator[Cluster]:
    """Four hosts with a network between them."""
    if reason := lacking(NEEDED):
        pytest.skip(reason)
    with Cluster(4) as made:
        yield made


@pytest.fixture
def cluster(hosts: Cluster) -> Iterator[Cluster]:
    """The hosts, whole again after the test; what it started there is ended."""
    before = {pid for host in (*hosts.hosts, hosts.head) for pid in host.processes()}
    yield hosts
    for host in (*hosts.hosts, hosts.head):
        host.signal(signal.SIGKILL, except_for=before)
    hosts.heal()


@pytest.fixture(scope="module")
def slurm(hosts: Cluster) -> Cluster:
    """Slurm on the hosts."""
    if reason := lacking(SLURM):
        pytest.skip(reason)
    hosts.start_slurm()
    return hosts
