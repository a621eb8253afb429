"""The ledger against a model that knows every unit's length beforehand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rollmill._rollout import PAIR_DTYPE
from rollmill.batch import Ledger
from rollmill.envs.native import env_spec
from rollmill.rollouts import Answer, Rollouts, RolloutSpec, Task

PAIRS = 3


def steps_of(unit, seed):
    """Lengths of a unit's episodes; some units are very short, some very long."""
    draw = np.random.default_rng((seed, unit))
    return draw.integers(0, draw.choice([2, 10, 200]), (PAIRS, 2))


def answer_of(first, count, seed, iteration=5, source="a", stats=True):
    pairs = np.zeros(count * PAIRS, PAIR_DTYPE)
    pairs["pair"] = first * PAIRS + np.arange(count * PAIRS)
    pairs["length"] = np.concatenate([steps_of(first + k, seed) for k in range(count)])
    rows = np.arange(first, first + count, dtype=np.float64)[:, None] * np.ones(3)
    return Answer(iteration, first, count, pairs, rows if stats else None, source, 0.0)


def prefix_of(seed, min_episodes, min_steps):
    """The batch rule, word for word; an episode that failed at once counts as one step."""
    units = episodes = steps = 0
    while True:
        episodes += 2 * PAIRS
        steps += int(np.maximum(steps_of(units, seed), 1).sum())
        units += 1
        if episodes >= min_episodes and steps >= min_steps:
            return units


@settings(max_examples=300, deadline=None)
@given(
    seed=st.integers(0, 1000),
    min_episodes=st.integers(0, 60),
    min_steps=st.integers(0, 1500),
    guess=st.one_of(st.none(), st.floats(0.01, 1000)),
    data=st.data(),
)
def test_batch_is_the_shortest_prefix_whatever_happens(seed, min_episodes, min_steps, guess, data):
    ledger = Ledger(5, PAIRS, min_episodes, min_steps, guess)
    want = prefix_of(seed, min_episodes, min_steps)
    flying, arrived, first_answers = [], set(), {}
    duplicates = stale = 0
    while not ledger.complete:
        assert set(range(want)) - arrived, "it is complete as soon as the prefix is there"
        moves = ["claim"] * (ledger.wanted() > 0) + ["answer", "lose", "twice"] * bool(flying)
        assert moves, "something is wanted, or on its way"
        move = data.draw(st.sampled_from([*moves, "stale"]))
        if move == "claim":
            wanted = ledger.wanted()
            most = data.draw(st.integers(1, 7))
            first, count = ledger.claim(most)
            assert 1 <= count <= min(most, wanted)
            units = set(range(first, first + count))
            assert not units & arrived
            assert units <= set(ledger.outstanding)
            flying.append((first, count))
        elif move == "stale":
            if stale > 5:
                continue
            assert ledger.add(answer_of(0, 2, seed, iteration=4)) == 0
            stale += 2
        else:
            which = data.draw(st.integers(0, len(flying) - 1))
            first, count = flying[which]
            if move == "lose":
                del flying[which]
                ledger.requeue(first, count)
                continue
            if move == "answer":
                del flying[which]
            source = f"process {which}"
            new = {unit for unit in range(first, first + count) if unit not in arrived}
            assert ledger.add(answer_of(first, count, seed, source=source)) == len(new)
            duplicates += count - len(new)
            arrived |= new
            if new:
                first_answers[source] = first_answers.get(source, 0) + len(new)
            assert all(ledger.has(unit) for unit in new)
    assert set(range(want)) <= arrived
    assert ledger.length == want
    assert ledger.wanted() == 0
    assert ledger.claim(5) is None
    assert (ledger.duplicates, ledger.stale) == (duplicates, stale)
    assert ledger.units_by_source == first_answers
    batch = ledger.batch()
    assert batch.pairs.tobytes() == answer_of(0, want, seed).pairs.tobytes()
    assert batch.stats[:, 0].tolist() == list(range(want))
    beyond = sum(int(steps_of(unit, seed).sum()) for unit in arrived if unit >= want)
    assert ledger.steps_discarded == beyond


def test_units_that_were_lost_are_handed_out_first_and_counted():
    ledger = Ledger(5, PAIRS, 60, 0)
    assert ledger.claim(4) == (0, 4)
    assert ledger.claim(3) == (4, 3)
    ledger.add(answer_of(1, 1, 0))
    ledger.requeue(0, 4)
    ledger.requeue(2, 5)
    assert ledger.outstanding == []
    assert ledger.wanted() == 6 + 3
    assert ledger.claim(9) == (0, 1)
    assert ledger.claim(2) == (2, 2)
    ledger.add(answer_of(4, 1, 0))
    assert ledger.claim(9) == (5, 2)
    assert ledger.reissued == 5
    assert ledger.claim(9) == (7, 3)


def test_answers_without_statistics_make_a_batch_without():
    ledger = Ledger(5, PAIRS, 6, 0)
    ledger.add(answer_of(0, 1, 0, stats=False))
    assert ledger.batch().stats is None


def test_empty_answer_changes_nothing():
    ledger = Ledger(5, PAIRS, 6, 0)
    assert ledger.add(Answer(5, 0, 0, np.zeros(0, PAIR_DTYPE), np.zeros((0, 3)), "a", 0.0)) == 0
    assert ledger.units_by_source == {}
    assert not ledger.complete


@pytest.mark.parametrize("seed", [1, 2])
def test_shuffled_arrival_gives_the_same_bits(drift_library, seed):
    spec = RolloutSpec(
        env=env_spec(f"{drift_library}:drift_nan"), hiddens=(8,), activation="tanh", key=seed,
        noise_size=1 << 14, unit_pairs=2, observation_filter="MeanStdFilter",
    )  # fmt: skip
    rollouts, stop = Rollouts(spec), np.zeros(1, np.int32)
    theta = np.full(rollouts.policy.num_params, 0.1, np.float32)
    task = Task(3, theta, 0.3)
    whole = rollouts.units(task, 0, 40, stop)

    def gather(order, sizes):
        ledger = Ledger(3, 2, 40, 1000)
        begin, calls = 0, []
        while begin < 40:
            size = min(int(sizes.integers(1, 5)), 40 - begin)
            calls.append((begin, size))
            begin += size
        for call in order.permutation(len(calls)):
            ledger.add(rollouts.units(task, *calls[call], stop))
        return ledger.batch()

    draw = np.random.default_rng(seed)
    batches = [gather(draw, draw) for _ in range(6)]
    length = batches[0].units
    assert 10 <= length < 40
    for batch in batches:
        assert batch.pairs.tobytes() == whole.pairs[: 2 * length].tobytes()
        assert batch.stats.tobytes() == whole.stats[:length].tobytes()
