"""Logs of past decisions: what the arms were worth, and how a campaign would have done."""
