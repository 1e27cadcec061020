"""How fast, how small, beside the peers: run with `make bench` or `python -m benchmarks [topic …] [--quick]`."""
