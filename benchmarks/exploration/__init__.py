"""What exploring costs, on problems that look like a user's: `make exploration`. See docs/exploration-benchmark.md."""
