"""Tests of the service, its core and the simulator; real servers and databases are in `tests.servers`."""
