"""Print the lower bounds in pyproject.toml as pip constraints, to test with the oldest versions.

python -m tools.lowest > lowest.txt && PIP_CONSTRAINT=lowest.txt .ci/run
"""

import re
import tomllib
from pathlib import Path

text = (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
project = tomllib.loads(text)["project"]
for line in [*project["dependencies"], *project["optional-dependencies"]["dev"]]:
    print(re.sub(r">=([\d.]+).*", r"==\1", line))
