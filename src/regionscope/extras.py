"""Optional libraries: imported when they are used, with an error that says how to install them."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from regionscope.errors import MissingLibrary


def data_frame(columns: Mapping[str, Any]) -> Any:
    """A pandas DataFrame with these columns, or an ``InputError`` that says how to install pandas."""
    return import_extra("pandas", who="to_pandas() needs", library="pandas", extra="notebook").DataFrame(columns)


def import_extra(module: str, *, who: str, library: str, extra: str, otherwise: str = "") -> Any:
    """The module, or a ``MissingLibrary`` error that names the extra it comes with.

    who: the start of the sentence up to its verb, such as "digits needs"; otherwise: its end, such as what works
    without the library.

    >>> import_extra("no.such.module", who="This needs", library="nothing", extra="lab")
    Traceback (most recent call last):
    regionscope.errors.MissingLibrary: This needs nothing, which is not installed. Run: pip install 'regionscope[lab]'
    """
    try:
        return importlib.import_module(module)
    except ImportError as missing:
        raise MissingLibrary(
            f"{who} {library}, which is not installed. Run: pip install 'regionscope[{extra}]'{otherwise}"
        ) from missing
