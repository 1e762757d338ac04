"""The round that validation chooses, and means over clients."""

from polynsd.federated.scores import GONE_AFTER, RoundChoice, weigh_scores


def answers(**correct):
    """Right predictions of ten on validation, by client."""
    numbers = {"num_nodes": 30, "val_count": 10, "test_count": 1, "local_test_correct": 1}
    return {client: {**numbers, "local_val_correct": right} for client, right in correct.items()}


def choose(rounds, present=lambda scores: "abc"):
    """The round, from 1 on, and over how many clients it was scored."""
    best = RoundChoice("local", "accuracy")
    for number, scores in enumerate(rounds, 1):
        best.offer(number, answers(**scores), present(scores))
    return best.choice.round, best.choice.clients


def test_a_round_in_which_a_client_fails_is_not_preferred_to_a_complete_one():
    """Client c has the hard nodes; a mean without it looks better."""
    rounds = [{"a": 9, "b": 9}, {"a": 6, "b": 6, "c": 3}, {"a": 9, "b": 9}, {"a": 6, "b": 6, "c": 4}]
    assert [choose(rounds[:count]) for count in (1, 2, 3, 4)] == [(1, 2), (2, 3), (2, 3), (4, 3)]


def test_rounds_after_a_client_has_left_are_compared_over_those_that_stay():
    """Client a has easy nodes and leaves after the first round; those that stay go on learning."""
    rounds = [{"a": 10, "b": 3, "c": 3}, {"b": 4, "c": 4}, {"b": 6, "c": 6}, {"b": 5, "c": 5}]
    assert choose(rounds, present=lambda scores: scores) == (3, 2)
    hard = [{"a": 0, "b": 6, "c": 6}, {"b": 5, "c": 5}]  # 6 of 10 beside 4 as means over whoever is there
    assert choose(hard, present=lambda scores: scores) == (1, 3)


def test_a_client_that_stays_and_fails_for_ever_is_not_waited_for():
    rounds = [{"a": 9, "b": 3}, *([{"b": 5}] * GONE_AFTER)]
    assert choose(rounds[:-1]) == (1, 2)
    assert choose(rounds) == (1 + GONE_AFTER, 1)
    assert choose([*rounds, {"a": 1, "b": 1}]) == (2 + GONE_AFTER, 2)  # back: the best one lacks it


def test_scores_are_weighted_by_nodes():
    answers = [
        {"num_nodes": 30, "val_count": 10, "local_val_correct": 5, "test_count": 0, "local_test_correct": 0},
        {"num_nodes": 10, "val_count": 4, "local_val_correct": 4, "test_count": 2, "local_test_correct": 1},
    ]
    assert weigh_scores(answers, "accuracy") == {"local_val": 0.625, "local_test": 0.5}
    assert weigh_scores(answers, "roc_auc") == {}
