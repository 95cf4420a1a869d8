"""Measure speed: these models against their peers, the machine's peak, and length."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"  # peers are built from sizes, never downloaded
os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # quiets the profiler; read when torch is imported
