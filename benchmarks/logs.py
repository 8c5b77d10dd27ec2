"""CPU seconds and memory of `envcheck diagnose` for big logs: `python benchmarks/logs.py [NAME…]`.

Promised are 2 s for 10 MB of lines of which none is like another, whatever they say, and 8 s and 80 MiB for 200 MB of lines that repeat
each other but for their numbers.
"""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from envcheck.read.clean import words_in
from envcheck.symptoms.scan import SymptomTable
from envcheck.tables.folders import rules_folder

MB = 1_000_000
LETTERS = str.maketrans("0123456789", "qwertyuiop")


def unlike() -> Iterator[str]:
    """Lines of a program that says something new all the time."""
    for number in itertools.count():
        one, other = (str(number * factor).translate(LETTERS) for factor in (1, 7919))
        yield f"worker {one} has loaded the shard {other} of the corpus, and its sampler is ready\n"


def own_words() -> Iterator[str]:
    """Lines made of nothing but words of the rows, in an order of their own."""
    words = sorted({word for row in SymptomTable((rules_folder(),)).messages for word in words_in(row.text)})
    choice = random.Random(1)  # noqa: S311  # the same log each time
    while True:
        yield " ".join(choice.choices(words, k=10)) + "\n"


def repeated() -> Iterator[str]:
    for step in itertools.count():
        yield f"2026-11-28 12:{step // 60 % 60:02}:{step % 60:02} step {step} loss {step / 7:.4f} lr 1e-4 tokens/s {step % 9999}\n"


LOGS = {"unlike": (unlike, 10 * MB, 2.0), "own words": (own_words, 10 * MB, 2.0), "repeated": (repeated, 200 * MB, 8.0)}


def main() -> None:
    for name, (lines, size, limit) in LOGS.items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        with tempfile.NamedTemporaryFile("w", suffix=".log") as file:
            written = 0
            for line in lines():
                written += file.write(line)
                if written >= size:
                    break
            file.flush()
            process = subprocess.Popen([sys.executable, "-m", "envcheck", "diagnose", file.name], stdout=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        cpu = usage.ru_utime + usage.ru_stime
        mark = "ok  " if cpu <= limit and usage.ru_maxrss <= 80 << 10 else "OVER"
        print(
            f"{mark} {name:9} {written / MB:.0f} MB: {cpu:.2f} s of CPU (limit {limit:g}), {usage.ru_maxrss / 1024:.0f} MiB (limit 80)",
            flush=True,
        )


if __name__ == "__main__":
    main()
