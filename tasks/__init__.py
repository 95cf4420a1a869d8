"""The programs of this repository, one per question."""

import sys

from seqmodels.utils.terminal import leave_quietly

if sys.argv[0] == "-m":  # the imports below take seconds; quit quietly on Ctrl-C
    leave_quietly()
