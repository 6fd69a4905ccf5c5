"""Functions with rules that users give: derivatives, batching, names for handlers."""
