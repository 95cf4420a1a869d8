"""Values by their keys, and balls under cups: what a memory keeps."""
