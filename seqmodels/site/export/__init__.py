"""Trained runs as ONNX graphs, for programs without torch."""
