"""What authors of handlers use; `effx.handling` gives its names."""
