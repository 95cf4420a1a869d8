"""Speed, measured: these models against their peers, against the machine, and against length."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"  # peers are built from sizes, never downloaded
os.environ.setdefault(
    "KINETO_LOG_LEVEL", "99"
)  # the profiler tells much; read as torch is imported
