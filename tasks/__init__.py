"""The programs of this repository, one per question."""

import sys

from seqmodels.utils.terminal import exit_quietly

if sys.argv[0] == "-m":  # the imports below take seconds; quit quietly on Ctrl-C
    exit_quietly()
