"""Two models that are equally good: how often does a test at α = 0.05 say that they are not?"""

import numpy as np
from scipy import stats

from polynsd.stats import compare

ALPHA, SPLITS = 0.05, 10


def rejections(make_scores, train_share, test_share, trials):
    """Shares of trials that the corrected and the plain paired t-test reject."""
    corrected = plain = 0
    for trial in range(trials):
        a, b = make_scores(np.random.default_rng(trial))
        corrected += compare(a, b, train_share, test_share=test_share).p <= ALPHA
        plain += stats.ttest_rel(a.mean(1), b.mean(1)).pvalue <= ALPHA
    return corrected / trials, plain / trials


def equally_correlated(draw):
    """Differences of correlation ρ = n_test / (n_test + n_train): where the correction is exact."""
    rho = 0.2 / (0.2 + 0.48)
    difference = rho**0.5 * draw.normal() + (1 - rho) ** 0.5 * draw.normal(size=(SPLITS, 1))
    return difference, np.zeros((SPLITS, 1))


def resampled_learners(draw, nodes=120, features=5):
    """Nearest class means on one half of the features or on the other, over random halves of one sample."""
    labels = draw.permutation(np.arange(nodes) % 2)
    x = draw.normal(size=(2, nodes, features)) + 0.4 * labels[:, None]  # two views, equally good
    scores = np.empty((2, SPLITS, 1))
    for split in range(SPLITS):
        order = draw.permutation(nodes)
        train, test = order[: nodes // 2], order[nodes // 2 :]
        for view in range(2):
            means = np.stack([x[view, train[labels[train] == c]].mean(0) for c in (0, 1)])
            distance = ((x[view, test, None] - means) ** 2).sum(-1)
            scores[view, split] = (distance.argmin(1) == labels[test]).mean()
    return scores


def test_corrected_t_keeps_its_level_where_its_model_holds():
    corrected, plain = rejections(equally_correlated, 0.48, 0.2, trials=1000)
    assert abs(corrected - ALPHA) <= 0.02  # three standard errors
    assert plain >= 0.25


def test_corrected_t_keeps_its_level_on_resampled_learners():
    corrected, plain = rejections(resampled_learners, 0.5, 0.5, trials=250)
    assert corrected <= ALPHA + 0.03
    assert plain >= 0.25
