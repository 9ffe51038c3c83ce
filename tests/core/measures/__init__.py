"""Tests of the risk measures."""
