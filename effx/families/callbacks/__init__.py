"""Python functions that programs call on the host."""
