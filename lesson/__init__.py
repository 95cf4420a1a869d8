"""Pages to open in a browser: the lesson, a report, trained models; models as ONNX graphs."""
