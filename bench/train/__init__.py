"""Training steps of networks in PyTorch and through gradnn: python3 -m bench.train."""
