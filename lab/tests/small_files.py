"""Small files in the formats of the image sets, and a server on loopback that hands out files."""

from __future__ import annotations

import gzip
import hashlib
import io
import pickle
import struct
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]


def images(n: int, *shape: int, seed: int = 0) -> Bytes:
    return np.random.default_rng(seed).integers(0, 256, (n, *shape), dtype=np.uint8)


def idx_bytes(array: Bytes) -> bytes:
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def idx_files(n_train: int = 40, n_test: int = 20) -> dict[str, bytes]:
    """The four files of MNIST with so many images; label i % 10 for image i."""
    files = {}
    for part, n, seed in (("train", n_train, 0), ("t10k", n_test, 1)):
        files[f"{part}-images-idx3-ubyte"] = idx_bytes(images(n, 28, 28, seed=seed))
        files[f"{part}-labels-idx1-ubyte"] = idx_bytes(np.arange(n, dtype=np.uint8) % 10)
    return files


def write(folder: Path, files: dict[str, bytes], *, packed: bool = False) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = folder / (f"{name}.gz" if packed else name)
        path.write_bytes(gzip.compress(content, mtime=0) if packed else content)
    return folder


def old_pickle(data: Bytes, labels: dict[str, list[int]]) -> bytes:
    """A dict as Python 2 wrote it for CIFAR: protocol 2, byte strings, an array with its old module names."""
    out = io.BytesIO()
    out.write(b"\x80\x02}q\x01(")
    for key, values in labels.items():
        out.write(_short(key) + b"](" + b"".join(b"K" + bytes([value]) for value in values) + b"e")
    out.write(_short("filenames") + b"](" + _short("a_s_000001.png") * 2 + b"e")
    out.write(_short("data") + b"cnumpy.core.multiarray\n_reconstruct\nq\x07cnumpy\nndarray\nq\x08K\x00\x85U\x01b\x87R")
    out.write(b"(K\x01" + b"".join(b"J" + struct.pack("<i", n) for n in data.shape) + b"\x86")
    out.write(b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89")
    out.write(b"T" + struct.pack("<i", data.size) + data.tobytes() + b"tbu.")
    return out.getvalue()


def _short(text: str) -> bytes:
    return b"U" + bytes([len(text)]) + text.encode()


def new_pickle(content: Any, protocol: int = 4) -> bytes:
    return pickle.dumps(content, protocol=protocol)


def tar_gz(members: dict[str, bytes], *extra: tarfile.TarInfo) -> bytes:
    """The archive, with the same bytes at any time: neither its header nor its members hold the current second."""
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", mtime=0) as packed, tarfile.open(fileobj=packed, mode="w") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        for info in extra:
            archive.addfile(info)
    return out.getvalue()


def md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


class FileServer:
    """``files`` by name; ``cut``: names of which only the first half is sent before the line goes dead."""

    def __init__(self, files: dict[str, bytes], url: str) -> None:
        self.files, self.url = files, url
        self.cut: set[str] = set()
        self.asked: list[str] = []


@contextmanager
def serve(files: dict[str, bytes]) -> Iterator[FileServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.removeprefix("/")
            shared.asked.append(name)
            content = shared.files.get(name)
            if content is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[: len(content) // 2] if name in shared.cut else content)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing on stderr."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    shared = FileServer(files, f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield shared
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
