"""The GPU backend: Triton kernels.

| module         | holds                                                                      |
|----------------|----------------------------------------------------------------------------|
| `backend.py`   | the functions of `Backend`: chooses grids and launches the kernels         |
| `filter.py`    | the two fused steps of the filter, forward and backward                    |
| `blocks.py`    | gather and sum over half-edges, products and eigenvalues of small matrices |
| `training.py`  | dropout by key, Adam, row copies, products with sparse features            |
| `schedule.py`  | fair shares of the rows of a graph; needs no Triton                        |
| `compiling.py` | launches, and kernels compiled ahead, in parallel                          |
| `tuning.py`    | tile sizes: defaults, and measurements on request                          |
"""
