"""``Registry``: the table of names behind networks, data sets and instruments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from regionscope.checks import unknown_name


class Entry(Protocol):
    """What a name stands for. ``options``: their names, each with its default or a description of it."""

    @property
    def options(self) -> Mapping[str, Any]: ...


EntryType = TypeVar("EntryType", bound=Entry)


@dataclass(frozen=True)
class Registry(Generic[EntryType]):
    """Entries by name. To add one, write a line in the table.

    kind: what an entry is, with its article, for messages. more: what a name may be beside those of the table.
    title: what messages about options call an entry.
    """

    kind: str
    entries: Mapping[str, EntryType]
    more: str = ""
    title: str = "{name}"

    def names(self) -> tuple[str, ...]:
        """The names in the order of the table."""
        return tuple(self.entries)

    def find(self, name: str) -> EntryType:
        """The entry of this name. Raises ``InputError`` for an unknown one, with the list."""
        if not isinstance(name, str) or name not in self.entries:
            raise unknown_name(self.kind, name, self.entries, more=self.more)
        return self.entries[name]

    def find_with(self, name: str, given: Iterable[str]) -> EntryType:
        """The entry of this name, if it has the given options. Raises ``InputError`` otherwise."""
        entry = self.find(name)
        check_option_names(self.title.format(name=name), given, entry.options)
        return entry


def check_option_names(name: str, given: Iterable[str], accepted: Iterable[str]) -> None:
    """Raise ``InputError`` for an option of ``name`` that is not among the accepted ones."""
    known = tuple(accepted)
    for option in given:
        if option not in known:
            raise unknown_name(f"an option of {name}", option, known)
