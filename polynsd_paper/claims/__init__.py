"""The paper's 70 claims, each with a check that computes or reads its evidence.

    polynsd claims            # examine all of them, write results/tables/claims.md
    polynsd claims C07 C15    # print the findings of some

claims.csv lists the claims; the check of each is a function with `@check`. What a check of theory measures
is a function too, which tests/propositions calls on arbitrary sheaves.

| file            | claims about                                                   |
|-----------------|----------------------------------------------------------------|
| `spectra`       | eigenvalues and λ_max                                          |
| `filters`       | reach, energy and norm of filters; which responses they reach  |
| `layers`        | one layer: degree 1, correction, gate                          |
| `cost`          | products, parameters, time, memory                             |
| `accuracy`      | searched tables, street graphs                                 |
| `agnostic`      | the filter in other sheaf networks                             |
| `continuous`    | models in continuous time                                      |
| `federated`     | training over clients                                          |
| `sweeps`        | stalk, basis, degree or depth varied                           |
| `nsd_trade_off` | NSD and PolyNSD at equal cost                                  |
| `synthetic`     | synthetic graphs and their generator                           |
| `inside`        | energies, influence and maps of trained models                 |
| `responses`     | learned frequency responses                                    |
| `protocol`      | how numbers were chosen; what the library cannot test          |
"""

from polynsd_paper.claims.claim import VERDICTS, Claim, Finding, check
from polynsd_paper.claims.ledger import (
    CLAIMS,
    examine,
    format_evidence,
    format_ledger,
    load_cells,
    report_claims,
)

__all__ = [
    "CLAIMS",
    "VERDICTS",
    "Claim",
    "Finding",
    "check",
    "examine",
    "format_evidence",
    "format_ledger",
    "load_cells",
    "report_claims",
]
