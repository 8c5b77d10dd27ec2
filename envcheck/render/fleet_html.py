"""The report of a job as one self-contained HTML file: findings, what differs, what each rank did, links and bandwidths as maps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from envcheck.facts.fleet import FleetFacts, FleetLink, FleetTrial
from envcheck.facts.hostlist import fold, natural
from envcheck.render.bandwidth_chart import size as in_units
from envcheck.render.fleet_wording import head_lines, unsure_lines, verdict_line, where
from envcheck.render.html import escape, fix_item, page, prose, table
from envcheck.render.pictures import grid, scrolled
from envcheck.render.wording import severity_word, shown_severity
from envcheck.report.fleet import FleetCase, FleetFinding, FleetReport

MOST_NAMED = 32  # hosts of a map whose cells are words; of more it is a picture
MOST_DRAWN = 256  # hosts of a picture; of more, those with trouble and the first of the others
MOST_ROWS = 60
MOST_CASES = 20
PIXELS = 640
Say: TypeAlias = Callable[[str], str]
Cell: TypeAlias = tuple[str, str, str]  # word, class of a table's cell, what a picture says of it


def render(report: FleetReport) -> str:
    title, say, head = escape(verdict_line(report)), report.language.say, head_lines(report)
    body = [
        f"<h1>{escape(report.name)} {escape(report.version)}, {say('fleet')}: <span class='{report.verdict}'>{title}</span></h1>",
        table([(say("hosts"), head[0].partition(": ")[2]), *([(say("facts"), head[1])] if head[1] else []), *_bad(report)]),
        *(_finding(one, report) for one in report.findings),
        *_drift(report),
        *_timeline(report),
        *_links(report.fleet, say),
        *_bandwidths(report.fleet, say),
        *_unsure(report),
        f"<p class='verdict {report.verdict}'>{title}</p>",
    ]
    return page(title, body, language=report.language.code)


def _bad(report: FleetReport) -> list[tuple[str, str]]:
    return [(report.language.say("leave out"), fold(report.bad_hosts))] if report.bad_hosts else []


def _finding(one: FleetFinding, report: FleetReport) -> str:
    """Who, what and what to do; other values of the same rule below."""
    finding, say = one.finding, report.language.say
    kind = finding.severity.value if shown_severity(finding) is finding.severity else f"{finding.severity.value} likely"
    place = where(one.hosts, report)
    cases = one.cases or (FleetCase(one.hosts, finding.message),)
    who = f"<strong>{escape(place)}</strong>: " if place else ""
    parts = [
        f"<section class='finding {kind}'>",
        f"<h2><span class='{kind}'>{say(severity_word(finding))}</span>: {escape(finding.title)} <code>{escape(finding.rule)}</code></h2>",
        f"<p>{who}{prose(cases[0].message)}</p>",
    ]
    if cases[0].fixes:
        there = f" {say('on')} {escape(place)}" if place else ""
        parts.append(f"<p>{say('Do')}{there}:</p>")
        parts.append("<ol>" + "".join(fix_item(fix, "pip", True, say) for fix in cases[0].fixes) + "</ol>")
    parts += _evidence(cases[0], say)
    others = cases[1 : MOST_CASES + 1]
    if others:
        rows = "".join(f"<li>{escape(where(case.hosts, report))}: {prose(case.message)}</li>" for case in others)
        left = (
            f"<li>{say(f'and on {sum(len(case.hosts) for case in cases[MOST_CASES + 1 :])} more')}</li>"
            if len(cases) > MOST_CASES + 1
            else ""
        )
        parts.append(f"<details><summary>{say('With other values')}</summary><ul>{rows}{left}</ul></details>")
    why = [f"<p>{prose(' '.join(paragraph.split()))}</p>" for paragraph in one.why.strip().split("\n\n") if paragraph]
    if why:
        parts += [f"<details class='why'><summary>{say('Why')}</summary>", *why, "</details>"]
    return "\n".join([*parts, "</section>"])


def _evidence(case: FleetCase, say: Say) -> list[str]:
    rows = "".join(f"<li>{escape(one.source)}: <code>{escape(one.text)}</code></li>" for one in case.evidence)
    return [f"<details><summary>{say('Evidence')}</summary><ul>{rows}</ul></details>"] if rows else []


def _unsure(report: FleetReport) -> list[str]:
    rows, say = unsure_lines(report), report.language.say
    if not rows:
        return []
    items = "".join(f"<li>{escape(row)}</li>" for row in rows[:MOST_ROWS])
    more = f"<li>{say(f'and {len(rows) - MOST_ROWS} more')}</li>" if len(rows) > MOST_ROWS else ""
    return [f"<h2>{say('Could not tell')}</h2><ul>{items}{more}</ul>"]


def _drift(report: FleetReport) -> list[str]:
    """Hosts that differ in the same layers are one row; in a cell stands the group, A for the one of most hosts (or the golden host's)."""
    say = report.language.say
    layers = list(dict.fromkeys(group.layer for group in report.fleet.groups))
    if not layers:
        return []
    of_host: dict[str, dict[str, str]] = {}
    for layer in layers:
        for number, group in enumerate(one for one in report.fleet.groups if one.layer == layer):
            for host in group.hosts:
                of_host.setdefault(host, {})[layer] = _letter(number)
    rows: dict[tuple[str, ...], list[str]] = {}
    for host, letters in of_host.items():
        rows.setdefault(tuple(letters.get(layer, "?") for layer in layers), []).append(host)
    order = sorted(rows.items(), key=lambda row: (-len(row[1]), natural(row[1][0])))
    shown = [(where(hosts, report), [(letter, "same" if letter == "A" else "odd") for letter in key]) for key, hosts in order[:MOST_ROWS]]
    more = f"<p>{say(f'and {len(order) - MOST_ROWS} more combinations')}</p>" if len(order) > MOST_ROWS else ""
    first = "the golden host" if report.fleet.golden else "most hosts"
    legend = say(f"A is what {first} have in a layer. What differs stands in the findings above.")
    below = more + f"<p class='none'>{legend}</p>"
    return [
        f"<h2>{say('Which hosts are alike')}</h2>",
        scrolled(say("Groups of hosts by layer"), grid(map(say, layers), shown, escape)) + below,
    ]


def _timeline(report: FleetReport) -> list[str]:
    """Wave after wave of process groups, what became of each rank and where it stood; ranks of one course are one row."""
    say = report.language.say
    tried = [one for one in report.fleet.trials if one.outcome != "skipped"]
    waves = list(dict.fromkeys((one.round, one.backend, one.wave) for one in tried))
    courses: dict[int, dict[int, FleetTrial]] = {}
    for trial in tried:
        for rank in trial.ranks:
            courses.setdefault(rank, {})[waves.index((trial.round, trial.backend, trial.wave))] = trial
    rows: dict[tuple[tuple[str, str], ...], list[int]] = {}
    for rank, course in courses.items():
        rows.setdefault(tuple(_standing(course.get(at), rank) for at in range(len(waves))), []).append(rank)
    if not rows:
        return []
    order = sorted(rows.items(), key=lambda row: (not any(kind == "off" for _, kind in row[0]), row[1][0]))
    hosts = {seat.rank: seat.host for seat in report.fleet.seats if seat.rank is not None}
    shown = [
        (_who(sorted(ranks), hosts, report), [_timed(cell, at, ranks, courses, say) for at, cell in enumerate(course)])
        for course, ranks in order[:MOST_ROWS]
    ]
    more = f"<p>{say(f'and {len(order) - MOST_ROWS} more courses')}</p>" if len(order) > MOST_ROWS else ""
    columns = [" ".join(part for part in (say(name), backend) if part) for name, backend, _ in waves]
    legend = say("From left to right, one wave of process groups after the other; a stage is where a rank stood at its end.")
    below = more + f"<p class='none'>{legend}</p>"
    return [f"<h2>{say('What each rank did')}</h2>", scrolled(say("Course of each rank"), grid(columns, shown, escape)) + below]


def _standing(trial: FleetTrial | None, rank: int) -> tuple[str, str]:
    if trial is None:
        return "", ""
    if trial.outcome == "passed":
        return "ok", "same"
    if rank in trial.behind or rank in trial.alone or len(trial.ranks) == 1:
        return " ".join(part for part in (trial.stage, trial.outcome) if part), "off"
    return "waited", "speed1"


def _timed(
    cell: tuple[str, str], at: int, ranks: Iterable[int], courses: Mapping[int, Mapping[int, FleetTrial]], say: Say
) -> tuple[str, str]:
    """ "ok, 0.4 to 2.1 s"."""
    seconds = [taken for rank in ranks if at in courses[rank] and (taken := courses[rank][at].seconds) is not None]
    if cell[0] != "ok" or not seconds:
        return say(cell[0]), cell[1]
    low, high = f"{min(seconds):.2g}", f"{max(seconds):.2g}"
    return f"{say('ok')}, {low if low == high else f'{low} to {high}'} s", cell[1]


def _who(ranks: Sequence[int], hosts: Mapping[int, str], report: FleetReport) -> str:
    named = tuple(dict.fromkeys(hosts[rank] for rank in ranks if rank in hosts))
    numbers = fold([str(rank) for rank in ranks])
    say = report.language.say
    return f"{say('ranks' if len(ranks) > 1 else 'rank')} {numbers}" + (f" {say('on')} {where(named, report)}" if named else "")


def _letter(number: int) -> str:
    return chr(ord("A") + number) if number < 26 else f"A{number}"


def _links(fleet: FleetFacts, say: Say) -> list[str]:
    """The worst that was seen from each host to each other."""
    pairs: dict[tuple[str, str], list[FleetLink]] = {}
    for link in fleet.links:
        pairs.setdefault((link.source, link.target), []).append(link)
    if not pairs:
        return []
    cells = {pair: _link(links, say) for pair, links in pairs.items()}
    bad = [f"{source} {say('to')} {target}: {cell[2]}" for (source, target), cell in sorted(cells.items()) if cell[1] == "off"]
    told = "".join(f"<li>{escape(line)}</li>" for line in bad[:MOST_ROWS])
    more = f"<li>{say(f'and {len(bad) - MOST_ROWS} more')}</li>" if len(bad) > MOST_ROWS else ""
    below = f"<ul>{told}{more}</ul>" if bad else f"<p class='none'>{say('Every link that was tried works.')}</p>"
    name = say("Links from host to host")
    return [f"<h2>{name}</h2>", _map(name, cells, say), below]


def _link(links: Iterable[FleetLink], say: Say) -> Cell:
    rows = list(links)
    bad = [one for one in rows if one.ok is False]
    if bad:
        size = "" if bad[0].size_bytes is None else f" of {in_units(bad[0].size_bytes)}"
        by = f" over {bad[0].interface}" if bad[0].interface else ""
        word = "slow" if all(one.error == "slow" for one in bad) else "no"
        return say(word), "off", f"{say(f'{bad[0].what}{size}{by}')}: {say(bad[0].error or 'failed')}"
    return (say("ok"), "on", say("works")) if any(one.ok for one in rows) else ("–", "untried", say("not tried"))


def _bandwidths(fleet: FleetFacts, say: Say) -> list[str]:
    """What pairs of hosts reached: of process groups, else of the largest transfer."""
    speeds: dict[tuple[str, str], float] = {}
    for trial in fleet.trials:
        if trial.busbw_gbps is not None and len(trial.hosts) == 2:
            speeds[trial.hosts[0], trial.hosts[1]] = speeds[trial.hosts[1], trial.hosts[0]] = trial.busbw_gbps
    what = "all_reduce of two hosts"
    if not speeds:
        what = "the largest transfer"
        sizes: dict[tuple[str, str], int] = {}
        for link in fleet.links:
            pair, size = (link.source, link.target), link.size_bytes or 0
            if link.what == "transfer" and link.ok and link.seconds and size >= max(sizes.get(pair, 0), 1 << 20):
                sizes[pair], speeds[pair] = size, size * 8 / link.seconds / 1e9
    if not speeds:
        return []
    top = max(speeds.values()) or 1.0
    cells = {pair: (f"{speed:.3g}", f"speed{int(speed / top * 3.999)}", f"{speed:.3g} Gbit/s") for pair, speed in speeds.items()}
    name = say(f"Bandwidth of {what}")
    return [f"<h2>{name}</h2>", _map(name, cells, say), f"<p class='none'>{say('Gbit/s; the slower, the paler.')}</p>"]


def _map(name: str, cells: Mapping[tuple[str, str], Cell], say: Say) -> str:
    hosts = sorted({end for pair in cells for end in pair}, key=natural)
    if len(hosts) <= MOST_NAMED:
        rows = [(source, [_cell(cells, source, target, say)[:2] for target in hosts]) for source in hosts]
        return scrolled(name, grid(hosts, rows, escape))
    troubles = Counter(end for pair, cell in cells.items() if cell[1] in ("off", "speed0") for end in pair)
    drawn = sorted(sorted(hosts, key=lambda host: -troubles[host])[:MOST_DRAWN], key=natural)
    left = f"<p>{say(f'{len(drawn)} of {len(hosts)} hosts, those with most trouble among them.')}</p>" if len(drawn) < len(hosts) else ""
    return scrolled(name, _picture(name, drawn, lambda source, target: _cell(cells, source, target, say), say)) + left


def _cell(cells: Mapping[tuple[str, str], Cell], source: str, target: str, say: Say) -> Cell:
    return cells.get((source, target)) or ("" if source == target else "–", "untried", say("not tried"))


def _picture(name: str, hosts: Sequence[str], cell: Callable[[str, str], Cell], say: Say) -> str:
    """A square a pair. Runs of equal squares in a row are one, and what works is the ground."""
    side = PIXELS / len(hosts)
    marks = []
    for y, source in enumerate(hosts):
        x = 0
        while x < len(hosts):
            _, kind, told = cell(source, hosts[x])
            end = x + 1
            while end < len(hosts) and cell(source, hosts[end])[1] == kind and kind != "off":
                end += 1
            if kind not in ("on", "speed3", "speed2"):
                shade = "cell-off" if kind in ("off", "speed0") else "cell-untried"
                place = f"x='{x * side:.1f}' y='{y * side:.1f}' width='{(end - x) * side:.1f}' height='{side:.1f}'"
                title = f"{source} {say('to')} {hosts[x]}: {told}" if end == x + 1 else f"{source}: {told}"
                marks.append(f"<rect class='{shade}' {place}><title>{escape(title)}</title></rect>")
            x = end
    label = escape(f"{name}: {say(f'{len(hosts)} hosts')}, {fold(hosts)}"[:300])
    frame = f"viewBox='0 0 {PIXELS} {PIXELS}' width='{PIXELS}' role='img' aria-label='{label}'"
    return f"<svg {frame}><rect class='cell-on' width='{PIXELS}' height='{PIXELS}'/>{''.join(marks)}</svg>"
