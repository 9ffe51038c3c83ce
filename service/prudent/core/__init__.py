"""The statistics: losses, estimators, confidence, policy. No I/O, no clock, no global random state."""
