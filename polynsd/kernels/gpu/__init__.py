"""The GPU backend: Triton kernels."""
