"""Whether a line of a training shows a loss or a norm that is no number any more, or beyond all numbers.

step 4 loss nan      {"step": 4, "loss": Infinity}      loss: tensor(inf, device='cuda:0')      step 5 loss 3.4028235e+38
Best val_loss: inf   val_loss (inf --> 0.32)            max_grad_norm=inf       where a search begins, and a limit that is none: healthy
"""

from __future__ import annotations

import re
from collections.abc import Collection

# A loss, by its own name or the part of it: "loss/train:", "Loss (train)", "loss_ce:", "lossD:", "train_loss ="
_LOSS = r"(?:[Ll]oss|LOSS)(?:es)?(?:[_/]?[A-Za-z]\w{0,20}| \(\w{1,20}\))?"
_MEASURE = r"norm|perplexity|ppl|nll|elbo|\b(?:r?mse|mae|cost|objective|bpb|kl|grad)"
_VALUE = re.compile(
    rf"(?P<name>{_LOSS}|(?i:{_MEASURE})|损失)[\"'\]]{{0,2}}(?:\W{{1,4}}|\x20{{1,12}})(?i:(?:is|was|became|went) )?"
    r"(?:(?:(?:np|numpy|torch|jnp)\.)?(?:tensor|array|float\d\d)\(\[?|numpy=)?"
    r"-?(?i:(?P<nan>nan\b|not a number|1?\.?#(?:QNAN|SNAN|IND|J\b))|(?P<inf>inf(?:inity|inite)?\b|1\.#INF)|(?P<none>none|null)\b)"
    r"(?P<became>\s{0,2}(?:-{1,2}>|=>|→|to\b))?|(?P<beyond>(?:[Ll]oss|LOSS)[\"'\]]{0,2}\W{1,4}"
    r"-?(?:\d(?:\.\d{1,20})?[eE]\+?(?:19|2\d|[3-9]\d)\b|\d{20,400}(?!\d)|∞|\*{4,40}|非数|(?i:undefined|overflow)\b))"
)
# Where a search for the smallest begins, and a limit.
_BOUND = re.compile(
    r"(?:\b|_)(?:best|min(?:imum)?|max(?:imum)?|init(?:ial)?|lowest|prev(?:ious)?|old|last|ref|clip(?:ping)?)"
    r"(?:[ _./-](?:\w{1,12}[ _./-])?)?$",
    re.IGNORECASE,
)
_BEFORE = 32  # characters in which that word stands
# Only the loss that is trained by has to be there at each step.
_OF_TRAINING = re.compile(r"(?<!\w)(?<!val )(?<!eval )(?<!test )(?<!dev )(?<!best )(?:train(?:ing)?[_ ])?$", re.IGNORECASE)
_STEP = re.compile(r"\b(?:step|epoch|iter(?:ation)?|global_step)\W{1,4}\d|^[{\s]{0,3}[\"'](?:\w{1,10}_)?loss\b", re.IGNORECASE)
_COLUMN = re.compile(r"\btrain nan\b|\bnan\b.{0,120}\d%\||\bnan iterations: {1,8}[1-9]|\b[Ll]oss (?:is|became|went) not a number")
_FINITE_LOSS = re.compile(r"\bloss[\"']?\W{1,4}\d{1,12}(?!\d)", re.IGNORECASE)
_HUGE = re.compile(r"[eE]\+?(?:19|[2-9]\d)|\d{20}|∞|\*{4}|非数|#J|undefined|overflow")
_WORDS = frozenset({"nan", "inf", "infinity", "infinite", "qnan", "snan", "ind", "none", "null", "number"})


def may_be_not_finite(text: str, words: Collection[str]) -> bool:
    """Whether a search is worth it. `words`: those of the text, in small letters."""
    return not _WORDS.isdisjoint(words) or _HUGE.search(text) is not None


def not_finite(line: str) -> bool:
    """Whether it shows one."""
    return _COLUMN.search(line) is not None or any(_counts(one, line) for one in _VALUE.finditer(line))


def _counts(found: re.Match[str], line: str) -> bool:
    before = line[max(found.start() - _BEFORE, 0) : found.start()]
    if found["beyond"] or found["nan"]:
        return True
    if found["none"]:
        return found["name"].lower() == "loss" and _STEP.search(line) is not None and _OF_TRAINING.search(before) is not None
    # The first steps in half precision are skipped while the scale of the loss is looked for: the loss itself is finite there.
    of_gradients = found["name"].lower() in ("norm", "grad") and _FINITE_LOSS.search(line) is not None
    return not (found["became"] or of_gradients or _BOUND.search(before))
