"""Prudent: a self-hosted contextual bandit that cares about the bad outcomes."""
