"""A package index and single files out of its wheels, over HTTP ranges, by the user's own pip configuration.

No wheel is downloaded: a zip keeps its list of files at its end and each file can be fetched by itself, so one file of a
900 MB wheel costs one or two MB. Every request has a deadline, and every wheel a number of bytes that may be read of it.
"""

from __future__ import annotations

import base64
import datetime
import errno
import html.parser
import http.client
import io
import json
import os
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

PYPI = "https://pypi.org/simple"
ANSWER_SECONDS = 20  # until a server says something
REQUEST_SECONDS = 120  # one request, whole
BLOCK = 64 << 10
ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"


class RegistryError(Exception):
    """The registry does not answer, or answers what cannot be used."""


class NoAnswer(RegistryError):
    """It cannot be reached, breaks off, or does not serve pieces of files."""


@dataclass(frozen=True)
class Settings:
    """Where pip asks, and how."""

    index: str = PYPI
    certificates: str | None = None  # file or folder; None = those of the system (or SSL_CERT_FILE)
    proxy: str | None = None  # None = by http_proxy, https_proxy, no_proxy


def pip_settings() -> Settings:
    """What `pip config list` says for this interpreter. Only the index itself: extra indexes and local folders hold others' builds.

    global.index-url='https://mirror.example/simple'
    :env:.cert='/etc/ssl/certs/ca-certificates.crt'
    """
    line = (sys.executable, "-m", "pip", "--no-input", "--disable-pip-version-check", "config", "list")
    try:
        text = subprocess.run(line, capture_output=True, text=True, timeout=30, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        text = ""
    said: dict[str, str] = {}
    for row in text.splitlines():
        name, equals, value = row.partition("=")
        if equals:
            said[name.strip()] = value.strip().strip("'\"")

    def option(name: str) -> str | None:
        by_environment = os.environ.get(f"PIP_{name.upper().replace('-', '_')}") or said.get(f":env:.{name}")
        return by_environment or said.get(f"download.{name}") or said.get(f"install.{name}") or said.get(f"global.{name}")

    return Settings((option("index-url") or PYPI).rstrip("/"), option("cert"), option("proxy"))


@dataclass(frozen=True)
class File:
    """One file of a project, as the index lists it."""

    name: str  # "torch-2.15.0-cp312-cp312-manylinux_2_28_x86_64.whl"
    url: str
    uploaded: datetime.date | None  # an HTML index does not say
    requires_python: str  # "" = any
    yanked: bool


class Registry:
    """One index. Safe to use from several threads."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._lock = threading.Lock()
        self.bytes_read = 0
        self.requests = 0
        self._opener = urllib.request.build_opener(*self._handlers())

    def _handlers(self) -> Iterator[urllib.request.BaseHandler]:
        place = self.settings.certificates
        folder = place is not None and os.path.isdir(place)
        context = ssl.create_default_context(cafile=None if folder else place, capath=place if folder else None)
        yield urllib.request.HTTPSHandler(context=context)
        if self.settings.proxy:
            yield urllib.request.ProxyHandler({"http": self.settings.proxy, "https": self.settings.proxy})

    def files(self, project: str) -> tuple[File, ...]:
        """Every file of a project; raises RegistryError for a project that the index does not have."""
        url = f"{self.settings.index}/{project}/"
        body, kind, base = b"", "", url
        for block, headers, final in self._get(url, {"Accept": ACCEPT}, 64 << 20):
            body += block
            kind, base = headers.get("Content-Type", ""), final
        try:
            found = parse_json(body, base) if "json" in kind else parse_html(body.decode("utf-8", "replace"), base)
        except (ValueError, KeyError, TypeError) as error:
            raise RegistryError(f"{url}: not a page of an index: {error}") from error
        if not found:
            raise RegistryError(f"{url}: lists no files")
        return found

    def span(self, url: str, wanted: str, limit_bytes: int, seconds: float = REQUEST_SECONDS) -> Iterator[tuple[bytes, int, int]]:
        """Blocks of a byte range ("0-99", "-65536"), each with the offset of the range and the size of the whole file."""
        for block, headers, _ in self._get(url, {"Range": f"bytes={wanted}", "Accept-Encoding": "identity"}, limit_bytes, seconds):
            first, size = parse_content_range(headers.get("Content-Range", ""))
            if first is None or size is None:
                raise NoAnswer(f"{url}: the server does not serve ranges")
            yield block, first, size

    def _get(
        self, url: str, headers: dict[str, str], limit_bytes: int, seconds: float = REQUEST_SECONDS
    ) -> Iterator[tuple[bytes, Any, str]]:
        """Blocks of an answer, with its headers and final URL."""
        end = time.monotonic() + seconds
        plain, authorization = without_user(url)
        request = urllib.request.Request(plain, headers={**headers, **authorization, "User-Agent": "envcheck-refresh-tables"})  # noqa: S310
        if request.type not in ("http", "https"):
            raise RegistryError(f"{plain}: not an address of the web")
        with self._lock:
            self.requests += 1
        try:
            with self._open(request, end) as answer:
                read = 0
                while block := answer.read1(256 << 10):
                    read += len(block)
                    with self._lock:
                        self.bytes_read += len(block)
                    if read > limit_bytes:
                        raise RegistryError(f"{plain}: more than the {limit_bytes >> 10} KiB that may be read")
                    if time.monotonic() > end:
                        raise NoAnswer(f"{plain}: not whole after {seconds:.0f} s")
                    yield block, answer.headers, answer.url
        except (OSError, ValueError, http.client.HTTPException) as error:  # URLError, time-outs, broken connections
            raise NoAnswer(f"{plain}: {error}") from error

    def _open(self, request: urllib.request.Request, end: float) -> Any:
        """A second try where the first ended in a busy server or a broken connection."""
        for attempt in (1, 2):
            try:
                return self._opener.open(request, timeout=max(1.0, min(ANSWER_SECONDS, end - time.monotonic())))
            except urllib.error.HTTPError as error:
                error.close()
                if attempt == 2 or error.code not in (429, 500, 502, 503, 504):
                    raise
            except OSError:
                if attempt == 2 or time.monotonic() > end:
                    raise
            time.sleep(1)
        raise AssertionError("two tries")


def without_user(url: str) -> tuple[str, dict[str, str]]:
    """https://user:word@host/simple as the plain address and the header that it stands for."""
    parts = urllib.parse.urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    if not at:
        return url, {}
    word = base64.b64encode(urllib.parse.unquote(user).encode()).decode()
    return parts._replace(netloc=host).geturl(), {"Authorization": f"Basic {word}"}


def parse_json(body: bytes, base: str) -> tuple[File, ...]:
    """PEP 691 and 700.

    {"files": [{"filename": "torch-2.15.0-…", "url": "…", "requires-python": ">=3.11", "upload-time": "2026-10-28T…", "yanked": false}]}
    """
    return tuple(
        File(
            row["filename"],
            urllib.parse.urljoin(base, row["url"]),
            datetime.date.fromisoformat(row["upload-time"][:10]) if row.get("upload-time") else None,
            row.get("requires-python") or "",
            bool(row.get("yanked", False)),
        )
        for row in json.loads(body)["files"]
    )


class _Links(html.parser.HTMLParser):
    """<a href="https://…/torch-2.15.0-cp312-….whl#sha256=…" data-requires-python="&gt;=3.11" data-yanked="">…</a>"""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[dict[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.found.append(dict(attrs))


def parse_html(text: str, base: str) -> tuple[File, ...]:
    """PEP 503, what older mirrors serve."""
    links = _Links()
    links.feed(text)
    found = []
    for link in links.found:
        url = urllib.parse.urldefrag(urllib.parse.urljoin(base, link.get("href") or "")).url
        name = urllib.parse.unquote(url.rpartition("/")[2])
        found.append(File(name, url, None, link.get("data-requires-python") or "", "data-yanked" in link))
    return tuple(found)


def parse_content_range(text: str) -> tuple[int | None, int | None]:
    """(100, 5000) of "bytes 100-199/5000"."""
    kind, _, rest = text.partition(" ")
    first, _, size = rest.partition("/")
    first = first.partition("-")[0]
    return (int(first), int(size)) if kind == "bytes" and first.isdecimal() and size.isdecimal() else (None, None)


class RangeFile(io.RawIOBase):
    """A file on the registry, read piecewise; what was read stays. `limit_bytes` is what may be read of it in all."""

    def __init__(self, registry: Registry, url: str, limit_bytes: int) -> None:
        super().__init__()
        self.registry, self.url, self.limit_bytes = registry, url, limit_bytes
        self.bytes_read = 0
        self._blocks: list[tuple[int, bytes]] = []
        self._position = 0
        self.size = 0
        self._fetch(f"-{BLOCK}")  # the end, which tells the size, and is where a zip begins

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        position = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.size}[whence] + offset
        if position < 0:
            raise OSError(errno.EINVAL, "before the start")  # zipfile tries that on what is too short for a zip
        self._position = position
        return position

    def read(self, size: int = -1) -> bytes:
        first = self._position
        last = self.size if size < 0 else min(first + size, self.size)
        if first >= last:
            return b""
        if self._cached(first, last) is None:
            self._fetch(f"{first}-{min(max(last, first + BLOCK), self.size) - 1}")
        data = self._cached(first, last)
        if data is None:
            raise NoAnswer(f"{self.url}: fewer bytes than asked for")
        self._position = last
        return data

    def stream(self, first: int, length: int) -> Iterator[bytes]:
        """Bytes from `first` on in one request, that ends when the caller has seen enough. Not kept."""
        for block, _, _ in self.registry.span(self.url, f"{first}-{first + length - 1}", self.limit_bytes - self.bytes_read):
            self.bytes_read += len(block)
            yield block

    def _cached(self, first: int, last: int) -> bytes | None:
        return next((data[first - at : last - at] for at, data in self._blocks if at <= first and last <= at + len(data)), None)

    def _fetch(self, wanted: str) -> None:
        parts: list[bytes] = []
        at = 0
        for block, first, size in self.registry.span(self.url, wanted, self.limit_bytes - self.bytes_read):
            parts.append(block)
            self.bytes_read += len(block)
            at, self.size = first, size
        self._blocks.append((at, b"".join(parts)))
