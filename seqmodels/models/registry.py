"""The list of models: the papers in order of history, then their variants. It imports no torch.

Another model is its file and one entry in PAPERS, or one call of `register`; another variant is a
line of `variants/table.py`. A comparison trains variants only if they are named.
"""

from __future__ import annotations

import hashlib
import sys
from collections import ChainMap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from importlib import import_module
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote, unquote

from seqmodels.models.variants.table import CLASSES, GONE, OLD_NAMES, Fields, Memory, Value
from seqmodels.utils.terminal import did_you_mean

if TYPE_CHECKING:
    from seqmodels.interface import SequenceModel


@dataclass(frozen=True, kw_only=True)
class ModelInfo:
    """A model, or a variant of one."""

    label: str
    """Its display name in all figures, tables and lists."""
    short: str = ""
    """The beginning of its variants' labels."""
    year: int
    cite: str
    """Authors and arXiv number."""
    class_path: str
    """Where its class is: MODULE:CLASS or FILE.py:CLASS."""
    config: str = "PAPER"
    """The constant in its module that has the paper's sizes."""
    group: Literal["five", "later", "mistaken"] = "later"
    """Whether it is one of the five papers that titles and averages are about, or a mistake, which
    does not keep the contract."""
    memory: Memory
    """What the decoder can see of the source: one vector, a memory of a fixed size that it attends
    to, or one that grows with the source."""
    attends: bool = False
    """Whether the target weighs every word of the source: `align` returns the weights."""
    variant_of: str = ""
    """The model or variant from which it differs; empty: a model of its own."""
    sizes: Fields = field(default_factory=dict)
    """Fields of its Config that make it this variant."""
    width: int = 1
    """Its d_model as a multiple of the one that fits a task's number of parameters."""


HERE = "seqmodels.models"
PAPERS = {
    "rnn_encdec": ModelInfo(
        label="RNN encoder–decoder", short="RNN", year=2014, cite="Cho et al., arXiv:1406.1078",
        class_path=f"{HERE}.rnn_encdec:RNNEncDec", group="five", memory="vector",
    ),
    "bahdanau": ModelInfo(
        label="Bahdanau", short="Bahdanau", year=2014, cite="Bahdanau et al., arXiv:1409.0473",
        class_path=f"{HERE}.bahdanau:Bahdanau", group="five", memory="grows", attends=True,
    ),
    "lstm_seq2seq": ModelInfo(
        label="LSTM seq2seq", short="LSTM", year=2014, cite="Sutskever et al., arXiv:1409.3215",
        class_path=f"{HERE}.lstm_seq2seq:LSTMSeq2Seq", group="five", memory="vector",
    ),
    "transformer": ModelInfo(
        label="Transformer", short="Transformer", year=2017,
        cite="Vaswani et al., arXiv:1706.03762", class_path=f"{HERE}.transformer:Transformer",
        config="BASE", group="five", memory="grows", attends=True,
    ),
    "gpt": ModelInfo(
        label="GPT", short="GPT", year=2019, cite="Radford et al., OpenAI (GPT-2)",
        class_path=f"{HERE}.gpt:GPT", config="GPT2_SMALL",
        group="five", memory="grows", attends=True,
    ),
    "linear_attention": ModelInfo(
        label="Linear attention", short="Linear", year=2020,
        cite="Katharopoulos et al., arXiv:2006.16236",
        class_path=f"{HERE}.linear_attention:LinearAttention", config="CIFAR",
        memory="fixed", attends=True,
    ),
    "mamba2": ModelInfo(
        label="Mamba-2", short="Mamba-2", year=2024, cite="Dao and Gu, arXiv:2405.21060",
        class_path=f"{HERE}.mamba2:Mamba2", config="MAMBA2_130M", memory="fixed",
    ),
    "gated_deltanet": ModelInfo(
        label="Gated DeltaNet", short="Gated DeltaNet", year=2024,
        cite="Yang et al., arXiv:2412.06464",
        class_path=f"{HERE}.gated_deltanet:GatedDeltaNet", config="LARGE", memory="fixed",
    ),
}  # fmt: skip

FIVE = tuple(name for name, paper in PAPERS.items() if paper.group == "five")
"""The five papers that the default comparison trains."""


VARIANTS: dict[str, ModelInfo] = {}
"""Models that differ from one of the PAPERS in one respect, and keep its place in history."""
INFOS = ChainMap(VARIANTS, PAPERS)
"""Both, the papers first."""


def paper_of(name: str) -> ModelInfo:
    """Return what is known about a model or variant; raise ValueError for an unknown name."""
    if name not in INFOS:
        names, similar = ", ".join(list_models()), did_you_mean(name, INFOS)
        raise ValueError(
            f"unknown model {name!r}{similar}; choose from {names}, or give FILE.py:CLASS"
        )
    return INFOS[name]


def list_models() -> list[str]:
    """Return the names to choose from: papers, then a variant for each class.

    A value of a field can be named as records name it, but is not listed.
    """
    return [*PAPERS, *CLASSES]


def ancestors(name: str) -> list[str]:
    """Return a name, that of what it varies, and so on, up to one of the PAPERS."""
    names = [name]
    while parent := paper_of(names[-1]).variant_of:
        names.append(parent)
    return names


def model_of(name: str) -> str:
    """Return which of the PAPERS a model or variant is, or varies."""
    return ancestors(name)[-1]


def derive(own: Mapping[str, Any], label: str, changed: Fields) -> ModelInfo:
    """Return a variant of a model or variant: with the end of its label, and changed fields.

    `own` has `variant_of`, and what else of its `ModelInfo` differs; the field `width` multiplies
    its width.
    """
    base = paper_of(own["variant_of"])
    sizes: dict[str, Any] = {**base.sizes, **changed}
    width = base.width * sizes.pop("width", 1)
    label = f"{base.short or base.label}, {label}"
    return replace(base, **{**own, "label": label, "short": "", "sizes": sizes, "width": width})


for _name, (_of, _label, _fields) in OLD_NAMES.items():
    _own = (CLASSES | GONE).get(_of, {"variant_of": _of})
    VARIANTS[_name] = derive({"group": "later", **_own}, _label, _fields)
for _name in [name for name in CLASSES if name not in OLD_NAMES]:
    _own = {"group": "later", **CLASSES[_name]}
    VARIANTS[_name] = replace(PAPERS[_own["variant_of"]], **_own)


def register(name: str, paper: ModelInfo) -> None:
    """Add a model or a variant to the list; raise ValueError if another one has the name."""
    if (other := INFOS.get(name, paper)) != paper:
        raise ValueError(f"{name} is the name of another model, {other.class_path}")
    (VARIANTS if paper.variant_of else PAPERS)[name] = paper


# --------------------------------------------------------------------------------------- Classes


def import_class(home: str) -> type:
    """Import the class of MODULE:CLASS or FILE.py:CLASS, which can import what is beside it.

    Raises ValueError if there is none, or if the file itself raises.
    """
    place, _, name = home.rpartition(":")
    try:
        is_file = place.endswith(".py")
        module = import_file(Path(place).resolve()) if is_file else import_module(place)
    except (ModuleNotFoundError, TypeError, ValueError) as error:
        if place.endswith(".py") or not f"{place}.".startswith(f"{getattr(error, 'name', '')}."):
            raise
        raise ValueError(f"{home}: there is no module {place!r}; give FILE.py:CLASS") from None
    if not isinstance(found := getattr(module, name, None), type):
        raise ValueError(f"{place} has no class {name!r}")
    return found


def import_file(path: Path) -> ModuleType:
    """Import a file of Python once; raise ValueError if it does not exist, or raises."""
    place = quote(str(path)).replace(".", "%2E")  # a name with dots is in a package
    if (key := f"file@{place}") in sys.modules:
        return sys.modules[key]
    if not path.is_file():
        raise ValueError(f"{path} does not exist")
    try:
        return import_module(key)
    except (Exception, SystemExit) as error:  # a script can end itself
        raise ValueError(f"{path} cannot be imported: {explain(error, path)}") from error


class FileLoader(SourceFileLoader):
    """Imports `file@PATH`: functions of a file are pickled by that name for other processes."""

    @classmethod
    def find_spec(cls, name: str, *_: object) -> ModuleSpec | None:
        """Return how to import a file by the name that `import_file` gives it."""
        if not name.startswith("file@"):
            return None
        path = unquote(name.removeprefix("file@"))
        return spec_from_file_location(name, path, loader=cls(name, path))

    def exec_module(self, module: ModuleType) -> None:
        """Run the file, which can import what is beside it."""
        folder, source = str(Path(self.path).parent), Path(self.path).read_bytes()
        if folder not in sys.path:
            sys.path.append(folder)
        exec(self.source_to_code(source, self.path), vars(module))  # no bytecode beside the file
        SHA256[self.name] = hashlib.sha256(source).hexdigest()


sys.meta_path.append(FileLoader)
SHA256 = dict[str, str]()
"""The SHA-256 of each FILE.py as it was imported, by the name of its module."""


def explain(error: BaseException, path: Path) -> str:
    """Return the kind of an error, its text and the line of a file in which it arose."""
    lines = [f.lineno for f in extract_tb(error.__traceback__) if f.filename == str(path)]
    line = getattr(error, "lineno", None) or (lines or [None])[-1]
    return f"{type(error).__name__}: {error}" + (f" (line {line})" if line else "")


class _Models(Mapping[str, "type[SequenceModel]"]):
    """The classes of PAPERS, each imported when it is first asked for; variants by name as well."""

    def __getitem__(self, name: str) -> type[SequenceModel]:
        return import_class(INFOS[name].class_path)

    def __iter__(self) -> Iterator[str]:
        return iter(PAPERS)

    def __len__(self) -> int:
        return len(PAPERS)


MODELS = _Models()


def find_class(class_path: str) -> str:
    """Return FILE.py:CLASS for a FILE.py with one model; another text is returned as it is.

    Raises ValueError if the file has no model, or several.
    """
    if not class_path.endswith(".py"):
        return class_path
    from seqmodels.interface import SequenceModel  # imports torch

    module = import_file(Path(class_path).resolve())
    types = [each for each in vars(module).values() if isinstance(each, type)]
    own = [each for each in types if each.__module__ == module.__name__]
    names = [*dict.fromkeys(each.__name__ for each in own if issubclass(each, SequenceModel))]
    if len(names) == 1:
        return f"{class_path}:{names[0]}"
    if names:
        raise ValueError(
            f"{class_path} has the models {', '.join(names)}; name one: {class_path}:{names[-1]}"
        )
    raise ValueError(f"{class_path} has no model, a subclass of seqmodels.SequenceModel")


def register_file(class_path: str) -> str:
    """Register the class of FILE.py:CLASS, or the one model of FILE.py, by its name; return it.

    Its label is its attribute `label`, or its name. What its decoder sees of the source is its
    attribute `memory`, or follows from its `source_floats` and from its attention. Raises
    ValueError if it is no model.
    """
    import torch

    class_path = find_class(class_path)
    model_type: Any = import_class(class_path)
    place, _, name = class_path.rpartition(":")
    where = Path(place).resolve()
    try:
        with torch.device("meta"):
            model = model_type(model_type.config_type(vocab_size=8))
        grows = model.source_floats(8) != model.source_floats(16)
        attends = bool(model.cross_attentions)
    except Exception as error:
        reason = f"{explain(error, where)}; seqmodels check {class_path} says more"
        raise ValueError(f"{class_path} cannot be built: {reason}") from error
    memory: Memory = "grows" if grows else "fixed" if attends else "vector"
    register(name, ModelInfo(
        label=getattr(model_type, "label", name), year=date.today().year, cite=where.name,
        class_path=f"{where}:{name}", memory=getattr(model_type, "memory", memory),
        attends=attends,
    ))  # fmt: skip
    return name


def build(name: str, vocab_size: int, **sizes: Value) -> SequenceModel:
    """Build a model or a variant; sizes left out are the paper's.

    Raises ValueError for an unknown name, TypeError for a size that the model's Config lacks.
    """
    sizes = {**paper_of(name).sizes, **sizes}
    model_type = MODELS[name]
    return model_type(model_type.config_type(vocab_size=vocab_size, **sizes))
