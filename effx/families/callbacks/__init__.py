"""Operations that call Python functions on the host."""
