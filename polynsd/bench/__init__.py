"""What `polynsd bench` measures: graphs, time, memory, bytes and growth, one small file for each.

| file          | answers                                                          |
|---------------|------------------------------------------------------------------|
| `cases`       | which combinations of graph, maps, sizes and backend are measured |
| `samples`     | on which graph: the real one where it is at hand, or a stand-in   |
| `standins`    | how a stand-in gets its degrees                                   |
| `timing`      | how long, and how fast the device copies                          |
| `memory`      | how much memory at its peak                                       |
| `cost`        | how many bytes a filter has to move at least                      |
| `filters`     | one row of `bench kernels`                                        |
| `steps`       | one row of `bench step`                                           |
| `protocols`   | one row of `bench protocol`                                       |
| `growth`      | how time grows with K and with the number of edges                |
| `environment` | on what                                                           |
| `record`      | all of it as plain data                                           |
| `tables`      | all of it for a terminal                                          |
"""
