"""Operations on tensors, their rules for PyTorch, and the reference implementation."""
