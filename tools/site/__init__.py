"""The documentation site: `make docs` builds it from docs/ with Sphinx."""
