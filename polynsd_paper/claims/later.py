"""Claims about parts that the library does not have yet: diagnostics, continuous time, federated learning."""

from __future__ import annotations

from polynsd_paper.claims.claim import Claim, because

DIAGNOSTICS = because("needs diagnostics of trained models, which the library does not have yet")
CONTINUOUS = because(
    "needs continuous-time models, which the library does not have yet; the table is not in the source"
)
FEDERATED = because("needs federated training, which the library does not have yet")

CLAIMS = (
    Claim("C29", "Repeated first-order steps smooth in one fixed way.", "diagnostic", DIAGNOSTICS),
    Claim("C44", "Dirichlet energy grows with depth in NSD, less in PolyNSD.", "diagnostic", DIAGNOSTICS),
    Claim(
        "C45",
        "Influence reaches far further in PolyNSD than in NSD, with any maps.",
        "diagnostic",
        DIAGNOSTICS,
    ),
    Claim(
        "C56", "Low and high frequencies are told apart more on homophilic graphs.", "diagnostic", DIAGNOSTICS
    ),
    Claim("C57", "Low frequencies gain on heterophilic graphs only.", "diagnostic", DIAGNOSTICS),
    Claim("C58", "α is more negative on homophilic graphs.", "diagnostic", DIAGNOSTICS),
    Claim("C59", "Responses are less monotone on heterophilic graphs.", "diagnostic", DIAGNOSTICS),
    Claim("C60", "With more layers |α| and the separation shrink.", "diagnostic", DIAGNOSTICS),
    Claim(
        "C61", "Larger stalks flatten the response on heterophilic graphs only.", "diagnostic", DIAGNOSTICS
    ),
    Claim("C62", "Continuous-time PolyNSD beats continuous-time NSD.", "accuracy", CONTINUOUS),
    Claim("C63", "Restriction maps specialise with depth.", "diagnostic", DIAGNOSTICS),
    Claim("C64", "Federated: the polynomial sheaf beats first order, masks add more.", "accuracy", FEDERATED),
    Claim(
        "C65", "Federated: the masks help a GCN too; plain baselines are near chance.", "accuracy", FEDERATED
    ),
)
