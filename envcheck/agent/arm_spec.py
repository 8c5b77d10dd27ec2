"""What one trial of the live check is told: a type, which no run imports."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, TypedDict

    class ArmSpec(TypedDict, total=False):
        """One trial: what its ranks do, and with what."""

        name: str
        backend: str
        device: str
        world_size: int
        places: List[int]  # device index of each rank
        store: str  # "tcp", "file"; or an init method that makes its own: "env://", "tcp://", "file://"
        port: int  # of a "tcp" store
        stages: List[str]
        sizes: List[int]  # bytes
        environment: Dict[str, str]
        isolated: bool  # its ranks live on a host that has nothing but loopback (isolation.py)
        part: str  # of the full check: "collectives", "training", "launchers"
        tasks: List[str]  # of the full check: what a set of ranks does in one go, each an arm of its own in the report
        alone: bool  # one process without a process group
        patience: Dict[str, float]  # by stage, how many times the usual deadline it may take
        rest: bool  # a rank that was started afresh does not leave, but waits for its next arm
