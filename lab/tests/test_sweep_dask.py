"""A cluster on this machine is the user's own."""

from __future__ import annotations

import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest

from regionscope import cluster
from regionscope.errors import InputError


class NoCryptography:
    """Stands for ``distributed.Security`` where the package cryptography is missing."""

    def __init__(self, **options: object) -> None:
        self.options = options

    @staticmethod
    def temporary() -> None:
        raise ImportError("cryptography")


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    pytest.importorskip("distributed")
    with ExitStack() as stack:
        yield cluster.open_client("local:1", stack)


@pytest.mark.slow
def test_a_local_cluster_works(client: Any) -> None:
    assert client.submit(pow, 2, 3).result(timeout=60) == 8


@pytest.mark.slow
def test_nobody_connects_without_the_key(client: Any) -> None:
    workers = client.scheduler_info(n_workers=-1)["workers"]
    addresses = [client.scheduler.address, *workers, *(worker["nanny"] for worker in workers.values())]
    assert len(addresses) == 3
    for address in addresses:
        place = urlsplit(address)
        assert (place.scheme, place.hostname) == ("tls", "127.0.0.1")
        with pytest.raises((ssl.SSLError, ConnectionError)):
            talk_without_a_key(place.hostname, place.port)


def talk_without_a_key(host: str | None, port: int | None) -> bytes:
    """What the other side answers to somebody who has no certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection((host, port), timeout=20) as raw, context.wrap_socket(raw) as secured:
        return secured.recv(1)


def test_the_key_of_openssl_is_the_users_and_goes_away() -> None:
    with ExitStack() as stack:
        made = cluster._only_ours(NoCryptography, stack)
        key, certificate = (Path(made.options[f"tls_worker_{part}"]) for part in ("key", "cert"))
        assert made.options["require_encryption"] is True
        assert key.parent.stat().st_mode & 0o077 == 0
        assert "PRIVATE KEY" in key.read_text()
        ssl.create_default_context(cafile=str(certificate)).load_cert_chain(certificate, key)
    assert not key.parent.exists()


def test_without_a_way_to_make_a_key_there_is_no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> None:
        raise FileNotFoundError("openssl")

    monkeypatch.setattr(
        cluster, "subprocess", SimpleNamespace(run=missing, CalledProcessError=subprocess.SubprocessError)
    )
    with ExitStack() as stack, pytest.raises(InputError, match="cryptography or the program openssl"):
        cluster._only_ours(NoCryptography, stack)
