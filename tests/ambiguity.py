"""Whether a regular expression can need more than linear time: can the same text be read by two of its repeats without bound?

A search tries every position, which is a repeat of any character in front of the expression. It takes quadratic time exactly if some
text can be read in three ways: by the first of two repeats, by the second, and across from the first into the second (Weber and Seidl,
"On the degree of ambiguity of finite automata", 1991). The expression is taken apart into an automaton whose edges hold what a lookbehind
or an anchor asks of the neighbouring characters. A bounded repeat may be read any number of times, which errs on the safe side.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from expressions import parser

ENDLESS = 2000  # a repeat of more counts as one without bound
_EXACT = 4  # repeats up to here are written out

Set = frozenset[int]  # indices of characters that stand for all alike
Condition = Callable[[int, int], bool]  # of the characters before and after


@dataclass
class Loop:
    first: int  # its states have the numbers from here
    last: int  # to here
    end: int  # where it is left
    ahead: bool  # within an assertion: scanned whether it is met or not


@dataclass
class Automaton:
    """States are numbers; 0 is the start, 1 the end."""

    characters: list[str]
    flags: int
    edges: dict[int, list[tuple[int, Set]]] = field(default_factory=dict)
    empty: dict[int, list[tuple[int, Condition | None]]] = field(default_factory=dict)
    loops: list[Loop] = field(default_factory=list)
    count: int = 2
    many: int = ENDLESS  # a repeat of more is a loop
    steps: dict[tuple[int, int, int, int | None], set[int]] = field(default_factory=dict)

    def state(self) -> int:
        self.count += 1
        return self.count - 1

    def skip(self, one: int, other: int, condition: Condition | None = None) -> None:
        self.empty.setdefault(one, []).append((other, condition))

    def read(self, item: Any, flags: int) -> Set | None:
        """The characters that one item takes; None where it is not of one character."""
        name, argument = str(item[0]), item[1]
        match name:
            case "LITERAL" | "NOT_LITERAL" | "IN":
                tests = argument if name == "IN" else [("LITERAL", argument)]
                turned = name == "NOT_LITERAL"
                return frozenset(at for at, one in enumerate(self.characters) if _holds(tests, one, flags) is not turned)
            case "ANY":
                return frozenset(at for at, one in enumerate(self.characters) if flags & re.DOTALL or one != "\n")
        return None

    def add(self, tree: Any, start: int, flags: int, ahead: bool = False) -> int:
        """Add a sequence behind a state; returns where it ends."""
        for item in tree:
            start = self._add(item, start, flags, ahead)
        return start

    def _add(self, item: Any, start: int, flags: int, ahead: bool) -> int:
        name, argument = str(item[0]), item[1]
        end = self.state()
        taken = self.read(item, flags)
        if taken is not None:
            self.edges.setdefault(start, []).append((end, taken))
            return end
        match name:
            case "SUBPATTERN":
                _, add, remove, inner = argument
                self.skip(self.add(inner, start, (flags | add) & ~remove, ahead), end)
            case "BRANCH":
                for branch in argument[1]:
                    self.skip(self.add(branch, start, flags, ahead), end)
            case "MAX_REPEAT" | "MIN_REPEAT":
                self._repeat(argument, start, end, flags, ahead)
            case "AT":
                self.skip(start, end, self._anchor(str(argument), flags))
            case "ASSERT" | "ASSERT_NOT":
                self._assertion(name == "ASSERT", argument, start, end, flags)
            case "GROUPREF":
                everything = frozenset(range(len(self.characters)))
                self.edges.setdefault(start, []).append((start, everything))
                self.skip(start, end)
            case _:
                raise NotImplementedError(name)
        return end

    def _repeat(self, argument: Any, start: int, end: int, flags: int, ahead: bool) -> None:
        least, most, body = int(argument[0]), int(argument[1]), argument[2]
        if most <= _EXACT:
            for number in range(most):
                if number >= least:
                    self.skip(start, end)
                start = self.add(body, start, flags, ahead)
            self.skip(start, end)
            return
        first = self.state()
        self.skip(start, first)
        last = self.add(body, first, flags, ahead)
        self.skip(last, first)
        self.skip(last, end)
        if not least:
            self.skip(start, end)
        if most > self.many:
            self.loops.append(Loop(first, self.count - 1, end, ahead))

    def _anchor(self, name: str, flags: int) -> Condition:
        newline = self.characters.index("\n")
        word = [one.isalnum() or one == "_" for one in self.characters]
        if name == "AT_BEGINNING" and flags & re.MULTILINE:
            return lambda before, after: before == newline
        if name == "AT_END" and flags & re.MULTILINE:
            return lambda before, after: after == newline
        if name == "AT_BOUNDARY":
            return lambda before, after: word[before] != word[after]
        if name == "AT_NON_BOUNDARY":
            return lambda before, after: word[before] == word[after]
        return lambda before, after: False  # the ends of the text are not within it

    def _assertion(self, wanted: bool, argument: Any, start: int, end: int, flags: int) -> None:
        direction, body = argument
        items = list(body)
        near = self.read(items[-1 if direction < 0 else 0], flags) if items else None
        self.add(body, start, flags, True) if direction > 0 else None
        if near is None or (not wanted and len(items) > 1):
            self.skip(start, end)
        elif direction < 0:
            self.skip(start, end, lambda before, after: (before in near) is wanted)
        else:
            self.skip(start, end, lambda before, after: (after in near) is wanted)

    def step(self, state: int, before: int, after: int, loop: Loop | None = None) -> set[int]:
        """The states behind the next character, within a loop if one is named."""
        asked = (state, before, after, loop and loop.first)
        if asked not in self.steps:
            self.steps[asked] = self._step(state, before, after, loop)
        return self.steps[asked]

    def _step(self, state: int, before: int, after: int, loop: Loop | None) -> set[int]:
        seen, todo, found = {state}, [state], set()
        while todo:
            one = todo.pop()
            for other, taken in self.edges.get(one, ()):
                if after in taken and (loop is None or loop.first <= other <= loop.last):
                    found.add(other)
            for other, condition in self.empty.get(one, ()):
                inside = loop is None or loop.first <= other <= loop.last
                if inside and other not in seen and (condition is None or condition(before, after)):
                    seen.add(other)
                    todo.append(other)
        return found

    def may_fail(self, loop: Loop) -> bool:
        """Whether anything behind a loop can fail; else the first try takes all of the text."""
        seen, todo = {loop.end}, [loop.end]
        while todo:
            one = todo.pop()
            if one == 1:
                return loop.ahead
            for other, condition in self.empty.get(one, ()):
                if condition is None and other not in seen:
                    seen.add(other)
                    todo.append(other)
        return True

    def places(self, loop: Loop) -> Iterator[tuple[int, int]]:
        """States of a loop behind a character, with each such character."""
        for one, edges in self.edges.items():
            for other, taken in edges:
                if loop.first <= one <= loop.last and loop.first <= other <= loop.last:
                    for character in taken:
                        yield other, character


def _holds(tests: Any, character: str, flags: int) -> bool:
    found = turned = False
    same = {character, character.lower(), character.upper()} if flags & re.IGNORECASE else {character}
    for operation, argument in tests:
        match str(operation):
            case "NEGATE":
                turned = True
            case "LITERAL":
                found = found or chr(argument) in same
            case "RANGE":
                found = found or any(len(one) == 1 and argument[0] <= ord(one) <= argument[1] for one in same)
            case "CATEGORY":
                name = str(argument)
                kind = {"DIGIT": character.isdecimal(), "SPACE": character.isspace(), "WORD": character.isalnum() or character == "_"}
                found = found or kind[name.rpartition("_")[2]] is ("NOT" not in name)
    return found is not turned


def _characters(tree: Any) -> Iterator[str]:
    """Characters at the borders of every set of an expression."""
    for operation, argument in tree:
        match str(operation):
            case "LITERAL" | "NOT_LITERAL":
                yield from (chr(argument), chr(argument).lower(), chr(argument).upper())
            case "IN":
                yield from _characters(argument)
            case "RANGE":
                for code in (argument[0] - 1, argument[0], argument[1], argument[1] + 1):
                    yield chr(min(max(code, 0), sys.maxunicode))
            case "SUBPATTERN" | "MAX_REPEAT" | "MIN_REPEAT":
                yield from _characters(argument[-1])
            case "BRANCH":
                for branch in argument[1]:
                    yield from _characters(branch)
            case "ASSERT" | "ASSERT_NOT":
                yield from _characters(argument[1])


def _representatives(tree: Any, flags: int) -> list[str]:
    """One character of each kind that the sets of an expression tell apart."""
    sets: list[Any] = []

    def collect(one: Any) -> None:
        for operation, argument in one:
            match str(operation):
                case "LITERAL" | "NOT_LITERAL":
                    sets.append([("LITERAL", argument)])
                case "IN":
                    sets.append(argument)
                case "SUBPATTERN" | "MAX_REPEAT" | "MIN_REPEAT":
                    collect(argument[-1])
                case "BRANCH":
                    for branch in argument[1]:
                        collect(branch)
                case "ASSERT" | "ASSERT_NOT":
                    collect(argument[1])

    collect(tree)
    kinds: dict[tuple[bool, ...], str] = {}
    for one in dict.fromkeys(["\n", "x", "0", "_", " ", "\t", "-", "ä", "\u20ac", *_characters(tree)]):
        if len(one) == 1:
            vector = (one == "\n", one.isalnum() or one == "_", *(_holds(tests, one, flags) for tests in sets))
            kinds.setdefault(vector, one)
    return list(kinds.values())


def _repeats(tree: Any) -> Iterator[int]:
    """How often each part of an expression is repeated at most. Most parts are not, and need no automaton."""
    for operation, argument in tree:
        match str(operation):
            case "MAX_REPEAT" | "MIN_REPEAT":
                yield int(argument[1])
                yield from _repeats(argument[2])
            case "SUBPATTERN":
                yield from _repeats(argument[-1])
            case "BRANCH":
                for branch in argument[1]:
                    yield from _repeats(branch)
            case "ASSERT" | "ASSERT_NOT":
                yield from _repeats(argument[1])
            case "LITERAL" | "NOT_LITERAL" | "IN" | "ANY" | "AT" | "GROUPREF":
                pass
            case other:
                raise NotImplementedError(other)


def slow_texts(expression: str, flags: int = 0, *, search: bool = True) -> list[str]:
    """For each repeat that shares a text with another one, or with the start of a search: that text, repeated the slow one."""
    tree = parser.parse(expression, flags)
    flags |= tree.state.flags
    if not any(most > ENDLESS for most in _repeats(tree)):
        return []
    automaton = Automaton(_representatives(tree, flags), flags)
    automaton.skip(automaton.add(tree, 0, flags), 1)
    found: list[str] = []
    for loop in automaton.loops:
        if not automaton.may_fail(loop):
            continue
        places = sorted(set(automaton.places(loop)))
        ways = [_shared(automaton, None, None, loop, place, last) for place, last in places] if search else []
        for other in automaton.loops:
            if other is not loop:
                mine = dict.fromkeys(places)
                ways += [
                    _shared(automaton, other, one, loop, place, last)
                    for one, character in sorted(set(automaton.places(other)))
                    for place, last in mine
                    if character == last and not (loop.first <= one <= loop.last) and not (other.first <= place <= other.last)
                ]
        found += [way for way in ways if way is not None][:1]
    return found


MANY = 9  # two ways of reading what is repeated as often are five hundred ways of reading all of it


def doubling_text(expression: str, flags: int = 0) -> str | None:
    """A text within a repeat that can be read in two ways and then stands where it began: each time that it is repeated doubles the ways
    in which a search fails. Bounds do not help: of forty times two blanks nobody sees the end (Weber and Seidl's criterion EDA)."""
    tree = parser.parse(expression, flags)
    flags |= tree.state.flags
    if not any(most > MANY for most in _repeats(tree)):
        return None
    automaton = Automaton(_representatives(tree, flags), flags, many=MANY)
    automaton.skip(automaton.add(tree, 0, flags), 1)
    for loop in automaton.loops:
        begins = {
            (state, after)
            for after in range(len(automaton.characters))
            for before in range(len(automaton.characters))
            for state in automaton.step(loop.first, before, after, loop)
        }
        for state, last in sorted(begins):  # who goes around passes one of these
            if text := _doubled(automaton, loop, state, last):
                return text
    return None


def _doubled(automaton: Automaton, loop: Loop, state: int, last: int) -> str | None:
    start = (state, state, False, last)
    parents: dict[Any, Any] = {}
    todo = [start]
    while todo:
        node = todo.pop(0)
        one, other, apart, before = node
        for after in range(len(automaton.characters)):
            for new_one in automaton.step(one, before, after, loop):
                for new_other in automaton.step(other, before, after, loop):
                    new = (*sorted((new_one, new_other)), apart or new_one != new_other, after)
                    if new not in parents:
                        parents[new] = (node, after)
                        if new == (state, state, True, last):
                            return _text(automaton, parents, new, start)
                        todo.append(new)
    return None


def _shared(automaton: Automaton, first: Loop | None, begin: int | None, second: Loop, place: int, last: int) -> str | None:
    """A text that leads around in the first loop (None: the search), from it into a place of the second, and around in the second."""
    begin = -1 if begin is None else begin
    start = (begin, begin, place, last)
    parents: dict[tuple[int, int, int, int], tuple[tuple[int, int, int, int], int]] = {}
    todo = [start]
    while todo:
        node = todo.pop(0)
        stays, crosses, turns, before = node
        for after in range(len(automaton.characters)):
            around = automaton.step(turns, before, after, second)
            if not around:
                continue
            kept = {-1} if first is None else automaton.step(stays, before, after, first)
            if not kept:
                continue
            across = ({-1} if crosses == -1 else set()) | automaton.step(0 if crosses == -1 else crosses, before, after)
            for new in ((a, b, c, after) for a in kept for b in across for c in around):
                if new not in parents:
                    parents[new] = (node, after)
                    if new == (begin, place, place, last):
                        return _text(automaton, parents, new, start)
                    todo.append(new)
    return None


def _text(automaton: Automaton, parents: Any, node: Any, start: Any) -> str:
    text = ""
    while True:
        node, after = parents[node]
        text = automaton.characters[after] + text
        if node == start:
            return text
