"""The documentation as the running service shows it: every page, its pictures and a search, without a network."""
