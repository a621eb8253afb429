import numpy as np
from rollmill import MLP
from rollmill.envs.drawing import draw_path


def always(action, cells=25):
    policy = MLP((cells, 4), one_hot=True)
    policy.set_weights({"logits/bias": np.eye(4)[action]})
    return policy


def by_cell(actions):
    policy = MLP((len(actions), 4), one_hot=True)
    policy.set_weights({"logits/kernel": np.eye(4)[actions]})
    return policy


def test_a_way_that_arrives():
    right, down = 3, 0
    actions = [right] * 4 + [down] + [down] * 20
    picture, steps, arrived = draw_path(by_cell(actions))
    assert (steps, arrived) == (8, True)
    assert picture.splitlines() == ["|>|>|>|>|v|", *["| | | | |v|"] * 3, "| | | | |G|"]


def test_a_way_that_does_not():
    picture, steps, arrived = draw_path(always(2))  # up, into the border
    assert (steps, arrived) == (100, False)
    assert picture.splitlines()[0] == "|^| | | | |"
    assert picture.splitlines()[-1] == "| | | | |G|"


def test_a_maze_of_another_shape():
    picture, steps, arrived = draw_path(by_cell([3, 0, 0, 0]), rows=2, columns=2)
    assert (picture, steps, arrived) == ("|>|v|\n| |G|", 2, True)
