"""Pages to open in a browser: the lesson, a report, trained models; models as ONNX graphs."""

import os

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # onnxruntime would report how it is used
