"""What an experiment is: frozen, plain values that decide every number, and a key made from them."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass
from typing import Any, Self, TypeVar, get_type_hints

from regionscope.checks import one_of, read_number, read_seed, unknown_name
from regionscope.errors import InputError
from regionscope_lab.user_files import source_of

Options = dict[str, Any]

OPTIMIZERS = ("sgd", "adam", "adamw", "adagrad")
SCHEDULES = ("constant", "cosine")
LOSSES = ("cross_entropy", "mse", "next_token")
AUGMENTATIONS = ("none", "crop_flip")
PRECISIONS = ("float32", "float64", "bf16")


@dataclass(frozen=True, kw_only=True)
class DataSpec:
    """The data set of an experiment, its size and its preprocessing.

    name: a name of ``lab.data.names()``, or your own data: a ``.npz`` or ``.csv`` file, a folder of images or
    ``FILE.py:FUNCTION``. label_noise: share of the training labels that are replaced by uniformly random ones. options:
    options of the data set, such as ``noise`` of two moons. source: hash of your own data, computed by default.
    """

    name: str
    n_train: int | None = None
    n_test: int | None = None
    label_noise: float = 0.0
    normalise: bool = True
    seed: int = 0
    options: Options = field(default_factory=dict)
    source: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", self.source or source_of(self.name))
        _at_least(1, "data", n_train=self.n_train, n_test=self.n_test)
        read_seed(self.seed, "data.seed")
        if not 0 <= self.label_noise <= 1:
            raise InputError(
                f"Expected data.label_noise, a share of the labels, from 0 to 1, got {self.label_noise}. "
                "Write 0.1 for a tenth of them."
            )


@dataclass(frozen=True, kw_only=True)
class NetworkSpec:
    """The network of an experiment.

    name: a name of ``lab.zoo.names()``, or ``FILE.py:FUNCTION``. options: arguments of the function that builds it.
    source: hash of that file, computed by default. output: name or index of the logits, for a network that returns
    several outputs.
    """

    name: str
    options: Options = field(default_factory=dict)
    source: str = ""
    output: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", self.source or source_of(self.name))


@dataclass(frozen=True, kw_only=True)
class Training:
    """Training settings. SGD with a cosine schedule is from Li et al. 2025, who state no momentum; the rest is ours.

    ``loss``: "next_token" is the cross-entropy of the next token at every position of a sequence, for a network with a
    method ``every_position``. ``schedule`` is the learning rate's course over all steps; ``mixup`` is alpha of the Beta
    distribution (0: none); ``checkpoints`` is a schedule in words, such as "every 5 epochs" or "log 1 10000 50"
    (steps); train and test error are taken every ``evaluate_every`` epochs and at the end. ``stop_at_error``: training
    error at which the training ends early, at the epoch that was evaluated; 0 trains all epochs.
    """

    epochs: int = 100
    optimizer: str = "sgd"
    lr: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 0.0
    batch_size: int = 128
    schedule: str = "cosine"
    loss: str = "cross_entropy"
    augment: str = "none"
    mixup: float = 0.0
    precision: str = "float32"
    checkpoints: str = "end"
    evaluate_every: int = 1
    stop_at_error: float = 0.0

    def __post_init__(self) -> None:
        _at_least(1, "training", epochs=self.epochs, batch_size=self.batch_size, evaluate_every=self.evaluate_every)
        _at_least(0, "training", momentum=self.momentum, weight_decay=self.weight_decay, mixup=self.mixup)
        one_of("training.optimizer", self.optimizer, OPTIMIZERS)
        one_of("training.schedule", self.schedule, SCHEDULES)
        one_of("training.loss", self.loss, LOSSES)
        one_of("training.augment", self.augment, AUGMENTATIONS)
        one_of("training.precision", self.precision, PRECISIONS)
        if not read_number("training.lr", self.lr) > 0:
            raise InputError(f"Expected a positive training.lr, got {self.lr}. Choose a rate such as 0.1.")
        if self.loss == "next_token" and self.mixup:
            raise InputError(
                f"Expected training.mixup = 0 with the loss next_token, got {self.mixup}. Leave mixup out."
            )
        if not 0 <= self.stop_at_error < 1:
            raise InputError(
                f"Expected training.stop_at_error, a share of the training labels, from 0 to below 1, got "
                f"{self.stop_at_error}. Write 0.01 to stop at a training error of 1%."
            )
        if self.momentum >= 1:
            raise InputError(f"Expected training.momentum below 1, got {self.momentum}. Choose 0.9, for example.")


@dataclass(frozen=True, kw_only=True)
class MeasureSpec:
    """One instrument of an experiment, with its options and its schedule.

    name: name of its rows; that of the instrument by default. when: a schedule in words, such as "end", "start and
    end", "every 5 epochs", "every 100 steps" or "log 1 10000 50".
    """

    instrument: str
    name: str = ""
    when: str = "end"
    options: Options = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", self.instrument)


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One run: ``seed`` sets the initial weights and the order of the batches, ``data.seed`` the data.

    >>> digits = Experiment(data=DataSpec(name="digits"), network=NetworkSpec(name="mlp", options={"width": 32}))
    >>> digits == Experiment.from_dict(digits.to_dict())
    True
    >>> digits.label
    'mlp on digits, lr 0.1, batch 128, seed 0'
    """

    data: DataSpec
    network: NetworkSpec
    training: Training = field(default_factory=Training)
    measures: tuple[MeasureSpec, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        read_seed(self.seed, "an experiment's seed")
        names = [measure.name for measure in self.measures]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise InputError(f"Expected a different name for each measure, got {twice[0]!r} twice. Rename one of them.")

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as in a JSON or TOML file."""
        return {**asdict(self), "measures": [asdict(measure) for measure in self.measures]}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """The experiment that ``to_dict`` or a file describes; what is left out has its default."""
        _refuse_sweep(document)
        check_names("an experiment", document, [entry.name for entry in fields(cls)])
        for part in ("data", "network"):
            if part not in document:
                raise InputError(
                    f"Expected at least data.name and network.name in the experiment, got no {part!r}. "
                    "Add it to the file."
                )
        measures = document.get("measures", [])
        if not isinstance(measures, Sequence) or isinstance(measures, str):
            raise InputError(f"Expected measures to be a list of tables, got {measures!r}. Write each as [[measures]].")
        return cls(
            data=_read(DataSpec, "data", document["data"]),
            network=_read(NetworkSpec, "network", document["network"]),
            training=_read(Training, "training", document.get("training", {})),
            measures=tuple(_read(MeasureSpec, f"measures[{i}]", entry) for i, entry in enumerate(measures)),
            seed=_value("seed", int, document.get("seed", 0)),
        )

    @property
    def key(self) -> str:
        """16 hexadecimal digits that name this experiment: equal settings have equal keys.

        Settings at their default do not count, so that a setting that is added later leaves the keys of old runs as
        they are; for the same reason a default never changes.
        """
        plain = Experiment.from_dict(self.to_dict())  # so that lr=1 and lr=1.0 are one experiment
        canonical = json.dumps(_chosen(plain), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]

    @property
    def label(self) -> str:
        """A short line for progress bars and tables."""
        training = self.training
        decay = f", decay {training.weight_decay:g}" if training.weight_decay else ""
        return (
            f"{self.network.name} on {self.data.name}, lr {training.lr:g}, batch {training.batch_size}{decay}, "
            f"seed {self.seed}"
        )


def _chosen(spec: Any) -> dict[str, Any]:
    """The settings that differ from their defaults."""
    chosen = {}
    for entry in fields(spec):
        value = getattr(spec, entry.name)
        usual = entry.default if entry.default_factory is MISSING else entry.default_factory()
        if value == usual:
            continue
        if isinstance(value, tuple):
            value = [_chosen(entry) for entry in value]
        chosen[entry.name] = _chosen(value) if is_dataclass(value) else value
    return chosen


_Spec = TypeVar("_Spec", DataSpec, NetworkSpec, Training, MeasureSpec)
_HINTS = {kind: get_type_hints(kind) for kind in (DataSpec, NetworkSpec, Training, MeasureSpec)}


def _read(kind: type[_Spec], where: str, document: Any) -> _Spec:
    if isinstance(document, str) and kind in (DataSpec, NetworkSpec):
        document = {"name": document}
    if not isinstance(document, Mapping):
        raise InputError(
            f"Expected {where} to be a table of settings, got {document!r}. Write it as [table] with KEY = VALUE lines."
        )
    hints = _HINTS[kind]
    check_names(where, document, list(hints))
    lacking = {DataSpec: "name", NetworkSpec: "name", MeasureSpec: "instrument"}.get(kind)
    if lacking is not None and lacking not in document:
        raise InputError(
            f"Expected a value for {lacking!r} in {where}, which has no default, got none. Add it to the table."
        )
    return kind(**{name: _value(f"{where}.{name}", hints[name], value) for name, value in document.items()})


def _value(where: str, wanted: Any, value: Any) -> Any:
    """``value`` as the type that the field has; only a whole number for a real one is converted."""
    accepted = {
        int: ("a whole number", "3"),
        float: ("a number", "0.5"),
        str: ("a text", '"text"'),
        bool: ("true or false", "true"),
        Options: ("a table", "{ KEY = VALUE }"),
    }
    if wanted == int | None:
        return None if value is None else _value(where, int, value)
    right = (
        (wanted is float and isinstance(value, int | float) and not isinstance(value, bool))
        or (wanted is int and isinstance(value, int) and not isinstance(value, bool))
        or (wanted in (str, bool) and isinstance(value, wanted))
        or (wanted == Options and isinstance(value, Mapping))
    )
    if not right:
        kind, example = accepted[wanted]
        raise InputError(f"Expected {where} to be {kind}, got {value!r}. Write it like {example}.")
    if wanted is float:
        return float(value)
    return _plain(where, value) if wanted == Options else value


def _plain(where: str, options: Mapping[str, Any]) -> Options:
    """A copy whose JSON text reads back as itself."""
    try:
        copy: Options = json.loads(json.dumps(dict(options), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"Expected only numbers, strings, lists and tables in {where}: {error}. Remove the others."
        ) from error
    return copy


def check_names(where: str, document: Mapping[str, Any], accepted: Sequence[str]) -> None:
    """Refuse the first name in a table of settings that is not accepted there."""
    for name in document:
        if name not in accepted:
            raise unknown_name(f"a setting of {where}", name, accepted)


def _refuse_sweep(document: Mapping[str, Any]) -> None:
    """Say so if the table is that of a sweep."""
    sweep = [name for name in ("base", "grid", "grids") if name in document]
    if sweep:
        raise InputError(
            f"Expected the settings of one experiment, got {sweep[0]!r}, which is part of a sweep. Pass the file to "
            "`regionscope-lab sweep run`."
        )


def _at_least(least: int, where: str, **values: float | None) -> None:
    for name, value in values.items():
        if value is not None and not (isinstance(value, int | float) and least <= value < math.inf):
            raise InputError(f"Expected {where}.{name} of at least {least}, got {value!r}. Choose {least} or more.")
