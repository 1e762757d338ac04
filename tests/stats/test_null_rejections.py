"""Two models that are equally good: how often does a test at α = 0.05 say that they are not?"""

import numpy as np
from scipy import stats

from polynsd.stats import compare

ALPHA, SPLITS = 0.05, 10
SHARES = (0.48, 0.32, 0.2)


def rejections(make_scores, shares, trials):
    """Shares of trials that both forms of the correction and the plain paired t-test reject."""
    counts = np.zeros(3)
    for trial in range(trials):
        a, b = make_scores(np.random.default_rng(trial))
        result = compare(a, b, shares)
        plain = stats.ttest_rel(a.mean(1), b.mean(1)).pvalue
        counts += np.array([result.p, result.p_classic, plain]) <= ALPHA
    return counts / trials


def correlated_splits(draw, seeds=3):
    """Splits of correlation test / (test + train + val), and seeds as noisy as splits: the model is exact."""
    rho = 0.2
    split = rho**0.5 * draw.normal() + (1 - rho) ** 0.5 * draw.normal(size=(SPLITS, 1))
    return split + draw.normal(size=(SPLITS, seeds)), np.zeros((SPLITS, 1))


def resampled_learners(draw, nodes=120, features=5):
    """Nearest class means on one half of the features or on the other, shrunk as validation likes it best."""
    labels = draw.permutation(np.arange(nodes) % 2)
    x = draw.normal(size=(2, nodes, features)) + 0.4 * labels[:, None]  # two views, equally good
    scores = np.empty((2, SPLITS, 1))
    for split in range(SPLITS):
        train, val, test = np.split(draw.permutation(nodes), (int(0.48 * nodes), int(0.8 * nodes)))
        for view in range(2):
            means = np.stack([x[view, train[labels[train] == c]].mean(0) for c in (0, 1)])
            tried = [means * (np.abs(means[1] - means[0]) > cut) for cut in (0.0, 0.2, 0.4)]
            right = [((x[view, :, None] - m) ** 2).sum(-1).argmin(1) == labels for m in tried]
            best = max(right, key=lambda hits: hits[val].mean())
            scores[view, split] = best[test].mean()
    return scores


def test_the_correction_keeps_its_level_where_its_model_holds_and_the_classic_form_hardly_rejects():
    split, classic, plain = rejections(correlated_splits, SHARES, trials=1000)
    assert abs(split - ALPHA) <= 0.025
    assert classic < split < plain


def test_the_correction_keeps_its_level_on_resampled_learners():
    split, classic, plain = rejections(resampled_learners, SHARES, trials=250)
    assert classic <= split <= ALPHA + 0.03
    assert plain >= 0.15
