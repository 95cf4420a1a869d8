"""The programs of this repository: one for each question."""

import sys

from seqmodels.utils.terminal import leave_quietly

if sys.argv[0] == "-m":  # what is imported now takes seconds, and Ctrl-C may come
    leave_quietly()
