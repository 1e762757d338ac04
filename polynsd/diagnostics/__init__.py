"""A look inside a trained model: what its layers do to a graph.

    from polynsd.diagnostics import measure_energy

    energy = measure_energy(model, data)
    energy.to_frame()                     # a row per layer and operator
    energy.plot("energy.png")

| measure              | says                                                                             |
|----------------------|----------------------------------------------------------------------------------|
| `measure_energy`     | how much neighbours disagree, state by state                                     |
| `measure_influence`  | how far a prediction listens                                                     |
| `measure_response`   | what layers do to frequencies, over the density of eigenvalues                   |
| `measure_maps`       | size, rank, holonomy and clusters of the learned transport, beside an untrained one |
| `measure_smoothness` | whether states become alike, and whether gradients arrive                        |

`diagnose` makes all of them, and `open_run` reads model and graph of a finished run; together they are
`polynsd diagnose RUN`. docs/diagnostics.md has the equations. Layers expose what they compute through
`polynsd.nn.hook_layers`; `trace_layers` keeps it.
"""

from polynsd.diagnostics.diagnosis import MEASURES, Diagnosis, diagnose
from polynsd.diagnostics.energy import Energy, measure_energy
from polynsd.diagnostics.influence import Influence, measure_influence
from polynsd.diagnostics.maps import Maps, measure_maps
from polynsd.diagnostics.opened_run import OpenedRun, open_run
from polynsd.diagnostics.region import sample_region
from polynsd.diagnostics.response import Response, measure_response
from polynsd.diagnostics.result import Result
from polynsd.diagnostics.smoothness import Smoothness, measure_smoothness
from polynsd.diagnostics.trace import Trace, trace_layers, untrained_copy

__all__ = [
    "MEASURES",
    "Diagnosis",
    "Energy",
    "Influence",
    "Maps",
    "OpenedRun",
    "Response",
    "Result",
    "Smoothness",
    "Trace",
    "diagnose",
    "measure_energy",
    "measure_influence",
    "measure_maps",
    "measure_response",
    "measure_smoothness",
    "open_run",
    "sample_region",
    "trace_layers",
    "untrained_copy",
]
