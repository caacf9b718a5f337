"""Downloads from a server on loopback: whole, wrong, cut off, hostile, absent."""

from __future__ import annotations

import gzip
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from regionscope.errors import InputError
from regionscope_lab.config import DataSpec
from regionscope_lab.data import get, load
from regionscope_lab.data.download import DOWNLOADS
from small_files import FileServer, idx_files, md5, serve, tar_gz


def expect(name: str, files: Mapping[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let these be the published files of a data set."""
    sums = {file: md5(content) for file, content in files.items()}
    monkeypatch.setitem(DOWNLOADS, name, replace(DOWNLOADS[name], md5=sums))


CIFAR_FILES = {f"cifar-10-batches-py/{name}": name.encode() for name in (*DOWNLOADS["cifar10"].members, "readme.html")}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    """It has a small MNIST, which is the published one as long as it runs."""
    files = {f"{name}.gz": gzip.compress(content, mtime=0) for name, content in idx_files().items()}
    expect("mnist", files, monkeypatch)
    with serve(files) as running:
        yield running


def files_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_mnist_arrives_where_the_reader_looks(server: FileServer, tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    done = get("mnist", root=tmp_path, mirror=server.url, on_progress=lambda *now: told.append(now))
    assert done.fresh
    assert done.folder == tmp_path / "MNIST" / "raw"
    assert files_below(tmp_path) == sorted(f"MNIST/raw/{name}" for name in idx_files())
    assert {p.name: p.read_bytes() for p in done.folder.iterdir()} == idx_files()
    assert len(load(DataSpec(name="mnist"), root=tmp_path).train) == 40
    assert {file for file, _, _ in told} == set(DOWNLOADS["mnist"].md5)
    assert told[-1][1] == told[-1][2] == len(server.files["t10k-labels-idx1-ubyte.gz"])


def test_what_is_there_is_not_fetched_again(server: FileServer, tmp_path: Path) -> None:
    get("mnist", root=tmp_path, mirror=server.url)
    asked = len(server.asked)
    assert not get("mnist", root=tmp_path, mirror=server.url).fresh
    assert len(server.asked) == asked
    damaged = tmp_path / "MNIST/raw/train-labels-idx1-ubyte"
    damaged.write_bytes(b"")
    assert get("mnist", root=tmp_path, mirror=server.url, force=True).fresh
    assert damaged.read_bytes() == idx_files()["train-labels-idx1-ubyte"]


def test_a_wrong_sum_is_thrown_away(server: FileServer, tmp_path: Path) -> None:
    name = "train-labels-idx1-ubyte.gz"
    right = server.files[name]
    server.files[name] = gzip.compress(b"something else")
    with pytest.raises(InputError, match=f"the published md5 {md5(right)} for .*{name}, got another one"):
        get("mnist", root=tmp_path, mirror=server.url)
    assert not (tmp_path / "MNIST").exists()
    assert files_below(tmp_path / ".getting-mnist") == [
        "train-images-idx3-ubyte.gz",
        "unpacked/train-images-idx3-ubyte",
    ]
    server.files[name] = right
    server.asked.clear()
    assert get("mnist", root=tmp_path, mirror=server.url).fresh
    assert "train-images-idx3-ubyte.gz" not in server.asked  # it was whole
    assert not (tmp_path / ".getting-mnist").exists()


def test_a_line_that_goes_dead_leaves_no_file(server: FileServer, tmp_path: Path) -> None:
    server.cut.add("t10k-images-idx3-ubyte.gz")
    with pytest.raises(InputError, match=r"t10k-images-idx3-ubyte.gz could not be downloaded .*Check the network"):
        get("mnist", root=tmp_path, mirror=server.url)
    assert not (tmp_path / "MNIST").exists()
    assert not (tmp_path / ".getting-mnist" / "t10k-images-idx3-ubyte.gz").exists()
    server.cut.clear()
    assert get("mnist", root=tmp_path, mirror=server.url).fresh
    assert len(load(DataSpec(name="mnist"), root=tmp_path).test) == 20


def test_no_server_and_no_file(server: FileServer, tmp_path: Path) -> None:
    with serve({}) as gone:
        empty, closed = gone.url, gone.url
        with pytest.raises(InputError, match=r"answered 404 for http://127.*\.gz"):
            get("mnist", root=tmp_path, mirror=empty)
    for url, words in ((closed, r"\(ConnectionError\)\. Check the network"), ("ftp://x", "got 'ftp://x'")):
        with pytest.raises(InputError, match=words):
            get("mnist", root=tmp_path, mirror=url)


def test_cifar_is_unpacked_to_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tar_gz(CIFAR_FILES)
    expect("cifar10", {"cifar-10-python.tar.gz": archive}, monkeypatch)
    with serve({"cifar-10-python.tar.gz": archive}) as server:
        done = get("cifar10", root=tmp_path, mirror=f"{server.url}/")
    assert done.folder == tmp_path / "cifar-10-batches-py"
    wanted = sorted(f"cifar-10-batches-py/{name}" for name in DOWNLOADS["cifar10"].members)
    assert files_below(tmp_path) == wanted
    assert (done.folder / "data_batch_3").read_bytes() == b"data_batch_3"


def link(name: str, target: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, target
    return info


ODD_ARCHIVES = {  # name: (archive, what the error says)
    "relative-path": (
        tar_gz({**CIFAR_FILES, "../evil": b"x"}),
        r"plain files in the archive .*got '\.\./evil', which is a link, a device or a",
    ),
    "absolute-path": (tar_gz({**CIFAR_FILES, "/tmp/evil": b"x"}), "plain files in the archive .*got '/tmp/evil',"),
    "link-as-folder": (tar_gz({}, link("cifar-10-batches-py", "/tmp")), "plain files in the .*got 'cifar-10-batches-"),
    "link-as-file": (
        tar_gz(CIFAR_FILES, link("cifar-10-batches-py/test_batch", "/etc/passwd")),
        "plain files in the archive .*got 'cifar-10-batches-py/test_batch', which is a",
    ),
    "missing-files": (
        tar_gz({"cifar-10-batches-py/data_batch_1": b"x"}),
        "cifar-10-batches-py/data_batch_2, cifar-10-batches-py/data_batch_3, .*got none",
    ),
    "cut-short": (tar_gz(CIFAR_FILES)[:-40], "cannot be unpacked"),
    "plain-text": (b"no archive", "cannot be unpacked"),
}


@pytest.mark.parametrize(("archive", "sentence"), ODD_ARCHIVES.values(), ids=ODD_ARCHIVES)
def test_odd_archives_are_refused(
    tmp_path: Path, archive: bytes, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "data"
    expect("cifar10", {"cifar-10-python.tar.gz": archive}, monkeypatch)
    with serve({"cifar-10-python.tar.gz": archive}) as server, pytest.raises(InputError, match=sentence):
        get("cifar10", root=root, mirror=server.url)
    assert not (tmp_path / "evil").exists()
    assert not (root / "cifar-10-batches-py").exists()


def test_what_cannot_be_downloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    for name, root, words in (
        ("digits", tmp_path, "which is built in and needs no download"),
        ("imagenet", tmp_path, "which requires an account"),
        ("svhn", tmp_path, r"got 'svhn'\. Choose from"),
        ("mnist", tmp_path / "file", "cannot be written to"),
    ):
        with pytest.raises(InputError, match=words):
            get(name, root=root)
