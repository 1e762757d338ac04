"""Tables whose ids, classes and columns would break out of a page that does not escape them."""

import numpy as np
import pandas as pd

IDS = (
    "<script>window.hacked = 1</script>",
    '"><img src=x onerror="window.hacked = 1">',
    "O'Brien & Söhne",
    "x" * 1000,
    "שלום עולם",
    "a b",
)
CLASSES = ("</script><script>window.hacked = 1</script>", "نعم")
FEATURE = "<b>%{x}</b> ${window.hacked = 1}"


def write_tables(folder, num_nodes=60):
    """Tables whose ids, classes and columns are hostile; half of the labels follow from a feature."""
    rng = np.random.default_rng(0)
    ids = [*IDS, *(f"n{number}" for number in range(len(IDS), num_nodes))]
    size = rng.normal(size=num_nodes)
    label = [CLASSES[int(value > 0)] for value in size]
    nodes = pd.DataFrame({"id": ids, FEATURE: size, "label": label})
    nodes.loc[::7, "label"] = None
    ends = rng.integers(0, num_nodes, (2, 3 * num_nodes))
    pd.DataFrame({"a": [ids[i] for i in ends[0]], "b": [ids[i] for i in ends[1]]}).to_csv(
        folder / "edges.csv", index=False
    )
    nodes.to_csv(folder / "nodes.csv", index=False)
    return folder / "edges.csv", folder / "nodes.csv"
