"""Trained runs on the Hugging Face Hub: `push` uploads one, `fetch` brings one to this disk.

What is fetched are a record, weights and a tokenizer, in JSON and safetensors alone: nothing of a
repository is run, and `trained.load` checks the weights by the sum in the record.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path, PurePosixPath

from huggingface_hub import CommitOperationAdd, HfApi, hf_hub_download

from seqmodels.experiments.gpt2 import CONFIG, WEIGHTS
from seqmodels.utils.terminal import one_line

PREFIX = "hub:"
"""What the address of a run begins with."""
RECORD = re.compile(r"[A-Za-z0-9][\w.-]*-seed\d+\.json")
"""The name of a record; a repository holds one."""
TOKENIZER = "tokenizer.json"
TIMEOUT_S = 10.0


def fetch(address: str) -> Path:
    """Download a run or GPT-2 unless it is here; return the path of its record, or its config.json.

    Its address is hub:OWNER/NAME[@REVISION].

    Raises ValueError if there is no such run.
    """
    name, _, revision = address.removeprefix(PREFIX).partition("@")
    try:
        info = HfApi().model_info(name, revision=revision or None, timeout=TIMEOUT_S)
        wanted = list_files({sibling.rfilename for sibling in info.siblings or ()})
        first, *_ = [hf_hub_download(name, file, revision=info.sha) for file in wanted]
    except Exception as fault:  # of the network, or of what the Hub answers
        raise ValueError(f"{address} cannot be read: {one_line(str(fault))}") from None
    return Path(first)


def list_files(names: Collection[str]) -> list[str]:
    """Return which files of a repository are its run, or its GPT-2."""
    records = [name for name in names if RECORD.fullmatch(name)]
    if not records and CONFIG in names:
        wanted = [CONFIG, WEIGHTS, TOKENIZER]
    elif len(records) == 1:
        wanted = [*records, str(PurePosixPath(records[0]).with_suffix(".safetensors")), TOKENIZER]
    else:
        raise ValueError(f"it has {len(records)} records MODEL-seedN.json; a run has one")
    if missing := [name for name in wanted if name not in names]:
        raise ValueError(f"it lacks {', '.join(missing)}")
    return wanted


def push(run: Path, name: str, card: str, more: dict[str, bytes], is_private: bool = False) -> str:
    """Upload a run to OWNER/NAME with a card and more files; return its address.

    `run` is the path of its record. The repository is made if need be. Raises ValueError with what
    the Hub answered if it refuses.
    """
    own = (run, run.with_suffix(".safetensors"), run.with_name(TOKENIZER))
    contents = {path.name: path.read_bytes() for path in own}
    contents |= {"README.md": card.encode(), **more}
    added = [CommitOperationAdd(file, content) for file, content in contents.items()]
    try:
        HfApi().create_repo(name, exist_ok=True, private=is_private)
        commit = HfApi().create_commit(name, added, commit_message=f"Add {run.stem}")
    except Exception as fault:  # of the network, or of what the Hub answers
        raise ValueError(f"{name} cannot be written: {one_line(str(fault))}") from None
    return f"{PREFIX}{name}@{commit.oid}"
