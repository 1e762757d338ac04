"""Operations on tensors, their rules for PyTorch, and the reference implementation.

| module         | holds                                                                |
|----------------|----------------------------------------------------------------------|
| `operator.py`  | `BlockOperator` and the index structures, as named tuples of tensors |
| `filter.py`    | Σ_k φ_k T_k(A) x and its gradient                                    |
| `drift.py`     | what becomes of gradients whose recurrence could not be reversed     |
| `blocks.py`    | algebra of small blocks: products, transposes, eigenvalues           |
| `edges.py`     | between nodes and half-edges: gather, sum, swap                      |
| `training.py`  | dropout by key, Adam on rows, products with sparse features          |
| `reference.py` | all of them in PyTorch alone: the reference backend                  |
| `autograd.py`  | how an operation gets its gradient, shape and vmap rules             |
| `batching.py`  | the vmap rule, and a short cut to it                                 |
"""
