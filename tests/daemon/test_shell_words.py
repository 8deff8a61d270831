"""Which shell commands are understood, held against what real shells make of them."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from zotd.daemon.shell_words import Part, WordPattern, exactly, split, stand_alone


@pytest.mark.parametrize(
    ("command", "parts"),
    [
        ("git status", [("git", "status")]),
        ("  git\tstatus ", [("git", "status")]),
        ("make && make test || echo no; ls", [("make",), ("make", "test"), ("echo", "no"), ("ls",)]),
        ("git commit -m 'a; b $(c) \\'", [("git", "commit", "-m", "a; b $(c) \\")]),
        ('echo "it\'s" \'"\' a"b"c ""', [("echo", "it's", '"', "abc", "")]),
        ("r'm' -rf x", [("rm", "-rf", "x")]),
        ("dd if=a of=b@0", [("dd", "if=a", "of=b@0")]),
        ("git show HEAD^:a.txt 50%", [("git", "show", "HEAD^:a.txt", "50%")]),
        ("echo 'é “x”'", [("echo", "é “x”")]),
    ],
)
def test_plain_words_are_taken_apart_as_a_shell_would(command: str, parts: list[tuple[str, ...]]) -> None:
    assert split(command) == tuple(map(Part, parts))


def test_what_a_pipe_feeds_is_told_apart() -> None:
    assert split("cat a | sh; ls") == (Part(("cat", "a")), Part(("sh",), fed=True), Part(("ls",)))


@pytest.mark.parametrize(
    "command",
    [
        *("", " ", "''", "a;", ";a", "a &&", "&& a", "a || || b", "a ||| b", "a;;b", "a |& b", "a & b", "a&"),
        *("a > b", "a >> b", "a < b", "a 2>&1", "a <<x", "<(a)", "(a)", "{ a; }", "a $x", "a ${x}", "a $(b)"),
        *("a `b`", 'a "$x"', 'a "`b`"', "a \\b", "a\\\nb", 'a "\\b"', "$'a'", 'a $"b"', "a ~", "a ~/b", "a*"),
        *(
            "a *",
            "a ?",
            "a [b]",
            "a {b,c}",
            "a # b",
            "! a",
            'a "!b"',
            "X=1 a",
            "X+=1",
            "X'='1",
            "a 'b",
            'a "b',
        ),
        *(
            "a\nb",
            "a 'b\nc'",
            "a\rb",
            "a\0b",
            "a\x1b[2J",
            "a\u2028b",
            "a \u00a0b",
            "é",
            "a\u00a0b",
            "a '\ud800'",
        ),
        *("if a", "time a", "for x in a", "while a", "coproc a", "function a", "case a in b", "then a"),
        *("a; do b; done", "'time' a", "%1", "-c a", "+x", "=a"),
    ],
)
def test_anything_else_is_not_understood(command: str) -> None:
    assert split(command) is None


@pytest.mark.parametrize(
    ("command", "alone"),
    [
        ("a b", True),
        ("a && b; c", True),
        ("cd x", True),
        ("cd x && a", False),
        ("a; . b", False),
        ("a | b", False),
        ("export A=b; c", False),
    ],
)
def test_a_part_means_the_same_alone_unless_a_pipe_or_the_shell_itself_is_part_of_it(
    command: str, alone: bool
) -> None:
    parts = split(command)
    assert parts is not None
    assert stand_alone(parts) is alone


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("git *", ["git", "git a", "git a b"], ["gita", "a git", "git-x a"]),
        ("git log", ["git log", "git 'log'"], ["git", "git log -p"]),
        ("npm run test:*", ["npm run test:", "npm run test:unit"], ["npm run test", "npm run test:a b"]),
        ("a * c", ["a b c", "a '' c", "a 'b b' c"], ["a c", "a b b c"]),
        ("a *b*d", ["a bd", "a xbxd", "a 'b d'"], ["a db", "a b d", "a"]),
        ("*", ["a", "a b"], []),
        ("'*' \"* b\"", ["'*' '* b'"], ["a '* b'"]),
        ("a *'*'", ["a '*'", "a 'x*'"], ["a x", "a", "a '*' b"]),
    ],
)
def test_a_star_is_anything_in_a_word_and_any_rest_at_the_end(
    pattern: str, matching: list[str], others: list[str]
) -> None:
    made = WordPattern(pattern)
    for command in matching:
        assert made.matches(tuple(shlex.split(command)))
    for command in others:
        assert not made.matches(tuple(shlex.split(command)))


@pytest.mark.parametrize("pattern", ["", "  ", "git $x", "a; b", "a && b", "a 'b", "a\nb", "a?", "é"])
def test_a_pattern_that_would_mean_more_than_words_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        WordPattern(pattern)


def test_a_pattern_that_almost_fits_a_long_word_is_found_out_quickly() -> None:
    assert not WordPattern("a " + "*a" * 200 + "b").matches(("a", "a" * 100_000))


words = st.lists(
    st.text(st.characters(codec="utf-8").filter(lambda c: c.isprintable()), max_size=8),
    min_size=1,
    max_size=4,
)


@given(words, words)
def test_the_exact_pattern_of_words_matches_them_and_no_others(one: list[str], other: list[str]) -> None:
    pattern = WordPattern(exactly(tuple(one)))
    assert pattern.matches(tuple(one))
    assert pattern.matches(tuple(other)) == (one == other)


# Commands as somebody would write them who wants to get past a rule: most of them almost plain.
plain = st.sampled_from(
    ["echo", "x", "-rf", "a.b", "'q r'", '"q"', "''", "X=1", "%", "^", "@", "'$x'", "'\\'"]
)
odd = st.sampled_from(
    [
        *"'\"\\$`(){}<>&;|*?[]~#!=%\n\r\0\x1b\u00a0\u2028é",
        "$(rm)",
        "`rm`",
        "${x}",
        ">f",
        "2>&1",
        "|&",
        "&&",
        "||",
        "if",
        "then",
        "fi",
        "time",
        "rm",
        '"\\"',
        '"$x"',
        "\\;",
        "';",
        "X=",
        "cd",
    ]
)
joins = st.sampled_from([" ", " ", " ", "\t", "", " && echo ", "||echo ", ";echo ", " | echo "])
commands = st.lists(st.tuples(joins, plain | plain | plain | odd), max_size=7).map(
    lambda pairs: "echo" + "".join(join + word for join, word in pairs)
)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder without anything in it, for a shell that finds no program."""
    return tmp_path_factory.mktemp("bare")


# `echo` tells on a channel of its own how many words it was called with and which, wherever its output goes.
HARNESS = 'exec 9>&1; echo() { printf "%s\\037" "$#" "$@" >&9; }; eval "$1"'


def calls_of_echo(shell: str, command: str, folder: Path) -> list[tuple[str, ...]]:
    """What a real shell calls `echo` with. Fails where it does anything else that can be seen."""
    done = subprocess.run(
        [shell, "-c", HARNESS, "x", command],
        cwd=folder,
        env={"PATH": str(folder), "LC_ALL": "C.UTF-8"},
        capture_output=True,
        timeout=20,
    )
    assert done.stderr == b""
    assert list(folder.iterdir()) == []
    heard = done.stdout.decode().split("\x1f")[:-1]
    calls = []
    while heard:
        count = int(heard[0])
        calls.append(tuple(heard[1 : count + 1]))
        del heard[: count + 1]
    return calls


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(command=commands)
@example(command="echo 'a b' \"c\" && echo d; echo e^f%g || echo x")
@example(command="echo a|echo b")
def test_what_is_understood_runs_in_real_shells_as_it_was_taken_apart(command: str, bare: Path) -> None:
    parts = split(command)
    if parts is None or any(part.words[0] != "echo" for part in parts):
        return
    wanted = [part.words[1:] for part in parts]
    for shell in ("/bin/sh", "/bin/bash"):
        heard = calls_of_echo(shell, command, bare)
        if "||" in command:  # what follows does not run, since `echo` succeeds
            assert {*heard} <= {*wanted}
        else:
            assert sorted(heard) == sorted(wanted)
