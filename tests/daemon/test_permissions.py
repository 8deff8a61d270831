"""Which calls run unasked: rules of people and answers, commands, paths and links."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zotd.base.limits import Limits
from zotd.daemon.permission_file import parse
from zotd.daemon.permissions import Allow, Ask, Deny, Rules, Whereabouts, answered, judge, subject_of
from zotd.protocol.session import Approval

NONE = Rules()


def rules(*written: dict[str, Any]) -> Rules:
    return parse(Path("permissions.json"), {"rules": [*written]})


def allow(tool: str, pattern: str | None = None, **more: Any) -> dict[str, Any]:
    return {"tool": tool, "decision": "allow", **more, **({} if pattern is None else {"pattern": pattern})}


def deny(tool: str, pattern: str | None = None, **more: Any) -> dict[str, Any]:
    return {**allow(tool, pattern, **more), "decision": "deny"}


@dataclass(frozen=True)
class Session:
    """A folder with a home beside it, and rules. `says` is what becomes of a call."""

    where: Whereabouts
    file: Rules = NONE
    own: Rules = NONE
    policy: Approval = "rules"

    def having(self, *written: dict[str, Any], **more: Any) -> Session:
        return replace(self, file=rules(*written), **more)

    def says(self, tool: str, owner: str = "", /, **args: Any) -> str:
        said = judge(self.policy, self.file, self.own, subject_of(tool, args, self.where, owner))
        return {Allow: "allow", Deny: "deny", Ask: "ask"}[type(said)]

    def bash(self, command: str) -> str:
        return self.says("bash", command=command)

    def answering(self, decision: Any, tool: str, /, **args: Any) -> Session:
        left = answered(subject_of(tool, args, self.where), decision)
        return replace(self, own=self.own.plus(left, Limits().permissions_of_session))


@pytest.fixture
def session(tmp_path: Path) -> Session:
    root = Path(os.path.realpath(tmp_path))
    for name in ("work/src", "home", "elsewhere"):
        (root / name).mkdir(parents=True)
    return Session(Whereabouts(root / "work", str(root / "home"), str(root / "home")))


def test_auto_runs_everything_and_rules_ask_where_no_rule_says_anything(session: Session) -> None:
    assert session.bash("make") == "ask"
    assert session.having(deny("*"), policy="auto").bash("make") == "allow"


def test_a_command_runs_when_each_of_its_parts_may(session: Session) -> None:
    session = session.having(allow("bash", "git *"), allow("bash", "make"))
    for command in ("git", "git status", "make && git add a || git 'x y'; make | git apply"):
        assert session.bash(command) == "allow"
    for command in ("make x", "git a && rm b", "git $(rm b)", "git a > b", "GIT=1 git a", "git a\nrm b", ""):
        assert session.bash(command) == "ask"


def test_a_rule_that_denies_beats_those_that_allow_and_counts_for_any_part(session: Session) -> None:
    session = session.having(allow("*"), allow("bash", "*"), deny("bash", "rm *", reason="ask me"))
    assert session.bash("ls") == "allow"
    for command in ("rm a", "ls && rm a", "ls | 'r'm -rf a", "/bin/rm a", "../bin/rm"):
        assert session.bash(command) == "deny"
    # Nobody can tell what these run, so that they may run `rm`.
    for command in ("r\\m a", "$(echo rm) a", "ls; (rm a)", "rm a &"):
        assert session.bash(command) == "ask"
    said = judge("rules", session.file, NONE, subject_of("bash", {"command": "rm"}, session.where))
    assert isinstance(said, Deny)
    assert said.reason == "ask me"


def test_a_denial_without_a_reason_names_its_rule(session: Session) -> None:
    said = judge(
        "ask", rules(deny("bash", "rm *")), NONE, subject_of("bash", {"command": "rm"}, session.where)
    )
    assert isinstance(said, Deny)
    assert said.reason == "a rule denies it: bash rm *"


def test_a_rule_without_a_pattern_is_for_every_call_of_its_tools(session: Session) -> None:
    session = session.having(allow("bash"), allow("github_*"), deny("github_delete*"))
    assert session.bash("anything > $(at) & all") == "allow"
    assert session.says("github_list", "github", repo="x") == "allow"
    assert session.says("github_delete_repo", "github") == "deny"
    assert session.says("weather", "weather") == "ask"


def test_asking_leaves_out_what_was_answered_and_not_what_was_written(session: Session) -> None:
    session = session.having(allow("bash", "git *"), allow("bash", "make", answered=True), policy="ask")
    assert session.bash("git status") == "ask"
    assert session.bash("make") == "allow"
    assert session.having(deny("bash", "make"), policy="ask").bash("make") == "deny"


def test_rules_that_could_not_be_read_let_nothing_run(session: Session) -> None:
    session = replace(session.answering("allow", "bash", command="make"), file=Rules(broken=True))
    assert session.bash("make") == "ask"
    assert session.answering("deny", "bash", command="rm").bash("rm") == "deny"


def test_a_tool_of_an_extension_that_is_called_like_a_built_in_one_gets_nothing_of_its_patterns(
    session: Session,
) -> None:
    session = session.having(allow("bash", "ls *"), allow("write", "**"))
    assert session.says("bash", "evil", command="ls") == "ask"
    assert session.says("write", "evil", path="a") == "ask"
    assert session.having(allow("bash"), deny("bash", "rm *")).says("bash", "evil", command="ls") == "ask"


def test_a_file_is_looked_up_where_it_really_is(session: Session) -> None:
    cwd, home = session.where.cwd, Path(session.where.home)
    session = session.having(
        allow("write", "src/**"), allow("read", "~/notes/*.md"), allow("edit", "**/*.py")
    )
    (cwd / "out").symlink_to("../elsewhere")
    (cwd / "src" / "link").symlink_to("../../elsewhere")
    (cwd / "src" / "file").symlink_to("../Makefile")
    for path in ("src/a", "./src/b/c.txt", f"{cwd}/src/.hidden", f"out/../{cwd.name}/src/a", "src"):
        assert session.says("write", path=path) == "allow", path
    for path in (
        "a",
        "src/../a",
        "src/link/a",
        "src/file",
        "out/a",
        "srcs/a",
        "/etc/passwd",
        "~nobody_here/a",
        "",
        "a\0b",
    ):
        assert session.says("write", path=path) == "ask", path
    assert session.says("write", path=["src/a"]) == "ask"
    assert session.says("read", path="~/notes/a.md") == "allow"
    assert session.says("read", path=f"{home}/notes/a.md") == "allow"
    assert session.says("read", path="~/notes/b/a.md") == "ask"
    assert session.says("edit", path="a.py") == "allow"
    assert session.says("edit", path="a/b/c.py") == "allow"
    assert session.says("edit", path="../a.py") == "ask"


def test_a_folder_that_becomes_a_link_is_not_what_was_allowed(session: Session) -> None:
    cwd = session.where.cwd
    (cwd / "gen").symlink_to("../elsewhere")
    session = session.having(allow("write", "gen/**"), allow("write", f"{cwd}/gen/*"))
    assert session.says("write", path="gen/a") == "ask"


def test_a_rule_that_denies_a_path_holds_on_every_way_there(session: Session) -> None:
    cwd = session.where.cwd
    (cwd / "secret").mkdir()
    (cwd / "way").symlink_to("secret")
    (cwd / ".env").symlink_to("../elsewhere/env")
    session = session.having(allow("*"), deny("read", "secret/"), deny("read", ".env"), deny("read", "~/x"))
    for path in ("secret", "secret/a", "way/a", "way/../secret/b", ".env", "../elsewhere/env", "~/x"):
        assert session.says("read", path=path) == "deny", path
    assert session.says("read", path="a") == "allow"
    assert session.says("write", path="secret/a") == "allow"
    assert session.says("read", path=3) == "ask"


def test_an_answer_for_a_file_holds_for_that_file_and_tool(session: Session) -> None:
    (session.where.cwd / "b").symlink_to("src/a*")
    session = replace(session, policy="ask").answering("allow", "write", path="b")
    assert session.says("write", path="src/a*") == "allow"
    assert session.says("write", path="src/ab") == "ask"
    assert session.says("edit", path="src/a*") == "ask"


def test_an_answer_for_a_command_holds_for_its_words(session: Session) -> None:
    session = replace(session, policy="ask").answering("allow", "bash", command="make -k && echo 'a * $b'")
    for command in ("make -k", "make  '-k'; echo 'a * $b'"):
        assert session.bash(command) == "allow"
    for command in ("make", "make -k x", "echo 'a x $b'", "make -k &"):
        assert session.bash(command) == "ask"


@pytest.mark.parametrize(
    ("command", "part"),
    [
        ("cd build && rm -rf x", "rm -rf x"),
        ("cat a.sh | sh", "sh"),
        ("export A=b; make", "make"),
        ("for x in 1; do ls; done", "ls"),
    ],
)
def test_an_answer_for_parts_that_need_each_other_holds_for_all_of_it(
    session: Session, command: str, part: str
) -> None:
    session = replace(session, policy="ask").answering("allow", "bash", command=command)
    assert session.bash(command) == "allow"
    assert session.bash(part) == "ask"
    assert session.bash(f"{command}; ls") == "ask"


def test_what_was_answered_for_a_program_alone_does_not_let_it_read_from_a_pipe(session: Session) -> None:
    session = session.having(allow("bash", "curl *")).answering("allow", "bash", command="sh")
    assert session.bash("sh") == "allow"
    assert session.bash("curl x | sh") == "ask"
    assert session.having(allow("bash", "curl *"), allow("bash", "sh")).bash("curl x | sh") == "allow"


@pytest.mark.parametrize("first", ["cd build", "export PATH=/x", "read PATH", "getopts ab PATH -a"])
def test_what_was_answered_one_by_one_is_not_an_answer_for_both_where_one_changes_the_other(
    session: Session, first: str
) -> None:
    session = replace(session, policy="ask").answering("allow", "bash", command=first)
    session = session.answering("allow", "bash", command="./run")
    assert (session.bash(first), session.bash("./run")) == ("allow", "allow")
    assert session.bash(f"{first} && ./run") == session.bash(f"./run; {first}; ./run") == "ask"
    written = replace(session, policy="rules").having(allow("bash", first))
    assert written.bash(f"{first} && ./run") == "ask"
    written = written.having(allow("bash", first), allow("bash", "./run"))
    assert written.bash(f"{first} && ./run") == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "printf -v 'a[$(touch made)]' x",
        "printf -vPATH /x; ls",
        "test -v 'a[$(touch made)]'",
        "command test -v 'a[$(touch made)]'",
        "read 'a[$(touch made)]'",
        "unset 'a[`touch made`]'",
        "let 'a=b'",
        "wait -p 'a[x]' 1; ls",
    ],
)
def test_what_a_shell_computes_of_quoted_words_is_more_than_plain_words(
    session: Session, command: str
) -> None:
    session = session.having(
        allow("bash", f"{command.split()[0]} *"), allow("bash", "ls"), allow("bash", "wait *")
    )
    assert session.bash(command) == "ask"


def test_a_denial_holds_for_a_command_and_not_for_its_harmless_parts(session: Session) -> None:
    session = replace(session, policy="ask").answering("allow", "bash", command="ls")
    session = session.answering("deny", "bash", command="ls && rm a").answering("deny", "bash", command="mv")
    assert session.bash("ls && rm a") == "deny"
    assert session.bash("ls") == "allow"
    assert session.bash("ls; mv") == "deny"
    left = answered(subject_of("bash", {"command": "mv"}, session.where), "deny", "no moving")
    assert [rule.reason for rule in left] == ["no moving"]


def test_an_answer_for_a_command_or_a_tool_holds_in_its_folder_and_below(session: Session) -> None:
    session = replace(session, policy="ask").answering("allow", "bash", command="make")
    session = session.answering("allow", "weather", city="x")
    below = replace(session, where=replace(session.where, cwd=session.where.cwd / "src"))
    other = replace(session, where=replace(session.where, cwd=session.where.cwd.parent / "elsewhere"))
    for each, said in ((session, "allow"), (below, "allow"), (other, "ask")):
        assert each.bash("make") == said
        assert each.says("weather", "weather", city="y") == said


@pytest.mark.parametrize(
    ("tool", "args", "owner"),
    [
        ("bash", {"command": ""}, ""),
        ("bash", {"command": 1}, ""),
        ("bash", {}, ""),
        ("write", {"path": ""}, ""),
        ("write", {}, ""),
        ("bash", {"command": "ls"}, "evil"),
    ],
)
def test_an_answer_for_a_call_that_says_too_little_is_not_one_for_all_of_its_tool(
    session: Session, tool: str, args: dict[str, Any], owner: str
) -> None:
    assert answered(subject_of(tool, args, session.where, owner), "allow") == ()


def test_a_folder_that_is_a_link_is_closed_all_the_same_and_not_opened(session: Session) -> None:
    cwd = session.where.cwd
    (cwd.parent / "way").symlink_to("work")
    assert session.having(deny("bash", folder=str(cwd.parent / "way"))).bash("ls") == "deny"
    assert session.having(allow("bash", folder=str(cwd.parent / "way"))).bash("ls") == "ask"
    for folder in (f"{cwd.parent}", f"{cwd.parent}/", "/"):
        assert session.having(allow("bash", folder=folder)).bash("ls") == "allow"
    assert session.having(deny("bash", folder=str(cwd / "src"))).bash("ls") == "ask"


def test_of_too_many_answers_the_oldest_are_forgotten_and_none_is_kept_twice(session: Session) -> None:
    def answer(*commands: str) -> list[Any]:
        return [
            rule
            for command in commands
            for rule in answered(subject_of("bash", {"command": command}, session.where), "allow")
        ]

    kept = NONE.plus(answer("a", "b", "a"), 3).plus(answer("c", "a"), 3)
    assert [str(rule) for rule in kept.rules] == ["bash b", "bash c", "bash a"]
    assert [str(rule) for rule in kept.plus(answer("d"), 3).rules] == ["bash c", "bash a", "bash d"]


@given(st.text("echo rm;|&$`'\"\\(){}<>*=~!#\n\t", max_size=24))
def test_where_only_echo_is_allowed_no_command_with_anything_else_in_it_is(text: str) -> None:
    where = Whereabouts(Path("/w"), "/h", "/h", real=lambda path: path)
    session = Session(where, rules(allow("bash", "echo *")))
    if session.bash(text) == "allow":
        words = subject_of("bash", {"command": text}, where).parts
        assert words
        assert {part.words[0] for part in words} == {"echo"}
    assert session.bash(f"echo {text!r}; rm") != "allow"


def test_judging_asks_nothing_of_the_disk_but_where_links_lead() -> None:
    links = {"/w/src": "/data/src"}

    def real(path: str) -> str:
        return next((to + path[len(link) :] for link, to in links.items() if path.startswith(link)), path)

    session = Session(
        Whereabouts(Path("/w"), "/h", "/h", real), rules(allow("write", "src/*"), deny("read", "src/"))
    )
    assert session.says("write", path="src/a") == "ask"
    assert session.says("read", path="/data/src/a") == "deny"
