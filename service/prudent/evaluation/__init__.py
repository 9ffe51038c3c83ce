"""Judging other policies on a campaign's own log: what the log has, what each policy would have done, and its value."""
