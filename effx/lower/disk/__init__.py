"""Store executables and StableHLO modules as bytes and files."""
