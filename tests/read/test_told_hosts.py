"""Where the processes of a job are, as people tell it, and the same words where nothing follows from them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envcheck.read.told_hosts import told_hosts

TOLD = {
    "Two docker containers on two servers: ncclSystemError. In one container it works": ("nccl-interface", "container", None),
    "两台机器各一个 docker 容器，报错 unhandled system error": ("nccl-interface", "container", None),
    "unhanled system error in two containers\n# node 0: 192.0.2.4\n# node 1: 192.0.2.5": ("nccl-interface", "container", None),
    "NCCL_SOCKET_IFNAME: node A has enp5s0 and lo, node B has ens3 and docker0. It fails": ("nccl-interface", "names", "enp5s0,ens3"),
    "一台是 eno2，另一台是enp1s0f0，NCCL_SOCKET_IFNAME 怎么设置？两台机器报错": ("nccl-interface", "names", "eno2,enp1s0f0"),
    "NCCL hängt. Mehrere Rechner: einer hat eth0, der andere enp3s0. NCCL_SOCKET_IFNAME=eth0": ("nccl-interface", "names", "eth0,enp3s0"),
    "A single instance with 4 GPUs, MASTER_ADDR is its public IP: connect() timed out": ("launch-unreachable", "one_machine", None),
    "单机多卡，master_addr 填的是公网 IP：The client socket has timed out": ("launch-unreachable", "one_machine", None),
}
NOTHING_FOLLOWS = (
    "docker run --network=host on two servers: ncclSystemError",
    "docker, one machine 4 GPUs\n[0] NCCL INFO NET/Socket : Using [0]eth0:172.17.0.2<0> [1]eth1:172.18.0.3<0>\nunhandled system error",
    "containers on two hosts: ncclSystemError, Error while creating shared memory segment",
    "Two nodes, one has eth0 and the other ens3, NCCL_SOCKET_IFNAME=eth0,ens3, it hangs",
    "Both nodes have eth0, the other nodes have eth0 too. NCCL_SOCKET_IFNAME=eth0 and it fails",
    "Two nodes, one has eth0 and the other ens3, NCCL_SOCKET_IFNAME=^lo,docker. It fails",
    "It works on a single node. On two nodes with MASTER_ADDR of node 0: Connection timed out",
    "Single node with MASTER_ADDR=127.0.0.1: Connection refused",
)


@pytest.mark.parametrize("text", TOLD)
def test_what_hosts_lack_is_told(text: str) -> None:
    told = [(one.rule, one.variant, one.values.get("names"), one.confidence) for one in told_hosts(text)]
    assert told == [(*TOLD[text], "likely")]


@pytest.mark.parametrize("text", NOTHING_FOLLOWS)
def test_hosts_that_lack_nothing_are_left_alone(text: str) -> None:
    assert not told_hosts(text)


@given(st.text(alphabet="NCCL_SOCKET_IFNAME eth01 ens other docker 两台node 192.0.2.unhandled system error", max_size=300))
def test_no_post_makes_the_reader_of_hosts_raise(text: str) -> None:
    told_hosts(text)
