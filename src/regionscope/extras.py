"""Optional libraries: imported when they are used, with an error that says how to install them."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from regionscope.errors import MissingLibrary


def data_frame(columns: Mapping[str, Any]) -> Any:
    """A pandas DataFrame with these columns, or an ``InputError`` that says how to install pandas."""
    return import_extra("pandas", who="to_pandas() needs", library="pandas", extra="notebook").DataFrame(columns)


def import_extra(
    module: str, *, who: str, library: str, extra: str, package: str = "regionscope", otherwise: str = ""
) -> Any:  # fmt: skip
    """The module, or a ``MissingLibrary`` error that names the extra it comes with.

    who: the start of the sentence up to its verb, such as "certify() needs". package: whose extra it is. otherwise: the
    end of the sentence, such as what works without the library.

    >>> import_extra("no.such.module", who="This needs", library="nothing", extra="onnx")
    Traceback (most recent call last):
    regionscope.errors.MissingLibrary: This needs nothing, which is not installed. Run: pip install 'regionscope[onnx]'
    """
    try:
        return importlib.import_module(module)
    except ImportError as missing:
        raise MissingLibrary(
            f"{who} {library}, which is not installed. Run: pip install '{package}[{extra}]'{otherwise}"
        ) from missing
