"""Operations that make the chapters fast; each documents exactly what it computes."""
