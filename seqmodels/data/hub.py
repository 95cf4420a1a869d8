"""Datasets of the hub, through `datasets`.

Rows are in memory-mapped files. If a dataset is too large to download, some rows are streamed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import datasets
from datasets import Dataset
from huggingface_hub import HfApi, constants
from huggingface_hub.errors import HfHubHTTPError, HFValidationError

from seqmodels.data.corpora import offline_hint
from seqmodels.utils.terminal import one_line

BUFFER = 10_000
"""Rows that a stream shuffles together."""
TIMEOUT_S = 10.0
"""How long to wait for the hub before using what is on disk."""

datasets.disable_progress_bars()
datasets.logging.set_verbosity(datasets.logging.CRITICAL)  # errors are reported in one line


def load_splits(data: str, limit: int | None) -> dict[str, Dataset]:
    """Return the splits of OWNER/NAME or OWNER/NAME:CONFIG on the hub, by its names.

    With `limit`, that many rows of train are streamed, shuffled, instead of downloading all. Raises
    ValueError with the cause in one line.
    """
    name, _, config = data.partition(":")
    try:
        source = {"path": name, "name": config or None, "revision": latest_revision(name)}
        return stream_splits(source, limit) if limit else datasets.load_dataset(**source)
    except Exception as fault:  # from one of several network libraries
        cause = find_cause(fault)
        raise ValueError(f"{data} cannot be read: {cause}; {offline_hint(data)}") from fault


def stream_splits(source: Mapping[str, str | None], limit: int) -> dict[str, Dataset]:
    """Download only `limit` rows of train, shuffled, and the other splits completely.

    They are written to disk once, as they arrive, and memory-mapped from there.
    """

    def stream(
        source: Mapping[str, str | None], split: str, limit: int
    ) -> Iterator[dict[str, object]]:
        rows = datasets.load_dataset(**source, streaming=True)[split]
        if split == "train":
            rows = rows.shuffle(seed=1, buffer_size=BUFFER).take(limit)
        yield from rows

    return {
        split: Dataset.from_generator(
            stream, gen_kwargs={"source": source, "split": split, "limit": limit}
        )
        for split in datasets.load_dataset(**source, streaming=True)
    }


def latest_revision(name: str) -> str | None:
    """Return the commit of a dataset on the hub; None without a network, when the disk is used."""
    try:
        return HfApi().dataset_info(name, timeout=TIMEOUT_S).sha
    except HFValidationError:
        raise
    except HfHubHTTPError as fault:
        if fault.response.status_code < 500:
            raise
    except Exception:  # from one of several network libraries, by version
        datasets.config.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE = True  # no further waiting
    return None


def find_cause(fault: BaseException) -> str:
    """Return the first cause of an error, in one line; `datasets` hides it behind its own."""
    while (below := fault.__cause__ or fault.__context__) is not None:
        fault = below
    caches = str(constants.HF_HOME), str(datasets.config.HF_DATASETS_CACHE)
    if isinstance(fault, OSError) and str(fault.filename).startswith(caches):
        return (
            f"the cache {fault.filename} cannot be written to: {fault.strerror}; set HF_HOME to "
            "another folder"
        )
    return one_line(str(fault) or type(fault).__name__)[:300]
