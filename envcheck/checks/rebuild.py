"""How a compiled package is installed again for the torch that is there: by its own page, from its index, or compiled here."""

from __future__ import annotations

import re

from envcheck.engine.intents import Install, Intent, Manual
from envcheck.facts.snapshot import PackagesFacts, TorchFacts
from envcheck.tables.versions import minor, release

PYG_NAMES = ("pyg-lib", "torch-scatter", "torch-sparse", "torch-cluster", "torch-spline-conv")
OF_PYG = "torch-scatter or another of PyG's compiled packages"

# Packages that their pages have installed from elsewhere than PyPI, or with words of their own, by the name of their module.
_BY_PAGE = {
    # https://mmcv.readthedocs.io/en/latest/get_started/installation.html
    "mmcv": ("python -m pip uninstall -y mmcv mmcv-full mmcv-lite", "python -m pip install -U openmim", "mim install mmcv"),
    # https://detectron2.readthedocs.io/en/latest/tutorials/install.html
    "detectron2": (
        "python -m pip install --force-reinstall --no-deps --no-cache-dir --no-build-isolation 'git+https://github.com/facebookresearch/detectron2.git'",
    ),
    # https://github.com/facebookresearch/pytorch3d/blob/main/INSTALL.md
    "pytorch3d": (
        "python -m pip install --force-reinstall --no-deps --no-cache-dir --no-build-isolation 'git+https://github.com/facebookresearch/pytorch3d.git@stable'",
    ),
    # https://github.com/NVIDIA/apex#from-source
    # https://github.com/NVIDIA/MinkowskiEngine#installation
    "MinkowskiEngine": (
        "python -m pip install --no-build-isolation --no-cache-dir --force-reinstall --no-deps 'git+https://github.com/NVIDIA/MinkowskiEngine'",
    ),
    # https://github.com/NVlabs/tiny-cuda-nn#pytorch-extension
    "tinycudann": (
        "python -m pip install --no-build-isolation --no-cache-dir 'git+https://github.com/NVlabs/tiny-cuda-nn/#subdirectory=bindings/torch'",
    ),
    # https://github.com/NVlabs/nvdiffrast
    "nvdiffrast": ("python -m pip install --no-build-isolation --no-cache-dir 'git+https://github.com/NVlabs/nvdiffrast.git'",),
    # https://github.com/graphdeco-inria/gaussian-splatting: extensions out of its own folder
    "diff_gaussian_rasterization": (
        "git submodule update --init --recursive",
        "python -m pip install --no-build-isolation --no-cache-dir --force-reinstall --no-deps"
        " ./submodules/diff-gaussian-rasterization ./submodules/simple-knn",
    ),
    # https://github.com/traveller59/spconv#install: a distribution for each CUDA
    "spconv": (
        "python -m pip list    # uninstall each spconv and cumm that it shows",
        "python -m pip install spconv-cu120    # a torch for CUDA 12",
        "python -m pip install spconv-cu118    # a torch for CUDA 11",
    ),
    # https://k2-fsa.github.io/k2/installation/from_wheels.html: a release for each torch and CUDA
    "k2": ("python -m pip install k2==VERSION -f https://k2-fsa.github.io/k2/cuda.html    # of that page, the one named for your torch",),
    "apex": (
        "git clone https://github.com/NVIDIA/apex",
        "APEX_CPP_EXT=1 APEX_CUDA_EXT=1 python -m pip install -v --no-build-isolation --no-cache-dir --force-reinstall ./apex",
    ),
}
_PART_OF = {
    "amp_C": "apex", "apex_C": "apex", "syncbn": "apex", "fused_layer_norm_cuda": "apex", "nvdiffrast_plugin": "nvdiffrast",
    "MinkowskiEngineBackend": "MinkowskiEngine", "diff_surfel_rasterization": "diff_gaussian_rasterization",
    "simple_knn": "diff_gaussian_rasterization", "SpconvOps": "spconv", "_k2": "k2",
}  # fmt: skip
_BUILT_AS_PAGE = "Install the package as its page says: a build for the torch that is installed, made by the toolkit of torch's CUDA."


def by_its_page(library: str, torch: TorchFacts) -> tuple[Intent, ...]:
    """How a package is built again whose file or module this is: "mmcv._ext", "/home/u/detectron2/detectron2/_C.so"."""
    parts = re.split(r"[/\\.\s]+", library)
    name = next((_PART_OF.get(part, part) for part in parts if _PART_OF.get(part, part) in _BY_PAGE), None)
    if name is None and _OF_DGL & {part.lower() for part in parts}:
        return _dgl(torch)
    return (Manual(_BUILT_AS_PAGE, commands=_BY_PAGE[name]),) if name else ()


_OF_DGL = {"dgl", "graphbolt"}
_DGL = (
    "DGL's library is compiled for one torch and one CUDA each, and its last releases are for torch 2.1 to 2.4. Take DGL from the folder"
    " of its index that is named for this torch and CUDA; where there is none, take a torch that has one, in an environment of its own."
)


def _dgl(torch: TorchFacts) -> tuple[Intent, ...]:
    """https://www.dgl.ai/pages/start.html: folders torch-2.1 to torch-2.4, each with cu118 and cu121."""
    series, folder = minor(torch.version), "cu118" if (torch.cuda or "12").startswith("11") else "cu121"
    known = series if series and (2, 1) <= series <= (2, 4) else None
    index = f"https://data.dgl.ai/wheels/torch-{known[0]}.{known[1]}/{folder}/repo.html" if known else ""
    again = f"python -m pip install --upgrade --force-reinstall --no-deps dgl -f {index}"
    other = (
        "python -m pip install torch==2.1.2 --index-url https://download.pytorch.org/whl/cu121",
        "python -m pip install --force-reinstall dgl -f https://data.dgl.ai/wheels/torch-2.1/cu121/repo.html    # for torch 2.1",
    )
    return (Manual(_DGL, commands=(again, "python -m pip list    # torch and dgl") if known else other),)


# A package of compiled operators, by its module, and the package that names the release of it that it was written for.
_USED_BY = {
    "sgl_kernel": ("sgl-kernel", "'sglang[all]'"),
    "flashinfer": ("flashinfer-python", "vllm    # or sglang[all]: the one that runs"),
}


def with_its_user(library: str) -> tuple[Intent, ...]:
    """Both again in one step, so that the pin of the one brings the other."""
    module = library.partition(".")[0]
    name, user = _USED_BY.get(module, (module.replace("_", "-"), ""))
    text = "Let the package that imports it bring the release that it names, in place of the one that is there."
    if not user:
        return (Manual(text, commands=(f"python -m pip show {name}", f"python -m pip install --upgrade --force-reinstall {name}")),)
    steps = (f"python -m pip show {name}", f"python -m pip uninstall -y {name}", f"python -m pip install --upgrade {user}")
    return (Manual(text, commands=steps),)


def from_pyg(torch: TorchFacts, cuda: object, names: tuple[str, ...]) -> tuple[Intent, ...]:
    """From PyG's own index, which has a folder for each torch and CUDA, or compiled here."""
    known, tag = release(torch.version), str(cuda or torch.cuda or "").replace(".", "")
    index = f"https://data.pyg.org/whl/torch-{known}+{f'cu{tag}' if tag else 'cpu'}.html" if known and (tag or torch.cpu_build) else ""
    note = "the wheel for this torch and CUDA" if index else "compiled here; its wheels by torch and CUDA: https://data.pyg.org/whl/"
    flags = ("--find-links", index) if index else ("--no-build-isolation", "--no-cache-dir")
    names = names if index else tuple(name for name in names if name != "pyg-lib") or names  # of which PyPI has no sources
    return (Install(names, reinstall=True, note=note, flags=flags),)


def package_of(library: str, packages: PackagesFacts) -> str:
    """What pip calls the package of a module or file: of "xformers._C" its first part, of "exllamav2_ext" what is known or installed,
    else PACKAGE: a bare module may be anybody's own extension.
    """
    module, _, rest = re.split(r"[/\\]", library)[-1].partition(".")
    inside = re.fullmatch(r"(?!lib)[a-z]\w{1,40}", module) and rest and not re.match(r"(?:cpython|abi3|cp\d|so|pyd|dll)\b", rest)
    name = module.replace("_", "-")
    return _CALLED.get(module) or (name if inside or packages.version(name) else "PACKAGE")


# Distributions that are called otherwise than their modules.
_CALLED = {
    "libpyg": "pyg-lib",
    "selective_scan_cuda": "mamba-ssm", "mamba_ssm": "mamba-ssm", "causal_conv1d_cuda": "causal-conv1d", "causal_conv1d": "causal-conv1d",
    "flash_attn_2_cuda": "flash-attn", "exllamav2_ext": "exllamav2", "exllamav2": "exllamav2", "exllama_kernels": "auto-gptq",
    "exllamav2_kernels": "auto-gptq", "autogptq_cuda_64": "auto-gptq", "autogptq_cuda_256": "auto-gptq", "awq_ext": "autoawq-kernels",
    "auto_gptq": "auto-gptq", "auto-awq kernels": "autoawq-kernels", "nerfacc": "nerfacc",
    "transformer_engine_torch": "transformer_engine[pytorch]", "transformer_engine_extensions": "transformer_engine[pytorch]",
    "llama_cpp": "llama-cpp-python", "natten": "natten", "gsplat": "gsplat", "sageattention": "sageattention",
}  # fmt: skip
_PYG_OF_FILE = {name.replace("-", "_"): name for name in PYG_NAMES}
_IN_PACKAGES = re.compile(r"(?:site|dist)-packages[/\\]([A-Za-z0-9][A-Za-z0-9_]{1,60})[/\\.]")


def again(library: str, torch: TorchFacts, cuda: object) -> tuple[Intent, ...]:
    """The package that a file or module belongs to, installed anew for this torch: from PyG's own index, or compiled here."""
    found = _IN_PACKAGES.search(library)
    module = found[1] if found else library
    if (of_pyg := _PYG_OF_FILE.get(module.partition(".")[0])) is not None:
        return from_pyg(torch, cuda, (of_pyg,))
    flags = ("--no-build-isolation", "--no-cache-dir")
    note = "compiled here, against the torch that is installed"
    if called := _CALLED.get(module.partition(".")[0]):
        return (Install((called,), reinstall=True, note=note, flags=flags),)
    own = found and re.fullmatch(r"[a-z0-9_]+", module) and not module.startswith("torch")
    return (Install((module.replace("_", "-"),), reinstall=True, note=note, flags=flags),) if own else ()
