"""The claims of the paper as data, each with a check that computes or reads its evidence.

    polynsd claims            # examine all of them, write results/claims.md
    polynsd claims C07 C15    # print the findings of some

A claim of several parts is confirmed only where all of them are; too few records decide nothing. Experiments
are compared over the same splits or graphs at 95 %; "as good as" means within two points (`tally`).

| file            | claims about                                              |
|-----------------|-----------------------------------------------------------|
| `first_order`   | degree 1 and NSD                                          |
| `filters`       | reach, energy and boundedness of filters                  |
| `approximation` | which responses can be had, and how well                  |
| `spectra`       | eigenvalues and λ_max                                     |
| `response`      | the correction and the gate                               |
| `efficiency`    | time and memory                                           |
| `parameters`    | parameter counts                                          |
| `protocol`      | how numbers were chosen                                   |
| `generator`     | the synthetic graphs                                      |
| `accuracy`      | the searched tables together                              |
| `suites`        | malignant, filtered and new graphs                        |
| `sweeps`        | stalk, basis or degree varied                             |
| `depths`        | many layers                                               |
| `trade_off`     | NSD and PolyNSD at what they cost                         |
| `streets`       | street graphs                                             |
| `panels`        | synthetic graphs                                          |
| `later`         | what the library cannot test yet                          |
"""

from __future__ import annotations

from collections.abc import Iterable

from polynsd_paper.claims import (
    accuracy,
    approximation,
    depths,
    efficiency,
    filters,
    first_order,
    generator,
    later,
    panels,
    parameters,
    protocol,
    response,
    spectra,
    streets,
    suites,
    sweeps,
    trade_off,
)
from polynsd_paper.claims.claim import VERDICTS, Claim, Evidence, Finding
from polynsd_paper.claims.cost import one_thread
from polynsd_paper.claims.ledger import ledger

_FILES = (
    first_order, filters, approximation, spectra, response, efficiency, parameters, protocol, generator,
    accuracy, suites, sweeps, depths, trade_off, streets, panels, later,
)  # fmt: skip
CLAIMS: tuple[Claim, ...] = tuple(
    sorted((claim for file in _FILES for claim in file.CLAIMS), key=lambda claim: claim.id)
)


def examine(evidence: Evidence, claims: Iterable[Claim] = CLAIMS) -> dict[Claim, Finding]:
    """The findings, in the order of the claims."""
    with one_thread():
        return {claim: claim.examine(evidence) for claim in claims}


__all__ = ["CLAIMS", "VERDICTS", "Claim", "Evidence", "Finding", "examine", "ledger"]
