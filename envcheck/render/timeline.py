"""The timeline of the HTML page: what each rank of the live check did and when, and where it stood when it ended badly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from envcheck.evidence.stacks import main_frames
from envcheck.facts.printable import one_line
from envcheck.facts.record import record
from envcheck.facts.snapshot import Arm, LiveFacts, RankFacts, Stage
from envcheck.render.pictures import Say, scrolled
from envcheck.report.report import Report

Escape: TypeAlias = Callable[[str], str]

WIDTH, LEFT, LANE = 560, 64, 26
MOST_LANES, MOST_ARMS, MOST_TICKS = 16, 12, 5
MOST_CHARACTERS = 200  # of what a rank said at its end; the finding above has all of it
OPEN_ENDED = 70  # pixels of a stage that did not end, where no clock says how long it was waited for
LETTER = 6.2  # pixels of a letter of 11 pixels


@record
class _Axis:
    """Pixels of a moment."""

    seconds: float  # of the whole
    scale: float  # pixels a second
    waited: bool  # whether the axis reaches to the moment at which what did not end was ended

    def at(self, seconds: float) -> float:
        return LEFT + seconds * self.scale


def timelines(report: Report, escape: Escape) -> list[str]:
    """The trial that the verdict rests on, then the others in a fold, those with trouble first."""
    live = report.snapshot.live
    if not isinstance(live, LiveFacts):
        return []
    arms = [arm for arm in live.arms if any(rank.stages for rank in arm.ranks)]
    shown = next((arm for arm in arms if arm.ranks == live.ranks), None)
    say = report.language.say
    first = _lanes(live.ranks, shown, escape, say)
    others = sorted((arm for arm in arms if arm is not shown), key=lambda arm: arm.status.value not in ("fail", "hang"))
    made = [f"<h2>{say('The live step, rank by rank')}</h2>", *first, *_stood(live.ranks, escape, say)] if first else []
    if others:
        made.append(f"<details><summary>{say('The other trials, rank by rank')}</summary>")
        for arm in others[:MOST_ARMS]:
            heading = f"<h3>{escape(arm.name)}: {say(arm.status.value)}</h3>"
            made += [heading, *_lanes(arm.ranks, arm, escape, say), *_stood(arm.ranks, escape, say)]
        more = len(others) - MOST_ARMS
        made.append((f"<p>{say(f'and {more} more trials')}</p>" if more > 0 else "") + "</details>")
    return made


def _lanes(everyone: Sequence[RankFacts], arm: Arm | None, escape: Escape, say: Say) -> list[str]:
    ranks = [rank for rank in everyone if rank.stages]
    if not ranks:
        return []
    axis = _axis(ranks, arm)
    chosen = sorted(ranks, key=lambda rank: not _troubled(rank))[:MOST_LANES]  # one that hangs is seen, whatever its number
    shown = [rank for rank in ranks if rank in chosen]
    rows = "".join(_lane(rank, at, axis, escape, say) for at, rank in enumerate(shown))
    height = LANE * len(shown) + 18
    words = "; ".join(f"rank {rank.rank}: {', '.join(_said(stage, say) for stage in rank.stages)}" for rank in shown)
    frame = f"viewBox='0 0 {WIDTH} {height}' width='{WIDTH}' role='img' aria-label='{escape(words)}' font-size='11'"
    svg = f"<svg {frame}>{_ticks(axis, height)}{rows}</svg>"
    name = say(f"Stages of each rank in {arm.name}" if arm else "Stages of each rank")
    more = f"<p>{say(f'and {len(ranks) - len(shown)} more ranks')}</p>" if len(ranks) > len(shown) else ""
    return [scrolled(escape(name), svg) + more]


def _axis(ranks: Sequence[RankFacts], arm: Arm | None) -> _Axis:
    known = max(begin + (stage.seconds or 0.0) for rank in ranks for stage, begin in _begins(rank))
    waited = any(_open(stage) for rank in ranks for stage in rank.stages)
    clocked = all(stage.began_seconds is not None for rank in ranks for stage in rank.stages)
    ended = arm.seconds if waited and clocked and arm and arm.seconds is not None else None
    seconds = max(known, ended or 0.0) or 1.0
    room = WIDTH - LEFT - 20 - (OPEN_ENDED if waited and ended is None else 0)
    return _Axis(seconds, room / seconds, ended is not None)


def _begins(rank: RankFacts) -> list[tuple[Stage, float]]:
    """Each stage with its begin; where no clock was read, one follows the other."""
    made, last = [], 0.0
    for stage in rank.stages:
        begin = last if stage.began_seconds is None else stage.began_seconds
        made.append((stage, begin))
        last = begin + (stage.seconds or 0.0)
    return made


def _open(stage: Stage) -> bool:
    return stage.seconds is None and stage.status != "skipped"


def _bad(stage: Stage) -> bool:
    return stage.status not in ("ok", "skipped")


def _troubled(rank: RankFacts) -> bool:
    return bool(rank.error or rank.signal) or any(map(_bad, rank.stages))


def _said(stage: Stage, say: Say) -> str:
    took = "" if stage.seconds is None else _s(stage.seconds)
    return " ".join(part for part in (stage.name, say(took), "" if stage.status == "ok" else say(stage.status)) if part)


def _s(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 0.001 else "under 1 ms"


def _ticks(axis: _Axis, height: int) -> str:
    """Round seconds below the lanes, and a line through them."""
    step, sizes = 0.001, (2.0, 2.5, 2.0)  # 1, 2, 5, 10, …
    for at in range(60):
        if axis.seconds / step <= MOST_TICKS:
            break
        step *= sizes[at % 3]
    made = []
    for number in range(int(axis.seconds / step + 1e-6) + 1):
        x = axis.at(number * step)
        made.append(f"<path class='tick' d='M{x:.1f} 0V{height - 16}'/>")
        made.append(f"<text x='{x:.1f}' y='{height - 4}' text-anchor='middle'>{number * step:.3g}{' s' if number else ''}</text>")
    return "".join(made)


def _lane(rank: RankFacts, at: int, axis: _Axis, escape: Escape, say: Say) -> str:
    y = at * LANE + 2
    parts = [f"<text x='{LEFT - 6}' y='{y + 15}' text-anchor='end'>rank {rank.rank}</text>"]
    for number, (stage, begin) in enumerate(_begins(rank)):
        x = axis.at(begin)
        endless = axis.at(axis.seconds) - x if axis.waited else OPEN_ENDED
        width = max(endless if _open(stage) else (stage.seconds or 0.0) * axis.scale, 1.0)
        kind = "hurt" if _bad(stage) else f"step{number % 2}"
        place = f"x='{x:.1f}' y='{y}' width='{width:.1f}' height='{LANE - 6}'"
        parts.append(f"<rect class='{kind}' {place}><title>{escape(_said(stage, say))}</title></rect>")
        if len(stage.name) * LETTER + 6 < width:
            parts.append(f"<text class='on-{kind}' x='{x + 3:.1f}' y='{y + 14}'>{escape(stage.name)}</text>")
    return "".join(parts)


def _stood(ranks: Sequence[RankFacts], escape: Escape, say: Say) -> list[str]:
    """Where each rank was at the end, if one of them ended badly."""
    if not any(map(_troubled, ranks)):
        return []
    chosen = sorted(ranks, key=lambda rank: not _troubled(rank))[:MOST_LANES]
    rows = "".join(_standing(rank, escape, say) for rank in ranks if rank in chosen)
    head = "".join(f"<th scope='col'>{say(name)}</th>" for name in ("rank", "last stage", "where it stood"))
    return [f"<table class='stood'><tr>{head}</tr>{rows}</table>"]


def _standing(rank: RankFacts, escape: Escape, say: Say) -> str:
    last = rank.stages[-1] if rank.stages else None
    stage = " ".join(
        part for part in ((last.name, "" if last.status == "ok" else say(last.status)) if last else (rank.last_stage,)) if part
    )
    frames = main_frames(rank.stack)
    ended = say(rank.error or (f"ended with exit code {rank.exit_code}" if rank.exit_code else ""))
    where = [f"<code>{escape(frames[0])}</code>"] if frames else []
    where += [escape(one_line(ended, MOST_CHARACTERS))] if ended else []
    kind = " class='bad'" if _troubled(rank) else ""
    return f"<tr><th scope='row'{kind}>{rank.rank}</th><td>{escape(stage)}</td><td>{'; '.join(where) or '–'}</td></tr>"
