import doctest
import math
import warnings

import numpy as np
import pytest
from rollmill import ESConfig
from rollmill.algorithms import es_config
from rollmill.envs import env_spec
from rollmill.presets import PRESETS, find_preset

MAZE = "rollmill/Maze-v0"

# For every option: values that fit, and values that do not.
INTEGER = ["1", 1.5, True, None, math.nan, math.inf, [], {}]
NUMBER = ["1", True, None, math.nan, math.inf, -math.inf, [], {}, -1, 10**400]
TEXT = [1, "", None, [], {}]
CASES = {
    "env": ([MAZE, "./lib.so:f"], TEXT),
    "env_config": ([{}, {"rows": 4}], [1, "x", None, [], {1: 2}]),
    "seed": ([None, 0, 7, 2**64, np.int64(3), 3.0], [-1, "1", 1.5, True, math.nan]),
    "preset": (["auto", "none"], ["Auto!", None, 1, []]),
    "engine": (["auto", "threads", "ray"], ["thread", None, 1, []]),
    "num_workers": ([0, 3], [-1, *INTEGER]),
    "num_threads": ([None, 1, 4096], [0, -1, 4097, "1", 1.5, True]),
    "address": ([None, "local", "auto"], [1, "", []]),
    "slots_per_actor": ([None, 1], [0, -1, "1", 1.5, True]),
    "episodes_per_batch": ([1, 1000, 1e3], [0, -1, 2**32 + 1, *INTEGER]),
    "train_batch_size": ([0, 10], [-1, 2**53 + 1, *INTEGER]),
    "unit_pairs": ([1, 4096], [0, 4097, *INTEGER]),
    "max_episode_steps": ([None, 1, 2**32 - 1], [0, 2**32, "1", 1.5, True]),
    "noise_stdev": ([1e-30, 0.02, 1, 1e30], [0, 1e-50, 1e50, *NUMBER]),
    "noise_size": ([1, 2**32], [0, 2**32 + 1, *INTEGER]),
    "noise_storage": (["auto", "generated", "table"], ["tables", None, 1]),
    "optimizer": (["adam", "sgd"], ["Adamm", None, 1]),
    "stepsize": ([1e-30, 0.01, 1], [0, 1e-50, 1e50, *NUMBER]),
    "momentum": ([0, 0.9], [1, 1.5, *NUMBER]),
    "l2_coeff": ([0, 0.005], [1e50, *NUMBER]),
    "gamma": ([0, 0.99, 1], [1.01, *NUMBER]),
    "sample_actions": ([True, False], [1, 0, "true", None]),
    "reward_offset": ([-5, 0, 1.5], [1e50, -1e50, float("nan"), "1", None, True]),
    "action_noise_std": ([0, 0.01], [1e50, *NUMBER]),
    "observation_filter": (["MeanStdFilter", "NoFilter"], ["MeanStd", None, 1]),
    "update_blas": (["none", "scipy", "reference"], ["mkl", None, 1]),
    "fcnet_hiddens": ([(), [8], (8, 4)], [[0], [-1], [1.5], [65537], "8", 8, None, [1] * 8]),
    "fcnet_activation": (["tanh", "relu"], ["sigmoid", None, 1]),
    "eval_prob": ([0, 0.5, 1], [1.5, *NUMBER]),
    "report_length": ([1, 10], [0, *INTEGER]),
}


def test_every_option_has_cases():
    assert CASES.keys() == ESConfig.options().keys()


@pytest.mark.parametrize(("name", "value"), [(n, v) for n in CASES for v in CASES[n][0]])
def test_option_accepts(name, value):
    config = ESConfig().update_from_dict({name: value})
    got = getattr(config, name)
    assert got == (tuple(value) if isinstance(value, list) else value)
    assert name in config.set_by_user
    assert ESConfig(**{name: value}) == config


@pytest.mark.parametrize(("name", "value"), [(n, v) for n in CASES for v in CASES[n][1]])
def test_option_refuses(name, value):
    config = ESConfig()
    before = config.to_dict()
    with pytest.raises(ValueError, match=name) as caught:
        config.training(gamma=0.5, **{name: value}) if name != "gamma" else config.set(name, value)
    assert len(str(caught.value)) < 400
    assert config.to_dict() == before  # nothing changed, not even what did fit
    assert config.set_by_user == {}


def test_every_default_passes_its_own_check():
    for name, option in ESConfig.options().items():
        default = getattr(ESConfig(), name)
        assert option.metadata["check"](name, default) == default
        assert option.metadata["doc"]


@pytest.mark.parametrize(
    ("given", "nearest"),
    [("epsiodes_per_batch", "episodes_per_batch"), ("noise_std", "noise_stdev"),
     ("Gamma", "gamma"), ("timestep_per_batch", "timesteps_per_batch")],
)  # fmt: skip
def test_unknown_option_names_the_nearest(given, nearest):
    with pytest.raises(ValueError, match=f'unknown option "{given}". Did you mean "{nearest}"'):
        ESConfig().training(**{given: 1})
    with pytest.raises(ValueError, match="unknown option"):
        ESConfig(**{given: 1})


def test_methods_and_private_names_are_no_options():
    for name in ("set_by_user", "copy", "__class__", "ALIASES"):
        with pytest.raises(ValueError, match="unknown option"):
            ESConfig().set(name, 1)


@pytest.mark.parametrize(
    ("old", "new", "value"),
    [("timesteps_per_batch", "train_batch_size", 5), ("l2coeff", "l2_coeff", 0.5),
     ("num_rollout_workers", "num_workers", 2), ("num_env_runners", "num_workers", 2),
     ("horizon", "max_episode_steps", 9)],
)  # fmt: skip
def test_old_spellings(old, new, value):
    assert getattr(ESConfig().training(**{old: value}), new) == value


def test_options_without_meaning_are_accepted_with_a_note():
    with pytest.warns(UserWarning, match="num_gpus.*means nothing here"):
        config = ESConfig().resources(num_gpus=0)
    assert config == ESConfig()
    with pytest.warns(UserWarning, match="framework"):
        ESConfig().framework("torch")
    with pytest.warns(UserWarning, match="log_level"):
        assert ESConfig().debugging(seed=3, log_level="INFO").seed == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ESConfig().framework()


def test_rllibs_methods():
    with pytest.warns(UserWarning, match="create_env_on_local"):
        config = (
            ESConfig()
            .environment(MAZE, env_config={"rows": 4})
            .training(model={"fcnet_hiddens": [32], "fcnet_activation": "relu"}, stepsize=0.1)
            .rollouts(num_rollout_workers=2, create_env_on_local_worker=True)
            .resources(num_threads=3)
            .evaluation(eval_prob=0.5)
            .debugging(seed=4)
        )
    assert (config.env, config.env_config) == (MAZE, {"rows": 4})
    assert (config.fcnet_hiddens, config.fcnet_activation) == ((32,), "relu")
    assert (config.stepsize, config.num_workers, config.num_threads) == (0.1, 2, 3)
    assert (config.eval_prob, config.seed) == (0.5, 4)
    assert config.env_runners(num_env_runners=0).num_workers == 0
    assert config.environment(env_config={}).env_config == {}
    assert config.environment().env == MAZE
    for build in ("build", "build_algo"):
        with getattr(config, build)() as algo:
            assert algo.policy.kernel.widths == (25, 32, 4)


def test_model_is_checked_as_options_are():
    with pytest.raises(ValueError, match='unknown option "fcnet_hidden"'):
        ESConfig().training(model={"fcnet_hidden": [1]})
    with pytest.raises(ValueError, match="model must be a dict"):
        ESConfig().training(model=[1])


def test_environment_takes_a_spec():
    config = ESConfig().environment(env_spec(MAZE, rows=3))
    assert (config.env, config.env_config) == (MAZE, {"rows": 3})


def test_a_copy_is_of_its_own():
    config = ESConfig().environment(MAZE, env_config={"rows": 4})
    other = config.copy().environment(env_config={"rows": 6}).debugging(seed=1)
    other.env_config["rows"] = 7
    assert config.env_config == {"rows": 4}
    assert config.seed is None
    assert "seed" not in config.set_by_user
    assert config.to_dict()["env_config"] is not config.env_config


# Presets: what the user set, then the preset, then the default.


def test_preset_precedence():
    tuned = PRESETS["ES", MAZE].config["noise_stdev"]
    default = ESConfig().noise_stdev
    assert tuned != default
    assert ESConfig().resolved().noise_stdev == tuned
    assert ESConfig().training(noise_stdev=0.7).resolved().noise_stdev == 0.7
    assert ESConfig(noise_stdev=0.7).resolved().noise_stdev == 0.7
    assert ESConfig(noise_stdev=default).resolved().noise_stdev == default
    assert ESConfig(preset="none").resolved().noise_stdev == default
    assert ESConfig(env="./x.so:y").resolved().noise_stdev == default
    config = ESConfig()
    config.resolved()
    assert config.noise_stdev == default  # the user's own config stays as it is


def test_presets_fit_their_algorithm():
    for (algorithm, env), preset in PRESETS.items():
        assert algorithm == "ES"
        ESConfig().environment(env).training(**preset.config)
        with ESConfig().environment(env).build() as algo:
            assert preset.stop.keys() <= set(algo.result_names())
    assert find_preset("ES", "no such").config == {}


# Contradictions that only show when an algorithm is built.


@pytest.mark.parametrize("options", [{"num_workers": 2}, {"address": "auto"}])
def test_threads_take_no_workers(options):
    config = ESConfig().training(engine="threads", **options)
    with pytest.raises(ValueError, match='engine "threads" takes no num_workers and no address'):
        config.build()


def test_engine_auto():
    assert ESConfig().engine_name == "threads"
    assert ESConfig(num_workers=1).engine_name == "ray"
    assert ESConfig(address="local").engine_name == "ray"
    assert ESConfig(engine="ray").engine_name == "ray"


@pytest.mark.parametrize(
    ("options", "message"),
    [({"env": "rollmill/Maze-v1"}, 'unknown native environment .* "rollmill/Maze-v0"'),
     ({"env_config": {"row": 3}}, 'option "row". Did you mean "rows"'),
     ({"env_config": {"rows": -1}}, "rows"),
     ({"noise_size": 100}, "noise_size must be at least 6084, the number of parameters")],
)  # fmt: skip
def test_build_refuses(options, message):
    with pytest.raises(ValueError, match=message):
        ESConfig().training(**options).build()


def test_examples_in_docstrings():
    failed, tried = doctest.testmod(es_config)
    assert tried > 3
    assert not failed
