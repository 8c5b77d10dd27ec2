"""Whether the last word of a text is one of a program that goes well: only then is all well for what else the text shows.

step 400 loss 1.12                                            goes on
Training finished.                                            ended as it should
| 0  NVIDIA A100 … |, Libc version: 2.35, $ python train.py   neither: what stands before them counts
salloc: Job allocation 12 has been revoked.                   none of these, so nobody knows

No list holds all words for a failure. The last line of a program that failed is one of them as a rule, and is known as such, or as nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from envcheck.read.failed import says_failure
from envcheck.symptoms.course import COUNTED_NONE

# Of tables and lists that nvidia-smi, rocm-smi, nvcc and NCCL print
_TABLE = (
    r"\s{0,40}[|+](?:[^a-z]|$)|[\s=+|:*_~-]{1,400}$|={5,80} ?\w[\w ]{0,60}={5,80}$|GPU (?:[0-9A-F]{8}:| {1,20}NODE)|\s{1,40}GPU0\s"
    r"|\s{0,8}(?:GPU|NIC)\d{1,3}\b[\s\w:,/#-]{0,400}$|GPU \d{1,3}: .{1,120}\(UUID|(?:NIC )?(?:Legend|Devices|Processes):$"
    r"|\s{0,8}(?:X|[A-Z]{1,4}#?)\s{1,6}= |\d{1,3}\s{1,20}\d{1,3}\s{1,20}0x"
    r"|(?:\d{1,2}, ?)?(?:NVIDIA|Tesla|GeForce|Quadro|name|index|gpu)\b[^,\n]{0,60}(?:,[\w.+% /()\[\]:-]{1,60}){1,30}$"
    r"|\s{0,20}[A-Z][\w()./#-]{0,40}(?: [\w()./#-]{1,40}){0,6}\s{1,50}: \S|(?:\s{4,40}[A-Z]|\s{0,40}vGPU )[\w ()/-]{1,60}$"
    r"|[A-Z][a-z]{2} [A-Z][a-z]{2} {1,2}\d{1,2} [\d:]{8} (?:\w{1,5} )?\d{4}$"
    r"|nvcc: NVIDIA|Copyright \(c\)|Built on |Cuda compilation tools|Build cuda_|NCCL version \d|```"
    r"|\s{0,40}(?:[{}\])]{1,3},?$|\"[\w ]{1,60}\": (?:-?\d|[{\[]|true|false|null)|\"(?!reason|message|status|state|error)[\w ]{1,60}\": \")"
)
_COMMAND = (
    r"(?:\([\w.-]{1,60}\) )?(?:[\w.-]{1,60}@[\w.-]{1,80}[: ][^$#\n]{0,120}[$#]|(?:[\w.-]{1,20})?[$%>]|\w{2,6}-\d\.\d#|#{1,6}|>>>"
    r"|In \[\d{1,4}\]:|PS [A-Z]:[^>\n]{0,120}>)(?: .*|$)"
    r"|(?:torchrun|python3?|mpirun|srun|sbatch|accelerate|deepspeed|nvidia-smi|nvcc|rocm-smi|conda|pip3?|uv|export|docker) [\w./-]"
)
_SHAPE = re.compile(rf"{_TABLE}|{_COMMAND}")
_INFORMS = re.compile(
    r".{0,80}\bNCCL INFO |.{0,80}(?:\b(?:INFO|DEBUG|TRACE|NOTICE)\b|\binfo\]|\blevel=info\b)|I\d{4} \d\d:|\[notice\] |wandb: "
    r"|WARNING: Running pip as the 'root'"
)
# What torch's collect_env prints, vLLM's, and the tools that they call
_OF_COLLECT_ENV = re.compile(
    r"(?:> ?)?\s{0,8}(?:(?!Error|Fail|Fatal|Warning|[A-Z_]{4,50}:)[A-Z][\w ()./+,-]{1,50}|cuDNN version|vLLM [\w ]{1,40}):(?: |$)"
    r"|\[(?:pip3?|conda)\] |(?:> )?/(?:usr|opt|lib)\S{1,200}$|\* |[A-Z][A-Z0-9_]{2,50}="
    r"|Collecting environment|Versions of|Linux-\d|[\w/ ]{1,30} Info$|Environment Variables$|(?:Intel|AMD|Arm)\b"
)
_WORDS_OF_IT = ("Could not collect", "Vulnerability ")  # hold what elsewhere says that something stopped
_GOES_ON = re.compile(
    r"\b(?:epoch|step|iter(?:ation)?|global_step)\b[^\n]{0,60}\bloss\b|\bloss['\"]?\s?[:=]?\s{0,3}-?\d|\b100%\|", re.IGNORECASE
)
_ENDED = re.compile(
    r"\b(?:training|trainer|fit)\b[^\n]{0,30}\b(?:finished|completed?|done|succeeded)\b(?!:? \d)|\bmax_(?:epochs|steps)=\d{1,9}`? reached"
    r"|(?:^|\s)\d{1,6} passed\b|\bexit(?:ed)? (?:code |status |with ){1,3}0(?![\w-])|^\s{0,4}(?:0|OK)$|\bexit 0$|\bCOMPLETED\s{1,9}0:0$"
    r"|一切正常|训练已完成|训练完成",
    re.IGNORECASE,
)
# The last line of many a script says so, whatever became of what it started: what stands before it counts.
_OVER = re.compile(
    r"\b(?:finished|completed?|done|success(?:ful|fully)?|succeeded|passed|saved (?:to|in|at)|all (?:well|good|fine|ok)"
    r"|early stopping)(?![\w-])",
    re.IGNORECASE,
)
_NOT_SO = re.compile(
    r"\b(?:un|in)success|\bincomplete|\bexit ?code\W{1,3}[1-9]|\b0 samples\b|\bwaiting\b|\bunstable\b|\bnot_"
    r"|\b(?:not|never|no|0 of|only|un\w{1,12}) (?:\w{1,12} )?(?:finish|complete|done|success|succeed|passed|saved)"
    r"|\b(?:lost|loss of|den(?:y|ied)|invalid|stale|time ?out|timed|nan\b|fail|crash|error|exception|hang|hung|stuck|broken|down\b"
    r"|corrupt|unable|cannot|can't|before|until|unless|except|but)|n't\b",
    re.IGNORECASE,
)
_STOPPED = re.compile(
    r"\b(?:cancel|revok|abort|kill|refus|terminat|signal|preempt|evict|drain|unreach"
    r"|errored|crash|couldn't|could not|unable|lost\b|SIG[A-Z])",
    re.IGNORECASE,
)
# A person says what was asked for, or how it is.
_PERSON = re.compile(r"\b(?:I|I'm|I've|my|My|we|We|our|me)\b")
_SENTENCE = re.compile(r"[A-Z\"'`*(#>-].{8,}\S[.:!?)`]\s*$|.{0,200}[?？]\s*$")


def last_word(tail: Sequence[str], kinds: Collection[str]) -> str:
    """The last line that is no part of a report, where it does not say that all goes well; "" where it does, or where none is there.

    `tail`: the last lines of a text without those that are known to mean no harm; `kinds`: what the text was taken for.
    """
    of_report, speaks = any("collect_env" in kind for kind in kinds), any(map(_PERSON.search, tail))
    for line in reversed(tail):
        line = line.rstrip()[:400]
        if not line:
            continue
        line = COUNTED_NONE.sub("", line)
        stopped = says_failure(line) or _STOPPED.search(line)
        well = not stopped and not _NOT_SO.search(line)
        if well and (_GOES_ON.search(line) or _ENDED.search(line)):
            return ""
        if _SHAPE.match(line) or (of_report and _OF_COLLECT_ENV.match(line) and (not stopped or any(one in line for one in _WORDS_OF_IT))):
            continue
        if stopped or not (_INFORMS.match(line) or (well and _OVER.search(line)) or (speaks and _SENTENCE.match(line))):
            return line
    return ""
