"""The models: a chapter for each paper, and `registry.py`, their list."""

from seqmodels.models.registry import (  # noqa: F401
    FIVE,
    INFOS,
    MODELS,
    PAPERS,
    SHA256,
    VARIANTS,
    ModelInfo,
    ancestors,
    build,
    derive,
    find_class,
    import_class,
    import_file,
    list_models,
    model_of,
    paper_of,
    register,
    register_file,
)  # fmt: skip
from seqmodels.models.variants.table import OLD_NAMES, Fields, Value  # noqa: F401
