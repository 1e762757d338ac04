"""What `polynsd bench` measures: time, memory, bytes moved, and how time grows.

| file        | holds                                                                           |
|-------------|---------------------------------------------------------------------------------|
| `cases`     | the combinations of graph, maps, sizes and backend that are measured             |
| `samples`   | the graphs: real ones where they are at hand, or stand-ins with the same degrees |
| `measures`  | time, peak memory, the speed of a copy, the environment                          |
| `filters`   | one row of `bench kernels`, and the bytes that a filter has to move              |
| `steps`     | one row of `bench step`                                                          |
| `protocols` | one row of `bench protocol`                                                      |
| `results`   | all rows as data and as a table; how time grows with K and with the edges        |
"""
