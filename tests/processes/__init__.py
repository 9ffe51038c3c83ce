"""Tests of `prudent.processes`."""
