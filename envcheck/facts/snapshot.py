"""The snapshot of one machine and one interpreter: types only, no input or output.

Every section is a frozen dataclass or `Missing`. A field that is None (or an empty tuple)
means that the source does not say. Sizes are in bytes and times in seconds, as the names state;
CUDA versions are "major.minor", compute capabilities "8.9", drivers "580.95.05".
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TypeVar

from envcheck.facts.fleet import FleetFacts, FleetGroup, FleetLink, FleetSeat, FleetTrial  # noqa: F401 - the codec looks types up here
from envcheck.facts.record import field, record


class Why(Enum):
    """Why a section is missing. Absent and skipped are facts; failed and timeout are troubles."""

    ABSENT = "absent"
    FAILED = "failed"
    TIMEOUT = "timeout"
    SKIPPED = "skipped"


@record
class Missing:
    """A section that was not read; `reason` is one line, `evidence` what was printed."""

    why: Why
    reason: str
    evidence: str = ""

    @property
    def trouble(self) -> bool:
        """It could not be read; that a section is absent or was skipped is a fact."""
        return self.why in (Why.FAILED, Why.TIMEOUT)


_T = TypeVar("_T")


def read(section: _T | Missing, kind: type[_T]) -> _T:
    """A section, or where it is missing an empty one: each of its fields says nothing."""
    return kind() if isinstance(section, Missing) else section


@record
class PciDevice:
    """A display or accelerator function on the PCI bus, whether or not a driver is bound to it."""

    address: str
    vendor: str  # "10de", lower-case hex
    device: str
    driver: str | None = None  # kernel driver bound to it: "nvidia", "nouveau", "vfio-pci", "amdgpu"
    link_speed: str | None = None  # this and the next are read no more: Gpu.pcie_* say it of the GPUs that a rule is about
    link_width: int | None = None


@record
class SystemFacts:
    os: str | None = None  # "linux", "windows", "darwin"
    kernel: str | None = None
    distribution: str | None = None  # "Ubuntu 24.04.3 LTS"
    distribution_id: str | None = None  # "ubuntu"
    machine: str | None = None  # "x86_64", "aarch64", "arm64"
    glibc: str | None = None  # "2.39"; None on musl, macOS, Windows
    libc: str | None = None  # "glibc", "musl"
    cpu_model: str | None = None
    cpu_vendor: str | None = None
    cpu_flags: tuple[str, ...] = ()  # of interest only: sse4_2 avx avx2 fma avx512f amx_tile asimd sve
    cpu_flags_read: bool = False  # cpu_flags was really read: a flag not in it is not there
    cpu_count: int | None = None
    cpu_affinity: int | None = None
    cpu_limit: float | None = None  # cgroup quota in cores
    memory_bytes: int | None = None
    memory_available_bytes: int | None = None
    memory_limit_bytes: int | None = None  # cgroup
    macos_version: str | None = None
    wsl: int | None = None  # 1 or 2
    jetson: str | None = None  # L4T release, "36.4.3"
    virtualization: str | None = None
    pci_gpus: tuple[PciDevice, ...] = ()
    uptime_seconds: float | None = None
    iommu: bool | None = None  # an IOMMU translates device addresses (not "iommu=pt", not off)
    acs: bool | None = None  # PCIe bridges redirect peer-to-peer traffic (ACSCtl ReqRedir+)
    date: str | None = None  # day of the snapshot in UTC, "2026-11-27"
    time: str | None = None  # time of day in UTC, "21:20:05"
    suspends: int | None = None  # times the machine slept since boot: /sys/power/suspend_stats/success
    path_left_out: tuple[str, ...] = ()  # of root's PATH: entries into which others can put a program; "" is the working folder


@record
class CacheFolder:
    """A cache folder on a network file system. `lock`: "ok", "none" (two processes got it), "refused", "hang", "readonly" (not tried)."""

    variable: str  # "HF_HOME", set or not
    path: str
    filesystem: str = ""  # "nfs4", "lustre"
    options: str = ""
    lock: str = "readonly"
    error: str = ""


@record
class FullFolder:
    """A folder for temporary files that took no more when a check ended, before what the check had written there was removed."""

    path: str
    error: str  # of the system: "No space left on device", "Disk quota exceeded"
    free_bytes: int | None = None
    total_bytes: int | None = None
    free_files: int | None = None  # None where the file system does not count them
    stopped: bool = False  # the check could not go on


@record
class LimitsFacts:
    """Resource limits of this process; None is unlimited where `*_read` is true."""

    open_files_soft: int | None = None
    open_files_hard: int | None = None
    memlock_soft_bytes: int | None = None
    memlock_hard_bytes: int | None = None
    memlock_read: bool = False  # then memlock None means unlimited
    processes_soft: int | None = None
    group_tasks: int | None = None  # processes and threads in the control group that has the least room for more
    group_tasks_limit: int | None = None  # pids.max of that group; None: no group has a limit, or none can be seen
    stack_soft_bytes: int | None = None
    address_space_bytes: int | None = None  # ulimit -v
    data_bytes: int | None = None  # ulimit -d
    cpu_seconds: int | None = None  # of each process: ulimit -t
    shm_bytes: int | None = None
    shm_free_bytes: int | None = None
    shm_requested_bytes: int | None = None  # what a trial allocation asked for: less than is said to be free
    shm_allocated_bytes: int | None = None  # and what it really got
    shm_error: str | None = None
    tmp_free_bytes: int | None = None
    full_folder: FullFolder | None = None
    refused_calls: tuple[str, ...] = ()  # "connect: Operation not permitted": by a filter; asked for where a check has failed
    caches: tuple[CacheFolder, ...] = ()  # those on network file systems


class ToolStatus(Enum):
    OK = "ok"
    ABSENT = "absent"
    FAILED = "failed"  # answered with an error of its own
    TIMEOUT = "timeout"
    CRASHED = "crashed"  # killed by a signal
    UNREADABLE = "unreadable"  # exit 0, but not what it should print
    SKIPPED = "skipped"


@record
class ToolAnswer:
    """How one source answered: nvidia-smi, NVML."""

    status: ToolStatus = ToolStatus.SKIPPED
    code: int | None = None  # exit status or NVML return code
    signal: str | None = None  # "SIGSEGV"
    message: str = ""  # its own words, first lines
    seconds: float | None = None
    path: str | None = None


@record
class Reading:
    """What one source said of the driver."""

    source: str  # "/sys/module/nvidia/version", "NVML", "nvidia-smi --query-gpu", "nvidia-smi banner"
    driver: str | None = None
    cuda: str | None = None


@record
class Xid:
    """One NVIDIA Xid line of the kernel log."""

    code: int
    bus_id: str | None = None
    text: str = ""
    seconds_ago: float | None = None


@record
class DriverFacts:
    """The NVIDIA kernel driver and its management interfaces; Missing(ABSENT) if there is no sign of one."""

    version: str | None = None  # of the loaded kernel module if it is known, else what NVML or smi say
    source: str | None = None
    cuda: str | None = None  # newest CUDA that the user-mode driver offers
    library_version: str | None = None  # of libnvidia-ml / nvidia-smi on disk
    flavour: str | None = None  # "open" or "proprietary"
    module_loaded: bool | None = None
    nouveau: bool | None = None
    nvml: ToolAnswer = ToolAnswer()
    smi: ToolAnswer = ToolAnswer()
    readings: tuple[Reading, ...] = ()
    device_nodes: tuple[str, ...] | None = None  # names below /dev: "nvidia0", "nvidiactl", "nvidia-uvm"
    closed_nodes: tuple[str, ...] = ()  # those of GPUs that this process may not open
    gpu_count_proc: int | None = None  # directories in /proc/driver/nvidia/gpus
    cuda_state: str | None = None  # nvidia-smi's word where the CUDA version should be: "N/A" (no libcuda found), "ERR!"
    xids: tuple[Xid, ...] = ()
    kernel_messages: tuple[str, ...] = ()  # other NVRM complaints of this boot: "API mismatch", "RmInitAdapter failed"
    fabric_manager: str | None = None  # "running", "stopped", "absent"
    windows_version: str | None = None  # of a Windows driver seen through WSL


@record
class GpuProcess:
    pid: int
    name: str | None = None
    memory_bytes: int | None = None
    type: str | None = None  # "C" compute, "G" graphics, "C+G"; None if the source lists compute processes only


@record
class Gpu:
    index: int
    name: str | None = None
    uuid: str | None = None
    bus_id: str | None = None
    compute_capability: str | None = None
    compute_capability_source: str | None = None  # "NVML", "nvidia-smi", "table" (from the product name)
    memory_bytes: int | None = None
    memory_used_bytes: int | None = None
    memory_free_bytes: int | None = None
    mig: bool | None = None
    mig_devices: tuple[str, ...] = ()  # UUIDs, or profile names where there are no UUIDs
    ecc: bool | None = None
    ecc_uncorrected_volatile: int | None = None
    ecc_uncorrected_aggregate: int | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    retired_pages_pending: bool | None = None
    compute_mode: str | None = None  # "Default", "Exclusive_Process", "Prohibited"
    throttle_reasons: int | None = None  # NVML clocks event reasons bit mask
    pcie_generation: int | None = None
    pcie_generation_max: int | None = None
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    nvlinks_active: int | None = None  # None: no NVLink, or not asked
    nvlink_peers: dict[str, int] = field(default_factory=dict)  # active links by what is at their other end: "switch", a bus id
    fabric_state: str | None = None  # "Completed", "In Progress", "Not Started", "N/A"
    fabric_status: str | None = None
    temperature_celsius: float | None = None
    power_watts: float | None = None
    power_limit_watts: float | None = None
    sm_clock_mhz: float | None = None
    sm_clock_max_mhz: float | None = None
    utilization_percent: float | None = None
    driver_model: str | None = None  # "WDDM", "TCC", "MCDM"
    recovery_action: str | None = None
    processes: tuple[GpuProcess, ...] = ()
    error: str | None = None  # why this device could not be read: "GPU is lost"


@record
class GpuTrouble:
    """What a source said of one GPU in place of an answer."""

    source: str  # "NVML", "nvidia-smi"
    text: str  # its own words: "Insufficient Permissions"
    code: int | None = None  # nvmlReturn_t
    call: str | None = None  # the query that was answered so; None: the GPU itself could not be opened
    index: int | None = None
    bus_id: str | None = None


@record
class GpusFacts:
    """The NVIDIA GPUs of the host that this process may open, in the order of nvidia-smi (PCI bus order)."""

    devices: tuple[Gpu, ...] = ()
    source: str | None = None
    lost: tuple[str, ...] = ()  # machine's words on GPUs that are on the bus but do not answer
    troubles: tuple[GpuTrouble, ...] = ()  # errors of single GPUs, those that are closed to this process included
    topology: str | None = None  # nvidia-smi topo -m


@record
class CudaDriverFacts:
    """What libcuda itself says, asked in a child. Missing(ABSENT) if there is no libcuda.so.1."""

    library_path: str | None = None
    init_code: int | None = None  # CUresult of cuInit
    driver_version: str | None = None  # cuDriverGetVersion, "13.0"
    device_count: int | None = None
    device_count_code: int | None = None
    candidates: tuple[str, ...] = ()  # every libcuda.so.1 on the loader's way, first one first
    is_stub: bool | None = None
    is_compat: bool | None = None  # from a cuda-compat package
    devices: tuple[Device, ...] = ()  # visible devices as libcuda lists them; no kernel is run on them


@record
class Nvcc:
    path: str
    version: str | None = None  # "12.8"
    release: str | None = None  # "12.8.93"
    source: str | None = None  # "PATH", "CUDA_HOME", "/usr/local/cuda", "conda"
    error: str | None = None


@record
class ToolkitFacts:
    nvccs: tuple[Nvcc, ...] = ()
    cuda_home: str | None = None  # what torch.utils.cpp_extension would take
    cuda_home_source: str | None = None  # "CUDA_HOME", "CUDA_PATH", "nvcc on PATH", "/usr/local/cuda"
    cuda_home_exists: bool | None = None
    nvcc: Nvcc | None = None  # the nvcc below cuda_home
    gcc: str | None = None  # version of the host compiler that nvcc would take
    gcc_path: str | None = None
    clang: str | None = None
    ninja: str | None = None  # this and the next are asked no more: nothing that trains a wheel needs them
    cmake: str | None = None
    compiler: str | None = None  # command that Triton would take: CC, gcc, clang


@record
class VisibilityFacts:
    """Raw values of the variables that hide devices (None = unset), and CUDA's reading of the first."""

    cuda_visible_devices: str | None = None
    cuda_device_order: str | None = None
    nvidia_visible_devices: str | None = None
    hip_visible_devices: str | None = None
    rocr_visible_devices: str | None = None
    ze_affinity_mask: str | None = None
    selected: tuple[int, ...] | None = None  # indices into gpus.devices; None = not worked out
    stopped_at: str | None = None  # the entry at which CUDA stops reading


@record
class ContainerFacts:
    """Missing(ABSENT) outside a container."""

    runtime: str | None = None  # "docker", "podman", "containerd", "apptainer", "lxc", "enroot"
    kubernetes: bool | None = None
    cuda_requirement: str | None = None  # NVIDIA_REQUIRE_CUDA
    cuda_version: str | None = None  # CUDA_VERSION of the image
    driver_capabilities: str | None = None  # NVIDIA_DRIVER_CAPABILITIES
    image: str | None = None
    nvidia_runtime: bool | None = None  # signs of the NVIDIA container toolkit or CDI
    command: tuple[str, ...] = ()  # that started it, where a text gives it: "apptainer", "shell", "x.sif"


@record
class Interface:
    name: str
    up: bool | None = None
    loopback: bool = False
    addresses: tuple[str, ...] = ()
    mtu: int | None = None


@record
class InfinibandPort:
    device: str
    port: int
    state: str | None = None
    link_layer: str | None = None
    rate: str | None = None


@record
class NetworkFacts:
    hostname: str | None = None
    addresses: tuple[str, ...] = ()  # what the host name resolves to
    resolve_error: str | None = None
    full_name: str | None = None  # what socket.getfqdn makes of the host name, where that is another: torchrun's MASTER_ADDR
    full_name_addresses: tuple[str, ...] | None = None  # () = it does not resolve; None = not asked, or no answer in time
    localhost: tuple[str, ...] | None = None  # what that name resolves to; () = nothing; None = not asked, or no answer in time
    resolve_seconds: float | None = None
    reverse_seconds: float | None = None  # for the name of an own address, which a TCPStore asks for each client
    interfaces: tuple[Interface, ...] = ()
    infiniband: tuple[InfinibandPort, ...] = ()
    local_port_first: int | None = None  # of those that the kernel takes for connections (net.ipv4.ip_local_port_range)
    local_port_last: int | None = None
    peermem: bool | None = None  # nvidia_peermem loaded
    variables: dict[str, str] = field(default_factory=dict)  # NCCL_* GLOO_* UCX_* FI_* TORCH_NCCL_*
    nccl_conf: dict[str, str] = field(default_factory=dict)  # what /etc/nccl.conf and ~/.nccl.conf set beyond that


@record
class RankReading:
    """What one launcher's variables say of this process; `complete` if they suffice to form a group."""

    launcher: str  # as LauncherFacts.launcher
    rank: int | None = None
    world_size: int | None = None
    local_rank: int | None = None
    local_world_size: int | None = None
    node_rank: int | None = None
    nodes: int | None = None
    complete: bool = False
    unreadable: tuple[str, ...] = ()  # "RANK=abc": variables that hold no number


@record
class LaunchCommand:
    """A command that starts processes, the lines that ask a scheduler for them, or a call in code, as a text gives it.

    None: the text does not say, or leaves it to a variable.
    """

    launcher: str  # "torchrun", "accelerate", "deepspeed", "srun", "mpirun", "sbatch", "python", …: facts/launch_flags.py
    words: tuple[str, ...] = ()  # as they are written, without the assignments in front; of a call in code "nprocs=4"
    variables: dict[str, str] = field(default_factory=dict)  # set in front of it, or exported before
    each: int | None = None  # processes that it starts on a node
    tasks: int | None = None  # that it starts in all
    nodes: int | None = None
    node_rank: int | None = None
    gpus: int | None = None  # that each node, or each pod, gets
    gpus_per_task: int | None = None
    port: str | None = None
    program: str | None = None  # the script, or the module of -m
    inside: int | None = None  # which of the commands starts this one in each of its tasks
    beside: bool = False  # "&" stands behind it: it runs beside the next one


@record
class LauncherFacts:
    """Rank variables and the scheduler. Missing(ABSENT) if none is set."""

    launcher: str | None = None  # "torchrun", "slurm", "openmpi", "mpich", "jsrun", "ray", "kubeflow"
    scheduler: str | None = None  # "slurm", "lsf", "pbs", "kubernetes"
    rank: int | None = None
    world_size: int | None = None
    local_rank: int | None = None
    master_addr: str | None = None
    master_addr_resolves: tuple[str, ...] | None = None  # () = it does not; None = not asked, or no answer in time
    master_addr_error: str | None = None
    master_port: str | None = None
    master_port_owner: str | None = None  # who listens there on this host
    nodes: int | None = None
    variables: dict[str, str] = field(default_factory=dict)
    readings: tuple[RankReading, ...] = ()  # every launcher that left a trace; the one that counts first
    ranks_started: int | None = None  # of the whole job, where something counted them
    rank_claims: tuple[str, ...] = ()  # "pid 812 (python train.py)": all that have this rank on this host, if there are several
    commands: tuple[LaunchCommand, ...] = ()  # what a text says was started, in its order
    init_method: str | None = None  # "env://", "file:///tmp/x": how a text says that the ranks meet
    start_method: str | None = None  # of multiprocessing, as a text says: "spawn"


@record
class RocmFacts:
    """Missing(ABSENT) where there is no AMD GPU and no ROCm."""

    version: str | None = None
    gfx: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    kfd: bool | None = None  # /dev/kfd exists
    kfd_access: bool | None = None  # and may be opened
    render_access: bool | None = None
    groups: tuple[str, ...] = ()
    driver_loaded: bool | None = None
    driver_version: str | None = None
    gfx_override: str | None = None  # HSA_OVERRIDE_GFX_VERSION


@record
class XpuFacts:
    """Missing(ABSENT) where there is no Intel GPU."""

    names: tuple[str, ...] = ()
    driver: str | None = None  # "i915", "xe"
    level_zero: str | None = None  # loader path or version
    compute_runtime: str | None = None
    render_access: bool | None = None


@record
class MpsFacts:
    """Missing(ABSENT) off macOS."""

    macos: str | None = None
    chip: str | None = None
    apple_silicon: bool | None = None
    rosetta: bool | None = None  # an x86_64 interpreter on Apple silicon


@record
class PythonFacts:
    """The target interpreter."""

    executable: str | None = None
    version: str | None = None
    implementation: str | None = None  # "cpython", "pypy"
    free_threaded: bool | None = None
    bits: int | None = None
    platform: str | None = None  # sysconfig.get_platform()
    prefix: str | None = None
    environment: str | None = None  # "venv", "virtualenv", "conda", "uv", "pixi", "poetry", "system", "tool" (of uv tool or pipx)
    environment_path: str | None = None
    chosen_because: str | None = None  # why this interpreter is the target
    has_pip: bool | None = None
    has_conda_meta: bool | None = None
    uv: bool | None = None  # pyvenv.cfg says uv
    externally_managed: bool | None = None
    user_site: str | None = None
    user_site_enabled: bool | None = None
    pythonpath: str | None = None
    purelib: str | None = None
    sys_path: tuple[str, ...] = ()
    include_python_h: bool | None = None
    shadowing: tuple[str, ...] = ()  # files or folders that hide torch or the standard library
    variables: dict[str, str] = field(default_factory=dict)  # LD_LIBRARY_PATH LD_PRELOAD PYTORCH_* CUDA_* PIP_* UV_*
    working_folder_gone: str | None = None  # the folder in which it was started, if that was deleted
    no_site: bool | None = None  # started with -S: no site-packages
    torch_for_another_python: str | None = None  # site-packages of this prefix for another minor version, with a torch in it
    index_url: str | None = None  # configured package index, if any


@record
class Distribution:
    name: str  # normalized: "nvidia-cudnn-cu12"
    version: str | None = None  # with the build that a companion's version.py states: "0.28.0+cu130"
    location: str | None = None
    installer: str | None = None  # "pip", "uv", "conda"
    build: str | None = None  # conda build string
    channel: str | None = None
    direct_url: str | None = None
    built_for: str | None = None  # xformers: the torch that it was compiled with, "2.10.0+cu128"
    foreign_tag: str | None = None  # of a wheel for another Python or machine than the target's: "cp312-cp312-manylinux_2_28_aarch64"


@record
class Unmet:
    """A requirement of an installed distribution that the installed set does not meet."""

    distribution: str
    requirement: str
    installed: str | None = None  # None: nothing of that name is there


@record
class PackagesFacts:
    """Distributions of the target that bear on torch, from metadata alone."""

    distributions: tuple[Distribution, ...] = ()
    duplicates: tuple[str, ...] = ()  # names with more than one distribution on sys.path
    leftovers: tuple[str, ...] = ()  # "~orch" folders, folders without metadata
    unmet: tuple[Unmet, ...] = ()
    overwritten: tuple[str, ...] = ()  # "nvidia/nccl/lib/libnccl.so.2: nvidia-nccl-cu12, nvidia-nccl-cu13"
    damaged: tuple[str, ...] = ()  # files that are not there or end early: "torch/lib/libshm.so (torch)", "… (numpy): 4096 of 9000 bytes"

    def version(self, name: str) -> str | None:
        """Version of the first distribution of this normalized name on sys.path."""
        for row in self.distributions:
            if row.name == name:
                return row.version
        return None


class ImportStatus(Enum):
    OK = "ok"
    ERROR = "error"  # raised
    CRASHED = "crashed"  # died by a signal
    EXITED = "exited"  # ended the interpreter
    TIMEOUT = "timeout"
    SKIPPED = "skipped"
    NOT_TORCH = "not_torch"  # a module of that name that is not PyTorch


@record
class ImportFailure:
    type: str = ""  # "ImportError"
    text: str = ""
    signal: str | None = None
    exit_code: int | None = None
    stack: str = ""  # last frames
    stderr: str = ""
    # What the process did in the last `watched_seconds` of an import that did not come back; None = not known
    watched_seconds: float | None = None
    cpu_seconds: float | None = None
    read_bytes: int | None = None
    page_faults: int | None = None  # pages that came from storage
    state: str | None = None  # of the process, as the kernel has it: "S", "R", "D"


@record
class TorchFacts:
    """The torch of the target. Missing(ABSENT) if there is no distribution and no importable module.

    version, cuda, hip, xpu and path are read from metadata and torch/version.py without importing;
    the rest is None unless `import_status` is OK.
    """

    version: str | None = None  # "2.14.1+cu130"
    cuda: str | None = None
    hip: str | None = None
    xpu: str | None = None
    path: str | None = None
    git_version: str | None = None
    debug: bool | None = None
    cpu_build: bool | None = None  # neither CUDA, ROCm, XPU nor macOS
    conda: bool | None = None
    import_status: ImportStatus = ImportStatus.SKIPPED
    import_seconds: float | None = None
    import_failure: ImportFailure | None = None
    dynamo_failure: ImportFailure | None = None  # of torch._dynamo, which DDP and the optimizers import
    import_warnings: tuple[str, ...] = ()
    import_noise: bool = False  # wrote to stdout
    arch_list: tuple[str, ...] | None = None  # "sm_90", "compute_120", "gfx942"
    cxx11_abi: bool | None = None
    config: str | None = None
    nccl: str | None = None  # version torch was built for
    nccl_loaded: str | None = None
    cudnn: str | None = None
    cudnn_loaded: str | None = None
    libraries: tuple[str, ...] = ()  # shared libraries really loaded
    cuda_home: str | None = None


@record
class BackendsFacts:
    """Backend availability as torch states it; the communication backends included."""

    cuda: bool | None = None  # torch.backends.cuda.is_built()
    cudnn: bool | None = None
    cusparselt: bool | None = None
    mps: bool | None = None
    mps_built: bool | None = None
    xpu: bool | None = None
    mkl: bool | None = None
    mkldnn: bool | None = None
    openmp: bool | None = None
    distributed: bool | None = None
    nccl: bool | None = None
    gloo: bool | None = None
    mpi: bool | None = None
    ucc: bool | None = None
    xccl: bool | None = None


@record
class Device:
    """One visible device of torch and the result of a kernel on it."""

    index: int
    kind: str = "cuda"
    name: str | None = None
    uuid: str | None = None
    compute_capability: str | None = None
    memory_bytes: int | None = None
    memory_free_bytes: int | None = None
    kernel: str | None = None  # "ok", "failed", "wrong", "unknown", None = not asked
    kernel_error: str | None = None  # the error, or why it is unknown
    seconds: float | None = None


@record
class DevicesFacts:
    """torch.cuda (or hip, xpu, mps) asked in a child of the agent."""

    available: bool | None = None
    count: int | None = None
    devices: tuple[Device, ...] = ()
    warnings: tuple[str, ...] = ()
    error: str | None = None
    error_code: int | None = None  # the CUDA code in the text, where there is one
    nvml_check: bool = False  # PYTORCH_NVML_BASED_CUDA_CHECK=1: `available` came from NVML only


class LiveStatus(Enum):
    PASS = "pass"  # noqa: S105
    FAIL = "fail"
    HANG = "hang"
    INCONCLUSIVE = "inconclusive"
    SKIPPED = "skipped"


@record
class Stage:
    name: str
    seconds: float | None = None
    status: str = "ok"  # "ok", "failed", "hang", "wrong", "entered", "skipped"
    detail: str = ""
    began_seconds: float | None = None  # since the first rank of its arm entered its first stage


@record
class RankFacts:
    rank: int
    pid: int | None = None
    last_stage: str | None = None
    stages: tuple[Stage, ...] = ()
    error: str = ""
    exit_code: int | None = None
    signal: str | None = None
    stack: str = ""
    stderr: str = ""

    @property
    def died_of(self) -> str | None:
        """The signal that ended it from outside. One that hung has no error, and its SIGKILL was the check's own."""
        return self.signal if self.error else None


@record
class Arm:
    """One trial with a named change: the control arm, or one rung of the transport ladder."""

    name: str  # "gloo-loopback", "gloo-as-is", "nccl", "nccl-p2p-off"
    backend: str
    device: str  # "cpu", "cuda"
    world_size: int
    status: LiveStatus
    reason: str = ""
    seconds: float | None = None
    ranks: tuple[RankFacts, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    part: str = ""  # of `--live full`: "collectives", "training", "launchers", "wire"; the quick check and the ladder have none


@record
class Insight:
    """What an analysis of the evidence says of an arm that failed or hung."""

    arm: str
    source: str  # "stacks", "gloo", "NCCL log", "NCCL diagnostics", "NCCL RAS", "Flight Recorder"
    text: str


@record
class NcclDiagnostics:
    """The report of NCCL_RUN_DIAGNOSTICS=1. `tested` None: not one pair of GPUs was tested."""

    tested: int | None = None  # peer accesses
    passed: int | None = None
    edges: tuple[str, ...] = ()  # failed ones: "rank 0 -> rank 1 over PHB: write mismatch"
    outliers: tuple[str, ...] = ()  # network bandwidths off the median
    troubles: tuple[str, ...] = ()  # the check itself failed


@record
class WirePoint:
    """all_reduce of one size. GB are 10^9 bytes; busbw = algbw x 2(n-1)/n."""

    size_bytes: int
    seconds: float  # one call, the median of several, of the slowest rank
    algbw_gb_s: float
    busbw_gb_s: float


@record
class PeerCopy:
    """A copy from one visible GPU to another."""

    source: int
    target: int
    gb_s: float


@record
class HostCopy:
    """Copies between pinned host memory and one GPU."""

    device: int
    to_device_gb_s: float
    from_device_gb_s: float | None = None


@record
class WireFacts:
    """Bandwidths as `--live full` measured them."""

    backend: str
    device: str  # "cpu", "cuda"
    world_size: int
    points: tuple[WirePoint, ...] = ()  # rising sizes
    flat: bool = False  # the last sizes brought nothing more
    host: tuple[HostCopy, ...] = ()
    peers: tuple[PeerCopy, ...] = ()
    troubles: tuple[str, ...] = ()  # what could not be measured


@record
class LiveFacts:
    status: LiveStatus = LiveStatus.SKIPPED
    reason: str = ""
    backend: str | None = None
    world_size: int | None = None
    start_method: str | None = None
    start_reason: str | None = None  # why ranks were not forked where they usually are: "CUDA is initialised by the import itself"
    ranks: tuple[RankFacts, ...] = ()
    stages: tuple[str, ...] = ()
    arms: tuple[Arm, ...] = ()
    not_proved: tuple[str, ...] = ()
    insights: tuple[Insight, ...] = ()
    nccl_diagnostics: NcclDiagnostics | None = None
    wire: WireFacts | None = None


WARNED = "warned"  # the variant of a warning that no row knows: only the source file that printed it says what it is about


@record
class TextEvidence:
    """Lines of a log, traceback or kernel log that a symptom matched (`diagnose`, ranks' stderr)."""

    source: str
    text: str
    rule: str  # the rule id that the symptom names
    symptom: str = ""
    values: dict[str, str] = field(default_factory=dict)  # named groups of the pattern
    quoted: bool = False  # stands in source code, a list of changes or a question: nobody says that it was printed
    message: str = ""  # the row of the table that the text matched
    variant: str = ""  # which case of the rule the row speaks of
    confidence: str = ""  # "likely" where the row alone proves nothing
    second: bool = False  # the row names another rule first


@record
class SymptomsFacts:
    matches: tuple[TextEvidence, ...] = ()


@record
class Expectation:
    """One demand of `--expect` that is not met: "gpus>=8", "4". Without `found`, `reason` says what is not here or was not read."""

    expected: str
    found: str = ""
    reason: str = ""


@record
class ExpectationsFacts:
    """What the user demanded of the snapshot, compared. Missing(SKIPPED) if nothing was demanded."""

    failed: tuple[Expectation, ...] = ()
    undecided: tuple[Expectation, ...] = ()  # demands on facts that are not known
    met: tuple[str, ...] = ()
    backend: str | None = None  # the process group backend that `--backend` named
    ranks: int | None = None  # the processes that `--nproc` asked for; of `all`, as many as there are visible GPUs


@record
class AskedFacts:
    """What commands and programs in a text ask for. Missing(SKIPPED) where there is no text; a run here asks nobody."""

    cuda: str | None = None  # the line that asks for CUDA: a requirement, an index of wheels, a device of a program
    device: int | None = None  # the CUDA device that a program asks for
    requirements: tuple[str, ...] = ()  # of torch and its companions, as they were given to pip or conda
    commands: tuple[str, ...] = ()  # of pip and conda; they may have been carried out


_NOT_READ = Missing(Why.SKIPPED, "not read")


@record
class Snapshot:
    """All sections of one run. The field names are those by which checks ask for them."""

    system: SystemFacts | Missing = _NOT_READ
    limits: LimitsFacts | Missing = _NOT_READ
    driver: DriverFacts | Missing = _NOT_READ
    gpus: GpusFacts | Missing = _NOT_READ
    cuda_driver: CudaDriverFacts | Missing = _NOT_READ
    toolkit: ToolkitFacts | Missing = _NOT_READ
    visibility: VisibilityFacts | Missing = _NOT_READ
    container: ContainerFacts | Missing = _NOT_READ
    network: NetworkFacts | Missing = _NOT_READ
    launcher: LauncherFacts | Missing = _NOT_READ
    rocm: RocmFacts | Missing = _NOT_READ
    xpu: XpuFacts | Missing = _NOT_READ
    mps: MpsFacts | Missing = _NOT_READ
    python: PythonFacts | Missing = _NOT_READ
    packages: PackagesFacts | Missing = _NOT_READ
    torch: TorchFacts | Missing = _NOT_READ
    backends: BackendsFacts | Missing = _NOT_READ
    devices: DevicesFacts | Missing = _NOT_READ
    live: LiveFacts | Missing = _NOT_READ
    symptoms: SymptomsFacts | Missing = _NOT_READ
    expectations: ExpectationsFacts | Missing = _NOT_READ
    asked: AskedFacts | Missing = _NOT_READ
    fleet: FleetFacts | Missing = _NOT_READ

    @property
    def absent(self) -> frozenset[str]:
        """The sections that are known not to exist."""
        sections = {name: getattr(self, name) for name in SECTIONS}
        return frozenset(name for name, section in sections.items() if isinstance(section, Missing) and section.why is Why.ABSENT)


# Section of a snapshot → its facts, each of which can be made empty: "system: SystemFacts | Missing" → SystemFacts.
SECTIONS: Mapping[str, type] = {name: globals()[kind.partition(" ")[0]] for name, kind in Snapshot.__annotations__.items()}
