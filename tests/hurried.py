"""Translate with a checkpoint every few steps, in the processes of a pool as well."""

import runpy

from seqmodels.training import checkpoint

checkpoint.EVERY_S = 0.05
if __name__ == "__main__":
    runpy.run_module("tasks.translation", run_name="__main__")
