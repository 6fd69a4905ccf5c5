"""Tests of programs on disk share the directory of those of executables on disk."""

from tests.lower.conftest import directory as directory
