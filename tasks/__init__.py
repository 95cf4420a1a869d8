"""The programs of this repository: one for each question."""

import sys

from seqmodels.command import leave_quietly

if sys.argv[0] == "-m":  # python -m tasks.NAME: what it imports takes seconds, and Ctrl-C may come
    leave_quietly()
