"""The models: a chapter for each paper, and their list, `registry.py`."""

from seqmodels.models.registry import (
    MODELS,
    PAPERS,
    VARIANTS,
    ModelInfo,
    ancestors,
    build,
    derive,
    list_models,
    model_of,
    paper_config,
    paper_of,
    papers,
    register,
    register_file,
    register_packages,
    register_recorded,
)

__all__ = [
    "MODELS",
    "PAPERS",
    "VARIANTS",
    "ModelInfo",
    "ancestors",
    "build",
    "derive",
    "list_models",
    "model_of",
    "paper_config",
    "paper_of",
    "papers",
    "register",
    "register_file",
    "register_packages",
    "register_recorded",
]
