"""Upload a trained run to the Hugging Face Hub: python examples/push_to_hub.py RUN OWNER/NAME.

RUN is FOLDER/MODEL-seedN. Whoever has downloaded the three files loads it by `seqmodels.load`.
"""

import argparse
from pathlib import Path

from huggingface_hub import HfApi

parser = argparse.ArgumentParser()
parser.add_argument("run", type=Path)
parser.add_argument("name")
args = parser.parse_args()
run, name = args.run, args.name
api = HfApi()
api.create_repo(name, exist_ok=True)
for path in (Path(f"{run}.json"), Path(f"{run}.safetensors"), run.with_name("vocabulary.json")):
    api.upload_file(path_or_fileobj=path, path_in_repo=path.name, repo_id=name)
