"""Values of CUDA_VISIBLE_DEVICES as they were measured on a machine with one H200."""

from __future__ import annotations

from envcheck.facts.cuda_visible_devices import Problem

UUID = "GPU-11111111-2222-3333-4444-555555555555"
OTHER = "GPU-99999999-2222-3333-4444-555555555555"
# value, what torch.cuda.is_available() said, what this module calls it
MEASURED = [
    (None, True, Problem.NONE),
    ("", False, Problem.EMPTY),
    ("0", True, Problem.NONE),
    ("-1", False, Problem.HIDDEN),
    ("7", False, Problem.OUT_OF_RANGE),
    ("7,0", False, Problem.OUT_OF_RANGE),
    ("0,7", True, Problem.TRUNCATED),
    ("0,-1", True, Problem.TRUNCATED),
    ("0,abc", True, Problem.TRUNCATED),
    ("0,,1", True, Problem.TRUNCATED),
    ("0,0", False, Problem.DUPLICATE),
    ("abc", False, Problem.UNREADABLE),
    (",0", False, Problem.UNREADABLE),
    ('"0"', False, Problem.UNREADABLE),
    ("NoDevFiles", False, Problem.HIDDEN),
    ("MIG-1", False, Problem.OUT_OF_RANGE),
    (" 0", True, Problem.NONE),
    ("0 ", True, Problem.NONE),
    ("+0", True, Problem.NONE),
    ("00", True, Problem.NONE),
    ("0x0", True, Problem.NONE),
    ("0.0", True, Problem.NONE),
    ("0;1", True, Problem.NONE),
    (UUID, True, Problem.NONE),
    ("GPU-11111111", True, Problem.NONE),
    ("GPU-", False, Problem.UNREADABLE),
    (OTHER, False, Problem.OUT_OF_RANGE),
    (f"{UUID},{UUID}", False, Problem.DUPLICATE),
]
