"""The lesson: pages that set each paper's idea beside its equation, its code and what it did."""
