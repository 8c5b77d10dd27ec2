"""What a shell printed when somebody looked around: device nodes, groups, limits, modules, the PCI bus, variables, a container's command.

    $ ls -l /dev/nvidia* /dev/kfd                                  $ ulimit -a
    crw-rw-rw- 1 root root   195, 255 Nov 27 10:00 /dev/nvidiactl   open files                          (-n) 1024
    crw-rw---- 1 root render 235,   0 Nov 27 10:00 /dev/kfd         max locked memory           (kbytes, -l) 65536
    $ id                                                           $ df -h /dev/shm
    uid=1000(a) gid=1000(a) groups=1000(a),44(video)               shm              64M     0   64M   0% /dev/shm
    $ lspci | grep -i nvidia                                       $ lsmod | grep nvidia
    01:00.0 VGA compatible controller: NVIDIA Corporation AD102    nvidia_uvm           1540096  0

Only what such a print states becomes a fact: a list that may be a part of one says nothing of what is not in it.
"""

from __future__ import annotations

import re

from envcheck.facts.secrets import mask_words
from envcheck.facts.snapshot import PciDevice
from envcheck.facts.whole_numbers import whole_number
from envcheck.read.found import Found, Notes
from envcheck.read.launch_commands import split
from envcheck.read.variables import LAUNCHER, NETWORK, VISIBILITY

SHM = "/dev/shm"  # noqa: S108  # a word in other people's output
LINE = 2000  # longer lines are none of these

# "crw-rw-rw- 1 root root 195, 0 Nov 27 10:00 /dev/nvidia0"
_NODE = re.compile(
    r"c(?P<mode>[rwxst-]{9})[.+@]?\s{1,9}\d{1,4}\s{1,9}(?P<owner>[\w.+-]{1,40})\s{1,9}(?P<group>[\w.+-]{1,40})\s{1,9}\d{1,4},\s{0,9}\d{1,7}"
    r"\s[^/]{1,60}(?P<path>/dev/(?:nvidia[\w-]{0,24}|kfd|dri/renderD\d{1,4}))\s{0,4}$"
)
_NO_NODE = re.compile(r"(?:cannot access|cannot open) ['\"]?(?P<path>/dev/kfd)['\"]?: No such file")
# "uid=1000(a) gid=1000(a) groups=1000(a),44(video),109(render)"
_ID = re.compile(r"uid=(\d{1,10})(?:\(([\w.\\+-]{1,60})\))? gid=\d{1,10}\S{0,80} groups=(\S{1,2000})")
_GROUP = re.compile(r"\d{1,10}\(([\w .\\+-]{1,60})\)")
# "open files                          (-n) 1024", "max locked memory       (kbytes, -l) unlimited"
_LIMIT = re.compile(r"[a-z][a-z -]{4,40}\((?:[\w -]{1,20}, )?-(?P<flag>[nlus])\)\s{1,9}(?P<value>unlimited|\d{1,20})\s{0,4}$")
_ASKED = re.compile(r"(?:[^\n]{0,80}[$#%>] ?)?ulimit -(?:[HS])?(?P<flag>[nlus])\s{0,4}$")
_VALUE = re.compile(r"(?P<value>unlimited|\d{1,20})\s{0,4}$")
# "shm   64M  0  64M  0% /dev/shm", "tmpfs  65536  0  65536  0% /dev/shm" (df counts in KiB)
_DF = re.compile(
    r"(?:shm|tmpfs|none|devtmpfs|udev)\s{1,40}(?P<size>[\d.]{1,14})(?P<unit>[KMGT]?)(?:i?B?)\s{1,40}[\d.]{1,14}[KMGT]?(?:i?B?)"
    r"\s{1,40}(?P<free>[\d.]{1,14})(?P<free_unit>[KMGT]?)(?:i?B?)\s{1,40}\d{1,3}%\s{1,9}/dev/shm\s{0,4}$"
)
_MOUNT = re.compile(r"\S{1,40} on /dev/shm type tmpfs \([^)\n]{0,200}\bsize=(?P<size>\d{1,14})(?P<unit>[kmg]?)\b")
# "nvidia  56823808  1234 nvidia_uvm,nvidia_modeset": name, bytes, users
_MODULE = re.compile(
    r"(?P<name>nvidia|nvidia_uvm|nvidia_peermem|nv_peer_mem|nouveau)\s{1,40}\d{4,10}\s{1,9}-?\d{1,6}(?:\s{1,4}[\w,-]{1,400})?\s{0,4}$"
)
# "nvidia/535.183.01, 6.5.0-35-generic, x86_64: installed", "nvidia, 470.57.02, 5.4.0-80-generic, x86_64: added"
_DKMS = re.compile(
    r"nvidia(?:-\w{1,12})?(?:/|, )(?P<version>\d{3}\.[\d.]{2,8}\d)(?:, (?P<kernel>[\w.+-]{3,60}))?"
    r"(?:, \w{3,12})?: (?P<state>added|built|installed)\b"
)
# "0000:01:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330] (rev a1)"
_PCI = re.compile(
    r"(?P<address>(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) "
    r"(?:VGA compatible controller|3D controller|Display controller|Processing accelerators)"
    r"(?: \[(?:03|12)[0-9a-f]{2}\])?: (?P<maker>NVIDIA Corporation|Advanced Micro Devices, Inc\.|Intel Corporation)"
    r"[^\n]{0,300}?(?:\[(?P<vendor>10de|1002|8086):(?P<device>[0-9a-f]{4})\][^\n]{0,40})?$"
)
_PCI_DRIVER = re.compile(r"\s{1,8}Kernel driver in use: ([\w-]{2,30})\s{0,4}$")
_VENDORS = {"NVIDIA Corporation": "10de", "Advanced Micro Devices, Inc.": "1002", "Intel Corporation": "8086"}
# "CUDA_VISIBLE_DEVICES=0,1", "declare -x NCCL_DEBUG="INFO""
_VARIABLE = re.compile(r"(?:declare -x |export )?(?P<name>[A-Z_][A-Z0-9_]{1,80})=(?P<value>[^\n]{0,1500})$")
_OF_INTEREST = (
    *VISIBILITY, *NETWORK, *LAUNCHER, "RANK", "WORLD_SIZE", "NODE_RANK", "NVIDIA_", "CUDA_", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTORCH_",
    "TORCH_", "TRITON_", "HSA_", "OMP_NUM_THREADS", "PYTHONPATH", "PYTHONNOUSERSITE", "VLLM_",
)  # fmt: skip
_OF_A_SHELL = frozenset({"PATH", "HOME", "PWD", "SHLVL", "USER", "SHELL", "TERM", "LANG", "HOSTNAME", "LOGNAME", "OLDPWD"})
_RUN = re.compile(r"(?:[^\n$#]{0,80}[$#] ?)?(?:sudo )?(?P<tool>docker|podman|nerdctl)(?: container)? run (?P<rest>[^\n]{4,1900})$")


# "singularity shell --bind /data x.sif", "$ apptainer exec x.sif python train.py"
_APPTAINER = re.compile(
    r"(?<![A-Za-z0-9_./-])(?P<tool>singularity|apptainer)(?: -\S{1,20}){0,2} (?P<verb>exec|run|shell) (?P<rest>[^\n;|&`]{3,600})"
)
_IMAGE = re.compile(r"\S{1,200}\.(?:sif|simg|img|sqsh)\b|(?:docker|library|oras|shub)://\S{1,200}")


def read_shell(text: str) -> Found | None:
    """The facts of such prints; None where there is none."""
    notes = Notes("shell")
    lines = text.split("\n")
    _nodes(notes, lines, text)
    for number, line in enumerate(lines, 1):
        if len(line) <= LINE:
            _line(notes, line, number, lines[number] if number < len(lines) else "")
    if "controller" in text or "accelerators" in text:
        _pci(notes, lines)
    if "PATH=" in text:
        _environment(notes, lines)
    if " run " in text:
        _container(notes, lines)
    if "singularity " in text or "apptainer " in text:
        _apptainer(notes, lines)
    return notes.found()


def _line(notes: Notes, line: str, number: int, following: str) -> None:
    bare = line.strip()
    if "-" in bare and (match := _LIMIT.match(bare)):
        _limit(notes, match["flag"], match["value"], line, number)
    elif "ulimit -" in bare and (asked := _ASKED.match(bare)) and (match := _VALUE.match(following.strip())):
        _limit(notes, asked["flag"], match["value"], f"{bare}: {match['value']}", number)
    elif bare.endswith(SHM) or f"on {SHM} type" in bare:
        if match := _DF.match(bare):
            notes.put("limits.shm_bytes", _bytes(match["size"], match["unit"] or "K"), line, number)
            notes.put(
                "limits.shm_free_bytes", _bytes(match["free"], match["free_unit"] or ("" if match["free"] == "0" else "K")), line, number
            )
        elif match := _MOUNT.match(bare):
            notes.put("limits.shm_bytes", _bytes(match["size"], match["unit"]), line, number)
    elif bare.startswith(("nvidia", "nv_", "nouveau")):
        if match := _MODULE.match(bare):
            _module(notes, match["name"], line, number)
        elif match := _DKMS.match(bare):
            notes.put("other.dkms nvidia", f"{match['version']} for {match['kernel'] or 'every kernel'}: {match['state']}", line, number)


def _limit(notes: Notes, flag: str, value: str, line: str, number: int) -> None:
    count = whole_number(value)
    if flag == "n":
        notes.put("limits.open_files_soft", count, line, number)
    elif flag == "u":
        notes.put("limits.processes_soft", count, line, number)
    elif flag == "s":
        notes.put("limits.stack_soft_bytes", None if count is None else count * 1024, line, number)
    elif "limits.memlock_read" not in notes.facts:
        notes.put("limits.memlock_soft_bytes", None if count is None else count * 1024, line, number)
        notes.put("limits.memlock_read", True, line, number)


def _bytes(number: str, unit: str) -> int | None:
    if number.count(".") > 1 or not number.strip("."):
        return None
    return int(float(number) * 1024 ** " KMGT".index(unit.upper() or " "))


def _module(notes: Notes, name: str, line: str, number: int) -> None:
    if name == "nouveau":
        notes.put("other.module nouveau", "loaded", line, number)
    elif name in ("nvidia_peermem", "nv_peer_mem"):
        notes.put("network.peermem", True, line, number)
    else:
        notes.put("driver.module_loaded", True, line, number)


# ------------------------------------------------------------------ device nodes and who may open them


def _nodes(notes: Notes, lines: list[str], text: str) -> None:
    if "/dev/" not in text:
        return
    found = [(match, line, number) for number, line in enumerate(lines, 1) if len(line) <= LINE and (match := _NODE.match(line.strip()))]
    nvidia = [(match["path"][5:], line, number) for match, line, number in found if match["path"].startswith("/dev/nvidia")]
    names = tuple(dict.fromkeys(name for name, _, _ in nvidia))
    if "nvidiactl" in names:  # the list of a pattern: one that a person cut would not hold it
        notes.put("driver.device_nodes", names, nvidia[0][1], nvidia[0][2])
        notes.put("driver.module_loaded", True, nvidia[0][1], nvidia[0][2])
    who = _ID.search(text) if "uid=" in text else None
    groups = tuple(_GROUP.findall(who[3])) if who else ()
    kfd = [(match, line, number) for match, line, number in found if match["path"] == "/dev/kfd"]
    if kfd:
        notes.put("rocm.kfd", True, *kfd[0][1:])
        notes.put("rocm.groups", groups or None, *kfd[0][1:])
        notes.put("rocm.kfd_access", _may_open(kfd[0][0], who, groups), *kfd[0][1:])
        render = [(match, line, number) for match, line, number in found if match["path"].startswith("/dev/dri/render")]
        if render:
            notes.put("rocm.render_access", all(_may_open(match, who, groups) for match, _, _ in render) if who else None, *render[0][1:])
        return
    for number, line in enumerate(lines, 1):
        if "/dev/kfd" in line and len(line) <= LINE and _NO_NODE.search(line):
            notes.put("rocm.kfd", False, line, number)


def _may_open(node: re.Match[str], who: re.Match[str] | None, groups: tuple[str, ...]) -> bool | None:
    """Whether this user may read and write a node: by its mode, owner and group. None where `id` was not printed and it matters."""
    mode = node["mode"]
    if mode[6:8] == "rw":
        return True
    if who is None:
        return None
    if who[1] == "0" or (mode[:2] == "rw" and who[2] == node["owner"]):
        return True
    return mode[3:5] == "rw" and node["group"] in groups


# ------------------------------------------------------------------ lspci, env, docker run


def _pci(notes: Notes, lines: list[str]) -> None:
    cards: dict[str, tuple[PciDevice, int]] = {}
    last = ""
    for number, line in enumerate(lines, 1):
        if len(line) > LINE:
            continue
        if match := _PCI.match(line.strip()):
            last = match["address"] if match["address"].count(":") == 2 else f"0000:{match['address']}"
            vendor = match["vendor"] or _VENDORS[match["maker"]]
            cards.setdefault(last, (PciDevice(last, vendor, match["device"] or ""), number))
        elif last and (match := _PCI_DRIVER.match(line)):
            card, at = cards[last]
            cards[last] = (PciDevice(card.address, card.vendor, card.device, match[1]), at)
        elif line[:1] not in (" ", "\t"):
            last = ""
    if cards:
        first = min(number for _, number in cards.values())
        notes.put("system.pci_gpus", tuple(card for card, _ in cards.values()), lines[first - 1], first)


def _environment(notes: Notes, lines: list[str]) -> None:
    """The print of `env`: variables in a row, those of a shell among them; a line or two is advice or a script."""
    row: list[tuple[re.Match[str], int]] = []
    for number, line in enumerate([*lines, ""], 1):
        match = _VARIABLE.match(line.strip()) if len(line) <= LINE else None
        if match:
            row.append((match, number))
            continue
        if len(row) >= 6 and len({one["name"] for one, _ in row} & _OF_A_SHELL) >= 3:
            for one, at in row:
                if one["name"].startswith(_OF_INTEREST):
                    notes.put(f"env.{one['name']}", one["value"].strip("'\""), one[0], at)
        row = []


def _container(notes: Notes, lines: list[str]) -> None:
    """The options of the first command that starts a container for work; `nvidia-smi` in one is a try of the toolkit."""
    for number, line in enumerate(lines, 1):
        if " run " not in line:
            continue
        whole, at = line.rstrip(), number
        while whole.endswith("\\") and at < len(lines) and len(whole) < LINE:
            whole, at = " ".join((whole[:-1] + lines[at]).split()), at + 1
        match = _RUN.match(whole.strip())
        if match is None or "nvidia-smi" in match["rest"] or "hello-world" in match["rest"]:
            continue
        _options(notes, match["tool"], match["rest"].split(), whole, number)
        return


def _apptainer(notes: Notes, lines: list[str]) -> None:
    """The first command that starts an image, where none of the text hands the GPU over."""
    found = [(match, line, number) for number, line in enumerate(lines, 1) if len(line) <= LINE and (match := _APPTAINER.search(line))]
    found = [(match, line, number) for match, line, number in found if _IMAGE.search(match["rest"])]
    if not found or any(word in line for line in lines for word in ("--nv", "--rocm", "APPTAINER_NV", "SINGULARITY_NV")):
        return
    match, line, number = found[0]
    words, _ = split(match["rest"])
    image = next((at for at, word in enumerate(words) if _IMAGE.fullmatch(word)), len(words) - 1)
    started = words if words[image + 1 : image + 2] in ([], *([name] for name in _PROGRAMS)) else words[: image + 1]
    notes.put("container.runtime", "apptainer", line, number)
    notes.put("container.command", (match["tool"], match["verb"], *mask_words(started)), line, number)


_PROGRAMS = ("python", "python3", "bash", "sh", "torchrun", "accelerate", "nvidia-smi")  # else what follows the image is a sentence


_SIZE = re.compile(r"(\d{1,12}(?:\.\d)?)([bkmg]?)b?$", re.IGNORECASE)


def _options(notes: Notes, tool: str, words: list[str], line: str, number: int) -> None:
    notes.put("container.runtime", tool, line, number)
    for index, word in enumerate(words):
        name, joined, value = word.partition("=")
        if not joined:
            value = words[index + 1] if index + 1 < len(words) else ""
        value = value.strip("'\"")
        if name == "--shm-size" and (match := _SIZE.match(value)):
            unit = match[2].upper().replace("B", "")
            notes.put("limits.shm_bytes", _bytes(match[1], unit), line, number)
        elif name == "--gpus" or word in ("--runtime=nvidia", "--device=nvidia.com/gpu=all"):
            notes.put("container.nvidia_runtime", True, line, number)
        elif name == "--ulimit" and value in ("memlock=-1", "memlock=-1:-1"):
            notes.put("limits.memlock_read", True, line, number)
        elif name in ("-e", "--env") and (
            match := _VARIABLE.match(words[index + 1] if word in ("-e", "--env") and index + 1 < len(words) else value)
        ):
            notes.put(f"env.{match['name']}", match["value"].strip("'\""), line, number)
