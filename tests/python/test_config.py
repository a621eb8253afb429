import doctest
import math
import warnings

import numpy as np
import pytest
from rollmill import ARSConfig, ESConfig
from rollmill.algorithms import ALGORITHMS, ars_config, es_config
from rollmill.envs import env_spec
from rollmill.presets import PRESETS, find_preset

MAZE = "rollmill/Maze-v0"

# For every option: values that fit, and values that do not.
INTEGER = ["1", 1.5, True, None, math.nan, math.inf, [], {}]
NUMBER = ["1", True, None, math.nan, math.inf, -math.inf, [], {}, -1, 10**400]
TEXT = [1, "", None, [], {}]
BAD_POINTS = [[], [1], [[0, 1, 2]], [[1, 0.5]], [[0, 0.5], [0, 0.4]],
              [[0, 0.5], [5, 0.4], [4, 0.3]], [[0.5, 1]], [["0", 1]], [[True, 1]],
              [[0, 0]], [[0, "1"]]]  # fmt: skip
POINTS = [((0, 0.5),), ((0, 0.5), (1000, 0.01))]
SHARED = {
    "env": ([MAZE, "./lib.so:f"], TEXT),
    "env_config": ([{}, {"rows": 4}], [1, "x", None, [], {1: 2}]),
    "seed": ([None, 0, 7, 2**64, np.int64(3), 3.0], [-1, "1", 1.5, True, math.nan]),
    "preset": (["auto", "none", "ars", "es"], ["Auto!", None, 1, []]),
    "engine": (["auto", "threads", "ray"], ["thread", None, 1, []]),
    "num_workers": ([0, 3], [-1, *INTEGER]),
    "num_threads": ([None, 1, 4096], [0, -1, 4097, "1", 1.5, True]),
    "address": ([None, "local", "auto"], [1, "", []]),
    "slots_per_actor": ([None, 1], [0, -1, "1", 1.5, True]),
    "unit_pairs": ([1, 4096], [0, 4097, *INTEGER]),
    "max_episode_steps": (
        [None, 1, 2**32 - 1, ((0, 5), (100, 50))],
        [0, 2**32, "1", 1.5, True, [[0, 1.5]], *BAD_POINTS],
    ),
    "noise_stdev": ([1e-30, 0.02, 1, 1e30, *POINTS], [0, 1e-50, 1e50, *NUMBER, *BAD_POINTS]),
    "noise_size": ([1, 2**32], [0, 2**32 + 1, *INTEGER]),
    "noise_storage": (["auto", "generated", "table"], ["tables", None, 1]),
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
STEPSIZE = ([1e-30, 0.01, 1, *POINTS], [0, 1e-50, 1e50, *NUMBER, *BAD_POINTS])
CASES = {
    ESConfig: {
        **SHARED,
        "episodes_per_batch": ([1, 1000, 1e3], [0, -1, 2**32 + 1, *INTEGER]),
        "train_batch_size": ([0, 10], [-1, 2**53 + 1, *INTEGER]),
        "return_proc_mode": (["centered_rank", "normalized", "raw"], ["rank", None, 1]),
        "optimizer": (["adam", "adamw", "sgd", "clipup"], ["Adamm", None, 1]),
        "stepsize": STEPSIZE,
        "momentum": ([0, 0.9], [1, 1.5, *NUMBER]),
        "max_speed": ([None, 0.1], [0, 1e50, -1, "1", math.nan, True, []]),
        "l2_coeff": ([0, 0.005], [1e50, *NUMBER]),
    },
    ARSConfig: {
        **SHARED,
        "num_rollouts": ([1, 32, 1e3], [0, 2**31 + 1, *INTEGER]),
        "rollouts_used": ([1, 32], [0, 2**31 + 1, *INTEGER]),
        "sgd_stepsize": STEPSIZE,
    },
}
CONFIGS = list(CASES)


def cases(side):
    return [
        (config, name, value)
        for config, options in CASES.items()
        for name, values in options.items()
        for value in values[side]
    ]


@pytest.mark.parametrize("config", CONFIGS)
def test_every_option_has_cases(config):
    assert CASES[config].keys() == config.options().keys()


@pytest.mark.parametrize(("kind", "name", "value"), cases(0))
def test_option_accepts(kind, name, value):
    config = kind().update_from_dict({name: value})
    got = getattr(config, name)
    assert got == (tuple(value) if isinstance(value, list) else value)
    assert name in config.set_by_user
    assert kind(**{name: value}) == config


@pytest.mark.parametrize(("kind", "name", "value"), cases(1))
def test_option_refuses(kind, name, value):
    config = kind()
    before = config.to_dict()
    with pytest.raises(ValueError, match=name) as caught:
        config.training(gamma=0.5, **{name: value}) if name != "gamma" else config.set(name, value)
    assert len(str(caught.value)) < 400
    assert config.to_dict() == before  # nothing changed, not even what did fit
    assert config.set_by_user == {}


@pytest.mark.parametrize("config", CONFIGS)
def test_every_default_passes_its_own_check(config):
    for name, option in config.options().items():
        default = getattr(config(), name)
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


@pytest.mark.parametrize(
    ("old", "new", "value"),
    [("deltas_used", "rollouts_used", 5), ("stepsize", "sgd_stepsize", 0.5),
     ("num_rollout_workers", "num_workers", 2), ("num_env_runners", "num_workers", 2),
     ("offset", "reward_offset", 1.0)],
)  # fmt: skip
def test_old_spellings_of_ars(old, new, value):
    assert getattr(ARSConfig().training(**{old: value}), new) == value
    with pytest.warns(UserWarning, match="return_proc_mode.*means nothing here"):
        assert ARSConfig().training(return_proc_mode="centered_rank") == ARSConfig()


def test_rllibs_defaults_of_ars():
    config = ARSConfig()
    assert (config.noise_stdev, config.num_rollouts, config.rollouts_used) == (0.02, 32, 32)
    assert (config.sgd_stepsize, config.action_noise_std, config.eval_prob) == (0.01, 0.0, 0.03)
    assert (config.report_length, config.reward_offset) == (10, 0.0)
    assert config.observation_filter == "MeanStdFilter"


def test_rollouts_used_are_at_most_all():
    assert ARSConfig(num_rollouts=5).resolved().rollouts_used == 5
    with pytest.raises(ValueError, match="rollouts_used must be at most num_rollouts, 5, got 6"):
        ARSConfig(num_rollouts=5, rollouts_used=6).build()


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


@pytest.mark.parametrize(("algorithm", "env"), PRESETS)
def test_presets_fit_their_algorithm(algorithm, env):
    if "rollmill/" not in env:
        pytest.importorskip("mujoco")
    if env == "Pusher-v4":
        pytest.skip("Gymnasium's Pusher-v4 refuses this mujoco")
    preset, kind = PRESETS[algorithm, env], ALGORITHMS[algorithm]
    kind().environment(env).training(**preset.config)
    with kind().environment(env).training(num_threads=1).build() as algo:
        assert preset.stop.keys() <= set(algo.result_names())
        assert all(getattr(algo.config, name) == value for name, value in preset.config.items())


def test_presets_are_found_by_name():
    assert find_preset("ES", "no such").config == {}
    assert find_preset("ARS", "Swimmer-v4", "none").config == {}
    named = find_preset("ARS", "Swimmer-v4", "ars")
    assert named is PRESETS["ARS", "Swimmer-v4"]
    with pytest.raises(ValueError, match="one of ARS, got --run ES"):
        find_preset("ES", "Swimmer-v4", "ars")
    with pytest.raises(ValueError, match=r'preset .ars.: "Swimer-v4". Did you mean "Swimmer-v4"'):
        ARSConfig(env="Swimer-v4", preset="ars").resolved()


@pytest.mark.parametrize(
    ("task", "alpha", "nu", "n", "b", "shift"),
    [("Swimmer", 0.02, 0.01, 1, 1, 0), ("Hopper", 0.01, 0.025, 8, 4, -1),
     ("HalfCheetah", 0.02, 0.03, 32, 4, 0), ("Walker2d", 0.03, 0.025, 40, 30, -1),
     ("Ant", 0.015, 0.025, 60, 20, -1), ("Humanoid", 0.02, 0.0075, 230, 230, -5)],
)  # fmt: skip
@pytest.mark.parametrize("version", ["v4", "v5"])
def test_the_papers_settings(task, alpha, nu, n, b, shift, version):
    config = ARSConfig(env=f"{task}-{version}").resolved()
    assert (config.sgd_stepsize, config.noise_stdev) == (alpha, nu)
    assert (config.num_rollouts, config.rollouts_used) == (n, b)
    assert config.reward_offset == -shift
    assert config.fcnet_hiddens == ()


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
    [({"env": "rollmill/Maze-v1"}, 'unknown environment .* "rollmill/Maze-v0"'),
     ({"env_config": {"row": 3}}, 'option "row". Did you mean "rows"'),
     ({"env_config": {"rows": -1}}, "rows"),
     ({"noise_size": 100}, "noise_size must be at least 6084, the number of parameters")],
)  # fmt: skip
def test_build_refuses(options, message):
    with pytest.raises(ValueError, match=message):
        ESConfig().training(**options).build()


@pytest.mark.parametrize("module", [es_config, ars_config])
def test_examples_in_docstrings(module):
    failed, tried = doctest.testmod(module)
    assert tried > 3
    assert not failed
