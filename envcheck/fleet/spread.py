"""Work spread over this machine's cores, or over a Ray cluster: results come in the order of the work, wherever it was done.

Work has two halves. `load` reads what an item names, where its files are; `work` makes the result of what was read.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from envcheck.errors import UsageError
from envcheck.facts.record import replace

if TYPE_CHECKING:
    from concurrent.futures import Future

    from envcheck.report.session import RuleSession

T = TypeVar("T")
AHEAD = 2  # items a worker that wait beside the one it does: what is handed out is bounded
FEW = 4  # items that are done sooner than a process has started

Load = Callable[[T], Iterable[Any]]
Work = Callable[..., Any]  # of what was loaded; then of the rules and of `more`, where there is more


class Spread(Protocol):
    def each(self, load: Load[T], work: Work, items: Iterable[T], more: Sequence[Any] = ()) -> Iterator[tuple[T, Any]]:
        """Each item with what `work` makes of it, in the order of the items."""
        ...


def _done(load: Load[T], work: Work, item: T, by: RuleSession, more: Sequence[Any]) -> Any:
    return work(load(item), by, *more) if more else work(load(item))


_BY: list[RuleSession] = []  # of a worker process


def _start(by: RuleSession) -> None:
    _BY[:] = [by]


def _in_worker(load: Load[T], work: Work, item: T, more: Sequence[Any]) -> Any:
    return _done(load, work, item, _BY[0], more)


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Local:
    """Processes of this machine, started once there is enough to do."""

    def __init__(self, by: RuleSession, workers: int | None = None) -> None:
        self.by = by
        self.workers = workers or cores()
        self.pool: Any = None

    def each(self, load: Load[T], work: Work, items: Iterable[T], more: Sequence[Any] = ()) -> Iterator[tuple[T, Any]]:
        rest = iter(items)
        first = list(islice(rest, FEW + 1))
        rest = chain(first, rest)
        if self.pool is None and (len(first) <= FEW or self.workers < 2):
            for item in rest:
                yield item, _done(load, work, item, self.by, more)
            return
        self.pool = self.pool or self._pool()
        waiting: deque[tuple[T, Future[Any]]] = deque()
        while True:
            for item in islice(rest, self.workers * (AHEAD + 1) - len(waiting)):
                waiting.append((item, self.pool.submit(_in_worker, load, work, item, more)))
            if not waiting:
                return
            item, future = waiting.popleft()
            yield item, future.result()

    def _pool(self) -> Any:
        from concurrent.futures import ProcessPoolExecutor
        from multiprocessing import get_all_start_methods, get_context

        forks = "fork" in get_all_start_methods()
        if forks:
            self.by.prepare()  # once for all workers
        by = self.by if forks else replace(self.by)
        return ProcessPoolExecutor(self.workers, get_context("fork" if forks else "spawn"), _start, (by,))

    def close(self) -> None:
        if self.pool is not None:
            self.pool.shutdown(cancel_futures=True)


@contextmanager
def local(by: RuleSession, workers: int | None = None) -> Iterator[Spread]:
    spread = Local(by, workers)
    try:
        yield spread
    finally:
        spread.close()


class OnRay:
    """Tasks of a Ray cluster. Files are read here and their bytes travel; envcheck has to be installed there."""

    def __init__(self, ray: Any, by: RuleSession) -> None:
        self.ray = ray
        self.by = replace(by)  # nothing of it read: what can be sent
        self.remote = ray.remote(num_cpus=1)(_on_node)
        self.ahead = max(int(ray.cluster_resources().get("CPU", 1)), 1) * AHEAD

    def each(self, load: Load[T], work: Work, items: Iterable[T], more: Sequence[Any] = ()) -> Iterator[tuple[T, Any]]:
        rest = iter(items)
        waiting: deque[tuple[T, Any]] = deque()
        while True:
            for item in islice(rest, self.ahead - len(waiting)):
                waiting.append((item, self.remote.remote(work, list(load(item)), self.by if more else None, tuple(more))))
            if not waiting:
                return
            item, reference = waiting.popleft()
            yield item, self.ray.get(reference)


def _on_node(work: Work, loaded: list[Any], by: RuleSession | None, more: Sequence[Any]) -> Any:
    return work(loaded, by, *more) if by is not None else work(loaded)


@contextmanager
def on_ray(by: RuleSession, address: str | None = None) -> Iterator[Spread]:
    """A Ray cluster: the one at `address`, that of RAY_ADDRESS, one that runs here, or a new one of this machine's cores."""
    try:
        import ray
    except ImportError:
        raise UsageError("--ray: Ray is not installed here: pip install 'envcheck[ray]'") from None
    mine = not ray.is_initialized()
    if mine:
        try:
            ray.init(address=address, log_to_driver=False, logging_level="ERROR", configure_logging=False, include_dashboard=False)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise UsageError(f"--ray {address or ''}: {error}".replace("\n", " ")[:300]) from None
    try:
        yield OnRay(ray, by)
    finally:
        if mine:
            ray.shutdown()
