"""Where a stack stands: faulthandler's, or a traceback."""

from __future__ import annotations

from envcheck.pattern import pattern

_FRAME = pattern(r'File "([^"]{1,400})", line (\d{1,7})')
_STANDARD = pattern(r"/lib/python3\.\d{1,2}t?/(?!site-packages/|dist-packages/)")


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def innermost(stack: str) -> str:
    """The frame in which a stack stands: faulthandler writes it first, a traceback last.

    Current thread 0x00007fe65ae54b80 (most recent call first):
      File "/venv/lib/python3.12/site-packages/torch/__init__.py", line 3 in <module>
      File "<frozen importlib._bootstrap>", line 241 in _call_with_frames_removed
    """
    thread = stack.rpartition("(most recent call first)")[2]  # the main thread, which imports, is written last
    frames = [line.strip() for line in thread.splitlines() if line.strip().startswith("File ")]
    if not frames:
        return last_line(stack)
    return frames[0 if len(thread) < len(stack) else -1][:300]


def frames(stack: str) -> list[str]:
    """Files and lines of the main thread, the innermost first: "/venv/…/sympy/__init__.py, line 1"."""
    _, mark, thread = stack.rpartition("(most recent call first)")
    rows = [_FRAME.match(line.strip()) for line in thread.splitlines()]
    found = [f"{row[1]}, line {row[2]}" for row in rows if row]
    return found if mark else found[::-1]


def blamed(stack: str) -> str:
    """The innermost frame that is neither the standard library's nor the import system's; "" without one."""
    return next((one for one in frames(stack) if not one.startswith("<") and not _STANDARD.search(one)), "")
