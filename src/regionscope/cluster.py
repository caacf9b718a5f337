"""Work on a Dask cluster: processes of this machine, or workers anywhere."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Generic, TypeVar

from torch import nn

from regionscope.errors import InputError, RegionscopeError
from regionscope.extras import import_extra
from regionscope.types import Progress

_ANSWER = 10  # seconds for the scheduler to answer
_STDLIB = sysconfig.get_path("stdlib")
_SHARDS = 4  # for each thread of a worker, so that fast workers take more of them


Answer = TypeVar("Answer")


class Shards(Generic[Answer]):
    """A function of a list, computed on the workers of a cluster; see ``open_shards``."""

    def __init__(self, client: Any, payload: bytes, join: Callable[[list[Answer]], Answer]) -> None:
        self._client, self._join = client, join
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph")
            self._payload = client.submit(bytes, payload, pure=False)  # made again where a worker dies with it

    @property
    def threads(self) -> int:
        """Number of threads of the workers that there are now, at least 1."""
        return max(1, int(sum(self._client.nthreads().values())))

    def __call__(self, items: Sequence[Any], progress: Progress | None = None) -> Answer:
        """The results of the function for the items. progress: called with the finished share of the shards."""
        size = -(-len(items) // (_SHARDS * self.threads))
        shards = [list(items[start : start + size]) for start in range(0, len(items), size)]
        futures = [self._client.submit(_call, self._payload, shard, pure=False) for shard in shards]
        try:
            for n_done, _ in enumerate(_dask().as_completed(futures), 1):
                if progress is not None:
                    progress(n_done / len(futures))
            return self._join([future.result() for future in futures])
        except Exception as error:
            if type(error).__name__ == "KilledWorker":
                raise RegionscopeError(
                    "Several Dask workers stopped at the same task, often for lack of memory. Give them more memory."
                ) from error
            raise
        finally:
            self._client.cancel(futures)


@contextmanager
def open_shards(
    function: Callable[[list[Any]], Answer], join: Callable[[list[Answer]], Answer], model: object, address: str
) -> Iterator[Shards[Answer]]:
    """A function of a list of slices that the workers of the cluster at ``address`` compute, each for some of them.

    function: of a shard of the list; it travels with its ``model`` and all else that belongs to it, also from your own
    files, so that workers need regionscope and its libraries only. join: puts the answers together. A shard whose
    worker dies is given to another one.
    """
    if not isinstance(model, nn.Module):
        raise InputError(f"Expected a torch module for dask, got {type(model).__name__}. Pass the module itself.")
    with ExitStack() as stack:
        yield Shards(open_client(address, stack), _packed(function), join)


def _packed(function: Callable[..., Any]) -> bytes:
    """The function as bytes; code outside the installed libraries is packed as it is and not by its name."""
    cloudpickle = import_extra("cloudpickle", who="dask= needs", library="Dask", extra="dask")
    modules = [module for name, module in list(sys.modules.items()) if _is_own(name, getattr(module, "__file__", None))]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        packed: bytes = cloudpickle.dumps(function)
    except Exception as error:
        raise InputError(
            f"Expected a model that can be sent to other processes, got one that cannot ({error}). Leave dask= out."
        ) from error
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)
    return packed


def _is_own(name: str, file: str | None) -> bool:
    """Whether a module is neither installed nor a part of Python or regionscope."""
    if file is None or name.split(".")[0] in ("regionscope", "__main__", "__mp_main__"):
        return False
    installed = {"site-packages", "dist-packages"} & set(Path(file).parts)
    return not installed and not file.startswith(_STDLIB)


@lru_cache(maxsize=1)
def _unpacked(payload: bytes) -> Callable[[list[Any]], Any]:
    unpack: Callable[[list[Any]], Any] = import_extra(
        "cloudpickle", who="A Dask worker needs", library="Dask", extra="dask"
    ).loads(payload)
    return unpack


def _call(payload: bytes, shard: list[Any]) -> Any:
    return _unpacked(payload)(shard)


def _dask(instead: str = "") -> Any:
    without = f", or leave dask= out{instead}."
    return import_extra("distributed", who="dask= needs", library="Dask", extra="dask", otherwise=without)


def open_client(address: str, stack: ExitStack, *, gpus: float = 0, instead: str = "") -> Any:
    """A client of the cluster at ``address`` ("tcp://host:port", "local:4"), which ``stack`` closes.

    gpus: how much of the resource GPU a task takes; 0 for none. instead: what works without Dask.
    """
    library = _dask(instead)
    local = re.fullmatch(r"local:([1-9]\d*)", address)
    if local:
        n = int(local[1])
        resources = {"GPU": 1} if gpus else None
        cluster = library.LocalCluster(
            n_workers=n,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            resources=resources,
            security=_only_ours(library.Security, stack),
        )
        return stack.enter_context(library.Client(stack.enter_context(cluster)))
    if not re.match(r"(tcp|tls|ucx|ws|wss)://", address):
        raise InputError(
            f"Expected dask= such as tcp://host:8786 or local:4, got {address!r}. "
            "Pass the address of your scheduler, or local:N for N processes of this machine."
        )
    try:
        return stack.enter_context(library.Client(address, timeout=_ANSWER))
    except (OSError, TimeoutError) as error:
        raise InputError(f"No Dask scheduler found at {address}. Start one with: dask scheduler") from error


def _only_ours(security: Any, stack: ExitStack) -> Any:
    """TLS with a key that only this user can read: whoever reaches the ports of a cluster can run code in it."""
    try:
        return security.temporary()
    except ImportError:  # without the package cryptography
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="regionscope-")))  # of mode 700
    key, certificate = str(folder / "key.pem"), str(folder / "certificate.pem")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-days", "3650", "-subj", "/CN=regionscope"]
    try:
        subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise InputError(
            "Expected the package cryptography or the program openssl, which protect the ports of a local cluster, got "
            "neither. Run: pip install cryptography, or leave dask= out."
        ) from error
    parts = {f"tls_{who}_{what}": path for who in ("client", "scheduler", "worker")
             for what, path in (("cert", certificate), ("key", key))}  # fmt: skip
    return security(require_encryption=True, tls_ca_file=certificate, **parts)
