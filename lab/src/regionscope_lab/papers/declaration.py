"""What a study declares: its runs in three sizes, its items with their claims, and the module that reads the runs.

A file ``<paper>/<name>.toml`` has ``[[runs]]`` (a sweep; ``like`` starts from an earlier one, and ``desk`` and
``smoke`` hold what the smaller sizes change), ``[[item]]`` (a table, figure or theorem of the paper) and
``[printed.NAME]`` (the numbers of a table of the paper, and ``where`` they stand). The module of the same name, or of
the name in ``module``, has one function for each item, from the runs to a ``Finding``. What is computed from stored
networks, or without any, comes from ``compute`` of that module, or of the one that ``compute`` names. ``beyond`` is
declared in the same way: its items are our own questions.
"""

from __future__ import annotations

import copy
import importlib
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Literal, get_args

from regionscope.checks import unknown_name
from regionscope.errors import InputError
from regionscope_lab.config import Experiment
from regionscope_lab.papers.figures import Figure
from regionscope_lab.papers.rules import Graded
from regionscope_lab.papers.seed_table import Runs, SeedTable
from regionscope_lab.sweep.grid import Sweep, override

if TYPE_CHECKING:
    from regionscope_lab.papers.workspace import Workspace

Size = Literal["smoke", "desk", "full"]
SIZES: tuple[Size, ...] = get_args(Size)
PAPERS = {
    "li2025": "Li et al. 2025, Understanding Nonlinear Implicit Bias via Region Counts in Input Space",
    "humayun2023": "Humayun et al. 2023, Deep Network Partition Density Exhibits Double Descent",
    "qi2023": "Qi & Wei 2023, The Evolution of the Interplay between Input Distributions and Linear Regions",
    "safran2022": "Safran et al. 2022, On the Effective Number of Linear Regions in Shallow Univariate ReLU Networks",
}
BEYOND = "beyond"
_TITLES = {**PAPERS, BEYOND: "Beyond the papers"}
_MEASURES = "measures."


@dataclass(frozen=True)
class Table:
    """Numbers for reading: a heading, column names and rows of the same length.

    detail: whether it is in the report of its item only, such as rows of each seed, and not on the page of the paper.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | float | int, ...], ...]
    detail: bool = False


@dataclass(frozen=True)
class Finding:
    """What the runs of an item say: the grade of each claim by its name, and the numbers behind them."""

    claims: Mapping[str, Graded]
    tables: Sequence[Table] = ()
    figures: Sequence[Figure] = ()


@dataclass(frozen=True)
class Claim:
    """A statement of the paper. short: what is shortened or replaced in our runs. why: what decides the verdict."""

    name: str
    says: str
    paper: str
    fidelity: str
    short: str = ""
    why: str = ""


@dataclass(frozen=True)
class Item:
    """One table, figure or theorem, or a question of our own.

    before: its grade before the rules of ``rules.py``. file: the declaration. runs: names of its sweeps; of those in
    ``may_lack``, some runs may be missing. note: paragraphs on the setting.
    """

    paper: str
    file: str
    name: str
    where: str
    claims: tuple[Claim, ...]
    before: str = ""
    runs: tuple[str, ...] = ()
    reader: str = ""
    computing: str = ""
    may_lack: tuple[str, ...] = ()
    note: str = ""

    @property
    def full_name(self) -> str:
        """Such as "humayun2023-figure8"."""
        return f"{self.paper}-{self.name}"

    def _module(self, name: str) -> Any:
        """A module of the paper; None where there is no such file."""
        if not resources.files("regionscope_lab.papers").joinpath(self.paper, f"{name}.py").is_file():
            return None
        return importlib.import_module(f"regionscope_lab.papers.{self.paper}.{name}")

    @property
    def function(self) -> Callable[[SeedTable, Runs], Finding] | None:
        """What reads the runs of this item; None for one that no run tests."""
        return getattr(self._module(self.reader or self.file), self.name, None)

    def experiments(self, size: Size) -> dict[str, tuple[Experiment, ...]]:
        """The runs that the item reads, by name."""
        return {name: runs_of(self.paper, self.file, size)[name] for name in (*self.runs, *self.may_lack)}

    def compute(self, workspace: Workspace, size: Size) -> None:
        """Make the stored answers that the item reads beside its runs."""
        make = getattr(self._module(self.computing or self.reader or self.file), "compute", None)
        if make is not None:
            make(workspace, size, self.experiments(size))

    def find(self, table: SeedTable, size: Size = "full") -> Finding:
        """Grade the stored runs; an item without a function is not tested by any run."""
        if self.function is None:
            return Finding({})
        runs = {name: table.of(mine, lacking=name in self.may_lack) for name, mine in self.experiments(size).items()}
        finding = self.function(table, runs)
        unknown = finding.claims.keys() - {claim.name for claim in self.claims}
        if unknown:
            raise InputError(
                f"Expected the claims of {self.full_name}, got {sorted(unknown)}. Declare them in the file."
            )
        return finding


@dataclass(frozen=True)
class Sentence:
    """A sentence of an abstract, the claims that stand for it, why there are none, and those whose number is shown."""

    says: str
    claims: tuple[str, ...]
    why: str = ""
    shown: tuple[str, ...] = ()


@dataclass(frozen=True)
class Paper:
    """A paper: the sentence with the verdict, the headline claims in the paper's order, and all items.

    abstract: its sentences. weakest: our weakest evidence. change: what would change the verdict. regraded: what was
    read again after the rules, and why.
    """

    name: str
    sentence: str
    headlines: tuple[str, ...]
    items: tuple[Item, ...] = field(repr=False)
    abstract: tuple[Sentence, ...] = ()
    weakest: str = ""
    change: str = ""
    regraded: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        return _TITLES[self.name]


@cache
def read_paper(name: str) -> Paper:
    """The declarations of a paper."""
    summary = _document(name, "headlines")
    items = tuple(
        _item(name, file, declared) for file in summary["files"] for declared in _document(name, file).get("item", ())
    )
    abstract = tuple(
        Sentence(one["says"], tuple(one["claims"]), one.get("why", ""), tuple(one.get("shown", one["claims"][:1])))
        for one in summary.get("abstract", ())
    )
    weakest, change = (summary.get(part, "") for part in ("weakest", "change"))
    regraded = tuple(summary.get("regraded", ()))
    sentence = " ".join(summary["sentence"].split())
    return Paper(name, sentence, tuple(summary["headlines"]), items, abstract, weakest, change, regraded)


def all_items() -> tuple[Item, ...]:
    """Every item of every paper, then those beyond them."""
    return tuple(item for paper in _TITLES for item in read_paper(paper).items)


def find_items(name: str) -> tuple[Item, ...]:
    """The item of this name (``humayun2023-figure8``), those of a paper, or ``all``."""
    chosen = tuple(item for item in all_items() if name in ("all", item.full_name, item.paper))
    if not chosen:
        raise unknown_name("an item, a paper or all", name, [item.full_name for item in all_items()])
    return chosen


@cache
def runs_of(paper: str, file: str, size: Size) -> dict[str, tuple[Experiment, ...]]:
    """The experiments of a file by the name of their ``[[runs]]``."""
    declared: dict[str, dict[str, Any]] = {}
    for block in _document(paper, file).get("runs", ()):
        whole = copy.deepcopy(declared[block["like"]]) if "like" in block else {"base": {}, "measure": [], "grid": {}}
        whole["measure"] += block.get("measure", [])
        _merge(whole["base"], block.get("base", {}))
        whole["grid"] |= block.get("grid", {})
        whole |= {name: block[name] for name in ("grids", "seeded_data") if name in block}
        for smaller in ("desk", "smoke"):
            whole[smaller] = {**whole.get(smaller, {}), **block.get(smaller, {})}
        _set(whole, block.get("change", {}))
        declared[block["name"]] = whole
    return {name: _experiments(whole, size) for name, whole in declared.items()}


def printed(paper: str, file: str, name: str) -> dict[str, Any]:
    """Numbers as the paper prints them: ``[printed.NAME]`` of a file, without ``where``."""
    return {key: value for key, value in _document(paper, file)["printed"][name].items() if key != "where"}


def _experiments(whole: Mapping[str, Any], size: Size) -> tuple[Experiment, ...]:
    """The sweep of a block. grids: each is combined with the grid. seeded_data: data have the seed of their run."""
    chosen = copy.deepcopy({part: whole[part] for part in ("base", "measure", "grid")})
    changes = dict(whole[size]) if size != "full" else {}
    several = changes.pop("grids", whole.get("grids"))
    _set(chosen, changes)
    if several:
        grid = chosen.pop("grid")
        chosen["grids"] = [{**one, **grid} for one in several]
    for measure in chosen["measure"]:  # TOML has no null
        options = measure.get("options", {})
        measure["options"] = {name: None if value == "null" else value for name, value in options.items()}
    made = tuple(Sweep.from_dict(chosen))
    if not whole.get("seeded_data"):
        return made
    return tuple(replace(one, data=replace(one.data, seed=one.seed)) for one in made)


def _set(whole: dict[str, Any], changes: Mapping[str, Any]) -> None:
    """Change values by dotted key, in the grid where it has the key."""
    for key, value in changes.items():
        if key in whole["grid"] or (isinstance(value, list) and not key.startswith(_MEASURES)):
            whole["grid"][key] = value
        elif key.startswith(_MEASURES):
            place = {"measures": whole["measure"]}
            override(place, key, value)
        else:
            override(whole["base"], key, value)


def _merge(base: dict[str, Any], more: Mapping[str, Any]) -> None:
    for name, value in more.items():
        if isinstance(value, Mapping):
            _merge(base.setdefault(name, {}), value)
        else:
            base[name] = value


def _item(paper: str, file: str, declared: Mapping[str, Any]) -> Item:
    general = {name: declared[name] for name in ("fidelity", "short") if name in declared}
    claims = tuple(Claim(**{**general, **claim}) for claim in declared["claim"])
    return Item(
        paper, file, declared["name"], declared["where"], claims, declared.get("before", ""),
        tuple(declared.get("runs", ())), declared.get("module", ""), declared.get("compute", ""),
        tuple(declared.get("may_lack", ())), declared.get("note", ""),
    )  # fmt: skip


@cache
def _document(paper: str, file: str) -> dict[str, Any]:
    path = resources.files("regionscope_lab.papers").joinpath(paper, f"{file}.toml")
    return tomllib.loads(path.read_text(encoding="utf-8"))
