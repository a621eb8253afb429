"""What the documents show is run: blocks of Python, and commands as far as they are quick."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from rollmill import ARSConfig, ESConfig
from rollmill.cli.main import main, parse

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")), *ROOT.glob("CONTRIBUTING.md")]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Each word of a command line that starts another command.
BREAKS = {"&&", "||", ";", "|", "&", ">", "2>&1"}


def blocks(document, *languages):
    return [text for language, text in BLOCK.findall(document.read_text()) if language in languages]


def commands(document):
    """The arguments of every `rollmill` in the console blocks of a document."""
    found = []
    for text in blocks(document, "console", "bash", "sh", "shell"):
        for line in text.replace("\\\n", " ").splitlines():
            words = shlex.split(line.removeprefix("$ "), comments=True)
            begins = [i for i, word in enumerate(words) if Path(word).name == "rollmill"]
            for begin in (i for i in begins if i == 0 or words[i - 1] in BREAKS):
                end = next((i for i in range(begin, len(words)) if words[i] in BREAKS), None)
                found.append(words[begin + 1 : end])
    return found


def is_quick(arguments):
    """Whether a command needs nothing but this process and a few seconds."""
    other = {"--num-workers", "--address", "--env", "--preset"}
    given = {text.partition("=")[0] for text in arguments}
    return arguments[0] == "info" or (arguments[0] == "train" and not other & given)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_python_blocks_run(document):
    """In order, as one program, in an empty directory."""
    names = {"__name__": "document"}
    found = blocks(document, "python")
    if any("import ray" in text for text in found):  # a Ray of its own, in a process of its own
        subprocess.run([sys.executable, "-c", "\n".join(found)], check=True)
        return
    for number, text in enumerate(found, 1):
        exec(compile(text, f"{document.name}, block {number}", "exec"), names)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_commands_run_or_at_least_parse(document, capsys):
    for arguments in commands(document):
        assert parse(arguments).command == arguments[0]
        if is_quick(arguments):
            assert main(arguments) == 0, (arguments, capsys.readouterr().err)


def test_the_readme_shows_something():
    readme = DOCUMENTS[0]
    assert len(blocks(readme, "python")) > 1
    assert len(commands(readme)) > 3
    assert any(is_quick(arguments) for arguments in commands(readme))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)#\s]+)", document.read_text()):
        if "://" not in target:
            assert (document.parent / target).exists(), target


@pytest.mark.parametrize("config", [ESConfig, ARSConfig])
def test_every_option_is_documented_with_its_default(config):
    text = (ROOT / "docs" / "algorithms.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| `(.*?)` \| (.+) \|$", text, re.MULTILINE)
    for name, option in config.options().items():
        default = getattr(config(), name)
        shown = json.dumps(default).strip('"')
        assert (name, shown, option.metadata["doc"]) in [
            (row, value.strip('"'), doc) for row, value, doc in rows
        ], name
