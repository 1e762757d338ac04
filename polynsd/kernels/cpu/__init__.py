"""The CPU backend: loops compiled by Numba.

| module        | holds                                                                      |
|---------------|----------------------------------------------------------------------------|
| `backend.py`  | the functions of `Backend`: shapes tensors and calls the loops             |
| `filter.py`   | the two fused steps of the filter, forward and backward                    |
| `blocks.py`   | gather and sum over half-edges, products and eigenvalues of small matrices |
| `training.py` | dropout by key, Adam, row copies, products with sparse features            |
| `compile.py`  | how a loop is compiled, cached and run on several threads                  |
| `tiles.py`    | small matrices in vector registers, a type for Numba                       |
| `vectors.py`  | the LLVM instructions that operations on tiles are made of                 |
"""
