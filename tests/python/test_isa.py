import pytest
from rollmill._isa import available, isa_name
from rollmill._rng import normal_fill


def test_base_always_runs_and_the_widest_is_the_default(monkeypatch):
    monkeypatch.delenv("ROLLMILL_ISA", raising=False)
    names = available()
    assert names[0] == "base"
    assert names == sorted(names, key=["base", "v3", "v4"].index)
    assert isa_name() == isa_name("auto") == names[-1]
    for name in names:
        assert isa_name(name) == name


@pytest.mark.parametrize("name", ["base", "v3", "v4"])
def test_environment_variable_chooses_and_the_argument_wins(monkeypatch, name):
    if name not in available():
        pytest.skip(f"{name} does not run here")
    monkeypatch.setenv("ROLLMILL_ISA", name)
    assert isa_name() == name
    assert isa_name("base") == "base"
    assert isa_name("auto") == available()[-1]
    monkeypatch.setenv("ROLLMILL_ISA", "")
    assert isa_name() == available()[-1]


def test_unknown_names_are_refused_and_say_where_they_come_from(monkeypatch):
    with pytest.raises(ValueError, match=r"^isa must be one of base, v3, v4, auto, got 'avx2'$"):
        isa_name("avx2")
    monkeypatch.setenv("ROLLMILL_ISA", "V3")
    with pytest.raises(ValueError, match=r"^ROLLMILL_ISA must be one of .* got 'V3'$"):
        isa_name()
    with pytest.raises(ValueError, match="ROLLMILL_ISA"):
        normal_fill(1, "noise", 0, 0, 0, 5)


def test_a_build_that_does_not_run_here_is_refused():
    missing = {"base", "v3", "v4"} - set(available())
    if not missing:
        pytest.skip("every build runs here")
    for name in missing:
        with pytest.raises(ValueError, match=f"^isa asks for '{name}', which this processor"):
            isa_name(name)
