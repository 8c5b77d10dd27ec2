"""A small package index on loopback: wheels made up here, served as PyPI does, by ranges."""

from __future__ import annotations

import io
import json
import threading
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Index:
    """What the server has, and how it behaves."""

    files: dict[str, bytes] = field(default_factory=dict)  # file name -> content
    uploaded: str = "2026-12-09"
    requires_python: str = ">=3.11"
    html: bool = False  # an older mirror
    ranges: bool = True
    delay_seconds: float = 0.0
    yanked: tuple[str, ...] = ()
    url: str = ""
    asked: list[tuple[str, str]] = field(default_factory=list)  # path, Range

    def page(self, project: str) -> tuple[bytes, str]:
        names = [name for name in self.files if name.partition("-")[0].replace("_", "-") == project]
        if self.html:
            links = (
                f'<a href="/files/{name}#sha256=00" data-requires-python="{self.requires_python.replace(">", "&gt;")}">{name}</a>'
                for name in names
            )
            return f"<!DOCTYPE html><html><body>{'<br>'.join(links)}</body></html>".encode(), "text/html"
        rows = [
            {
                "filename": name,
                "url": f"/files/{name}",
                "requires-python": self.requires_python,
                "upload-time": f"{self.uploaded}T10:00:00.0Z",
                "yanked": name in self.yanked,
                "hashes": {},
            }
            for name in names
        ]
        page = {"meta": {"api-version": "1.1"}, "name": project, "files": rows}
        return json.dumps(page).encode(), "application/vnd.pypi.simple.v1+json"


@contextmanager
def serving(index: Index) -> Iterator[Index]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            index.asked.append((self.path, self.headers.get("Range", "")))
            time.sleep(index.delay_seconds)
            if self.path.startswith("/simple/"):
                body, kind = index.page(self.path.split("/")[2])
                self._answer(200, body, {"Content-Type": kind})
                return
            body = index.files[self.path.rpartition("/")[2]]
            wanted = self.headers.get("Range", "").removeprefix("bytes=")
            if not index.ranges or not wanted:
                self._answer(200, body, {})
                return
            first, _, last = wanted.partition("-")
            start, end = (int(first), min(int(last), len(body) - 1)) if first else (max(0, len(body) - int(last)), len(body) - 1)
            self._answer(206, body[start : end + 1], {"Content-Range": f"bytes {start}-{end}/{len(body)}"})

        def _answer(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            try:
                self.wfile.write(body)
            except OSError:
                return  # the reader has seen enough, which is what it is for

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    index.url = f"http://127.0.0.1:{server.server_address[1]}/simple"
    try:
        yield index
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


def wheel(project: str, version: str, requires: tuple[str, ...], more: Mapping[str, bytes] | None = None) -> bytes:
    """A wheel with METADATA and whatever else."""
    lines = ["Metadata-Version: 2.1", f"Name: {project}", f"Version: {version}", "Requires-Python: >=3.11"]
    lines += [f"Requires-Dist: {one}" for one in requires]
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in (more or {}).items():
            archive.writestr(name, content)
        archive.writestr(
            f"{project}-{version}.dist-info/METADATA", "\n".join(lines) + "\n\nLong description\nRequires-Dist: none-of-this\n"
        )
    return made.getvalue()


TORCH_REQUIRES = (
    "filelock",
    'cuda-toolkit[cublas,cudart]==13.4.9; platform_system == "Linux"',
    'nvidia-cudnn-cu13==9.27.0.1; platform_system == "Linux"',
    'triton~=3.10.0; platform_system == "Linux" and python_version < "3.16"',
    'optree>=0.13.0; extra == "optree"',
)


def torch_wheel(version: str, local: str, cuda: str | None, archs: str, cxx: int = 20) -> bytes:
    said = f"'{cuda}'" if cuda else "None"
    library = (
        bytes(range(256)) * 4000
        + b"std::string ipc_h"
        + archs.encode()
        + b"\0\0/pytorch/torch/csrc\0numpy._core.multiarray\0"
        + b"\1" * 900_000
    )
    return wheel(
        "torch",
        version,
        TORCH_REQUIRES,
        {
            "torch/version.py": f"from typing import Optional\n__version__ = '{version}+{local}'\ncuda: Optional[str] = {said}\n".encode(),
            "torch/include/ATen/ATen.h": f"#error C++{cxx} or later compatible compiler is required to use ATen.\n".encode(),
            "torch/lib/libtorch_python.so": library,
        },
    )


def torch_files(version: str, archs: str = "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120") -> dict[str, bytes]:
    """A release as PyPI has it: Linux wheels with CUDA, the others without, three Pythons on Linux."""
    x86, arm = torch_wheel(version, "cu134", "13.4", archs), torch_wheel(version, "cu134", "13.4", "sm_80 sm_90 sm_110")
    files = {}
    for python in ("cp312-cp312", "cp313-cp313", "cp313-cp313t"):
        files[f"torch-{version}-{python}-manylinux_2_28_x86_64.whl"] = x86
        files[f"torch-{version}-{python}-manylinux_2_28_aarch64.whl"] = arm
    for python in ("cp312-cp312", "cp313-cp313"):
        files[f"torch-{version}-{python}-win_amd64.whl"] = b""
        files[f"torch-{version}-{python}-macosx_14_0_arm64.whl"] = b""
    return files
