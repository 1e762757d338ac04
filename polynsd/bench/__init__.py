"""What `polynsd bench` measures: time, memory, bytes moved, how time grows; and the estimator against others.

| file        | holds                                                                           |
|-------------|---------------------------------------------------------------------------------|
| `samples`   | the cases, and their graphs: real ones, or stand-ins with the same degrees          |
| `measures`  | time, peak memory, the speed of a copy, the environment                          |
| `filters`   | one row of `bench kernels`, and the bytes that a filter has to move              |
| `layers`    | one row of `bench layer`, maps on nodes and on edges against identity maps        |
| `steps`     | one row of `bench step`                                                          |
| `protocols` | one row of `bench protocol`                                                      |
| `searches`  | one row of `bench search`                                                        |
| `estimators`, `comparison` | records of `bench estimator`; their tables                      |
| `rivals`, `rival_inputs` | what the estimator is compared with                              |
| `results`   | all rows as data and as a table; how time grows with K and with the edges        |
"""
