"""Doors for software that exists: other protocols, translated to our commands, and our errors to theirs."""
