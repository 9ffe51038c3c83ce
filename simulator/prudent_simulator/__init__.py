"""Replays the paper's experiments against the service's HTTP API, and judges it by formulas of its own."""
