"""Owns the flags: one table gives parsing, help and the refusal of what this version cannot do."""

from __future__ import annotations

import argparse

from zotd import __version__
from zotd.base.log import LEVELS
from zotd.base.reasoning import named
from zotd.cli.main import COMMANDS

TYPE_CHECKING = False  # what `typing` would say, without its three milliseconds
if TYPE_CHECKING:
    from typing import Any, NoReturn

REASONING = ("off", "minimum", "minimal", "low", "medium", "high", "xhigh", "max", "maximum")
MODES = ("print", "json", "rpc")

LATER = {
    "--max-cost-usd": "prices of models",
    "--fallback-model": "retries",
}
"""Flags of zot and of later versions, with what each waits for. They are refused, never ignored."""
UNNEEDED = ("--with-skills",)
"""Flags of zot that ask for what is so anyway: taken, and left out of the help."""

_EPILOG = """\
modes:
  zotd -p PROMPT...          print the answer
  zotd --json PROMPT...      print every event as a JSON line, the result last
  zotd rpc                   serve one client on standard input and output (same as --mode rpc)
  zotd rpc --listen unix:PATH  serve any number of clients on a Unix socket
  zotd model list            list the models that can be installed to run here, without a key
  zotd model install smollm2 fetch the smallest of them
  zotd sessions              list, show, export, import, fork, rename or remove saved sessions
  zotd trust [DIR]           let the extensions that DIR brings run in the sessions of editors
  zotd daemon                start, stop, restart or look at the daemon that your editors share
  zotd service install       have systemd or launchd keep that daemon
  zotd doctor                check everything that zotd needs
  zotd uninstall             end what runs and take away what zotd installed
  --connect auto             before any of the first three: run it in the shared daemon, started if need be

exit codes:
  0 answered, 1 agent or provider error, 2 usage, 3 blocked or denied, 4 a limit, 5 credentials,
  124 time-out, 130 interrupted
"""


class UsageError(Exception):
    """The command line is wrong; the message names what and the nearest right thing."""


class Flags(argparse.Namespace):
    """The command line, parsed. `mode` is print, json, rpc or models; `help_text` is all there is to show."""

    mode: str = ""
    prompt: str = ""
    provider: str = ""
    model: str = ""
    api_key: str = ""
    base_url: str = ""
    cwd: str = ""
    script: str = ""
    reasoning: str = ""
    tools: tuple[str, ...] | None = None
    skills: tuple[str, ...] | None = None
    system_prompt: str = ""
    append_system_prompt: tuple[str, ...] = ()
    extensions: tuple[str, ...] = ()
    discover_extensions: bool = True
    listen: tuple[str, ...] = ()
    connect: str = ""
    idle_timeout: float = 0.0
    log_level: str = ""
    log: str = ""
    daemon: bool = False
    approval: str = ""
    timeout: float = 0.0
    max_steps: int = 0
    latest: bool = False
    session: str = ""
    no_session: bool = False
    output_schema: str = ""
    temperature: float | None = None
    insecure: bool = False
    help_text: str = ""


class Lines(argparse.RawDescriptionHelpFormatter):
    """One line a flag: wrapping would import textwrap, whose patterns are compiled at import."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, 2, 30, 100)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return [text]


class Parser(argparse.ArgumentParser):
    """Raises UsageError instead of ending the process, and takes no beginning of a flag for the flag."""

    def __init__(self, **given: Any) -> None:
        defaults: dict[str, Any] = {
            "add_help": False,
            "allow_abbrev": False,
            "exit_on_error": False,
            "formatter_class": Lines,
        }
        super().__init__(**defaults | given)

    def error(self, message: str) -> NoReturn:
        raise UsageError(message)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """What argparse gives, with only the name of what it does not know: a value may be a key."""
        known, rest = self.parse_known_args(args, namespace)
        if rest:
            raise UsageError(f"unrecognized arguments: {rest[0].partition('=')[0]}")
        return known


def parse(argv: list[str]) -> Flags:
    """Flags from the words after the program's name. Raises UsageError."""
    parser = _parser()
    end = argv.index("--") if "--" in argv else len(argv)
    _refuse_later(argv[:end])
    try:
        known, rest = parser.parse_known_intermixed_args(argv[:end])
    except argparse.ArgumentError as wrong:
        name = wrong.argument_name
        raise UsageError(f"{name}: {wrong.message}" if name else wrong.message) from None
    if rest:
        raise UsageError(_unknown(rest[0], parser))
    if known.help:
        return Flags(help_text=parser.format_help())
    if known.version:
        return Flags(help_text=f"zotd {__version__}\n")
    known.words += argv[end + 1 :]
    return _settled(known)


def _settled(known: argparse.Namespace) -> Flags:
    mode, words = _mode_of(known)
    _check_session(known)
    _check_sockets(known, mode)
    if known.no_yolo and known.approval not in (None, "ask"):
        raise UsageError(f"--no-yolo asks, --approval {known.approval} does not: give one of them")
    return Flags(
        mode=mode,
        prompt=" ".join(words),
        provider=known.provider,
        model=known.model,
        api_key=known.api_key,
        base_url=known.base_url,
        cwd=known.cwd,
        script=known.script,
        reasoning=named(known.reasoning or ""),
        tools=() if known.no_tools else known.tools,
        skills=() if known.no_skill else None,
        system_prompt=known.system_prompt,
        append_system_prompt=tuple(known.append_system_prompt),
        extensions=tuple(known.ext),
        discover_extensions=not known.no_ext,
        listen=tuple(known.listen),
        connect=known.connect or "",
        idle_timeout=known.idle_timeout,
        log_level=known.log_level or "",
        approval="ask" if known.no_yolo else known.approval or "",
        timeout=known.timeout,
        max_steps=known.max_steps,
        latest=known.latest,
        session=known.session or "",
        no_session=known.no_session,
        output_schema=known.output_schema,
        temperature=known.temperature,
        insecure=known.insecure,
    )


def _mode_of(known: argparse.Namespace) -> tuple[str, list[str]]:
    """The mode, and the words of the prompt."""
    words: list[str] = known.words
    mode = known.mode or ("json" if known.json else "print" if known.print else "rpc" if known.rpc else "")
    if known.list_models:
        return "models", words
    if mode in ("", "rpc") and words[:1] == ["rpc"]:
        mode, words = "rpc", words[1:]
    if mode == "rpc" and words:
        raise UsageError(f"rpc takes no prompt, got {words[0]!r}: prompts come over the connection")
    if mode:
        return mode, words
    if words[:1] == ["ext"]:
        raise UsageError(
            "zotd ext is not there yet: put an extension's folder into $ZOT_HOME/extensions to install it, "
            "or give it with --ext DIR for one run; its log is $ZOT_HOME/logs/ext-NAME.log"
        )
    if words and words[0] in COMMANDS:
        raise UsageError(f"{words[0]} comes first: zotd {words[0]} --help")
    raise UsageError(_aimless(words[0] if words else ""))


def _check_sockets(known: argparse.Namespace, mode: str) -> None:
    """Where to listen or to connect, and for how long."""
    if known.listen and mode != "rpc":
        raise UsageError("--listen goes with rpc")
    for address in known.listen:
        if address == "unix:":
            raise UsageError("--listen unix: names no path")
        if not address.startswith(("unix:", "ws://")):
            raise UsageError(f"--listen {address}: expected unix:PATH or ws://127.0.0.1:PORT")
    if known.connect is not None and not known.connect.strip():
        raise UsageError("--connect: expected auto or the path of a socket, got nothing")
    if known.connect and known.listen:
        raise UsageError("--connect and --listen: one joins a daemon, the other is one; give one of them")
    if known.idle_timeout and mode != "rpc":
        raise UsageError("--idle-timeout goes with rpc --listen and zotd daemon run")


def _check_session(known: argparse.Namespace) -> None:
    """Which session is meant must be clear."""
    if known.session is not None and not known.session.strip():
        raise UsageError("--session: expected a file or the id of a session, got nothing")
    given = {"--continue": known.latest, "--session": known.session, "--no-session": known.no_session}
    if len(both := [name for name, value in given.items() if value]) > 1:
        raise UsageError(f"{both[0]} and {both[1]} ask for different sessions: give one of them")


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="zotd",
        usage="zotd [flags] [-p | --json] PROMPT...\n       zotd [flags] rpc [--listen unix:PATH]",
        epilog=_EPILOG,
    )
    add = parser.add_argument
    add("words", nargs="*", help=argparse.SUPPRESS)
    add("-h", "--help", action="store_true", help="show this and exit")
    add("--version", action="store_true", help="show the version and exit")
    add("-p", "--print", action="store_true", help="run one prompt and print the answer")
    add("--json", action="store_true", help="run one prompt and print events as JSON lines")
    add("--rpc", action="store_true", help="serve clients; same as the word rpc")
    add("--mode", type=_mode, metavar="MODE", help="the same three by name: print, json or rpc")
    add(
        "--listen",
        action="append",
        default=[],
        metavar="ADDRESS",
        help="unix:PATH or ws://127.0.0.1:PORT; repeatable",
    )
    add("--connect", metavar="auto|PATH", help="join the user's daemon (auto starts it), or that socket's")
    add("--idle-timeout", type=seconds, default=0.0, metavar="S", help="end after S idle seconds")
    add("--log-level", type=_level, metavar="LEVEL", help="debug, info, warn or error; of rpc")
    add("--provider", default="", metavar="ID", help="scripted, local, ollama or openai-compatible")
    add("--model", default="", metavar="ID", help="of that provider, or a PATH.gguf to run here")
    add("--api-key", default="", metavar="KEY", help="better given by environment")
    add("--base-url", default="", metavar="URL", help="of an OpenAI-compatible server")
    add("--insecure", action="store_true", help="do not check the server's certificate")
    add("--script", default="", metavar="FILE", help="what the scripted model answers (JSON or YAML)")
    add(
        "--reasoning",
        type=_reasoning,
        metavar="LEVEL",
        help="off, minimum, low, medium, high, xhigh, max",
    )
    add("--temperature", type=_temperature, metavar="T", help="sampling temperature")
    add("--cwd", default="", metavar="DIR", help="work there instead of here")
    add("--tools", type=_names, metavar="CSV", help="offer only these built-in tools")
    add("--no-tools", action="store_true", help="offer none")
    add("--system-prompt", default="", metavar="TEXT", help="instead of the built-in one")
    add("--append-system-prompt", action="append", default=[], metavar="TEXT", help="repeatable")
    add(
        "-e",
        "--ext",
        action="append",
        type=_folder,
        default=[],
        metavar="DIR",
        help="load an extension for this run; repeatable",
    )
    add("--no-ext", "--no-extensions", action="store_true", help="load no installed extensions")
    add("--no-skill", "--no-skills", action="store_true", help="have no skills")
    for flag in UNNEEDED:
        add(flag, action="store_true", help=argparse.SUPPRESS)
    add(
        "-c",
        "--continue",
        "-r",
        "--resume",
        dest="latest",
        action="store_true",
        help="go on with the session used last here",
    )
    add("--session", metavar="PATH|ID", help="go on with that one; a PATH is made if missing")
    add("--no-session", action="store_true", help="do not save the session")
    add("--approval", type=_approval, metavar="POLICY", help="of tool calls: auto, ask or rules")
    add("--no-yolo", action="store_true", help="same as --approval ask")
    add("--timeout", type=seconds, default=0.0, metavar="S", help="give up after S seconds (exit 124)")
    add("--max-steps", type=_count, default=0, metavar="N", help="model calls in one turn (exit 4)")
    add("--output-schema", default="", metavar="FILE", help="the answer must be JSON that fits this schema")
    add("--list-models", action="store_true", help="list models and exit")
    return parser


def _folder(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("expected the folder of an extension, got nothing")
    return text


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def seconds(text: str) -> float:
    value = _number(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds above 0")
    return value


def _temperature(text: str) -> float:
    value = _number(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a number of at least 0")
    return value


def _number(text: str) -> float:
    """NaN, which is in no range, where the text is no number."""
    try:
        return float(text)
    except ValueError:
        return float("nan")


def _count(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number of at least 1")
    return value


def _mode(text: str) -> str:
    return _one_of(MODES, text)


def _reasoning(text: str) -> str:
    return _one_of(REASONING, text)


def _level(text: str) -> str:
    return _one_of(LEVELS, text)


def _approval(text: str) -> str:
    from zotd.base.settings import WORDS

    return _one_of(WORDS["policy"], text)


def _one_of(values: tuple[str, ...], text: str) -> str:
    """What `choices` would check, with the nearest right value in the refusal."""
    if text in values:
        return text
    from difflib import get_close_matches

    near = get_close_matches(text, values, n=1)
    guess = f"; did you mean {near[0]}?" if near else ""
    raise argparse.ArgumentTypeError(f"{text or 'nothing'} is none of {', '.join(values)}{guess}")


def _refuse_later(argv: list[str]) -> None:
    for word in argv:
        if (waits_for := LATER.get(word.split("=", 1)[0])) is not None:
            raise UsageError(f"{word.split('=', 1)[0]} needs {waits_for}, which this version does not have")


def _aimless(word: str) -> str:
    from difflib import get_close_matches

    if near := get_close_matches(word, ("rpc", *COMMANDS), n=1, cutoff=0.75):
        return f"{word} is no command: did you mean {near[0]}? (zotd --help lists all)"
    return "say how to run: -p PROMPT, --json PROMPT or rpc (zotd --help lists all)"


def _unknown(word: str, parser: argparse.ArgumentParser) -> str:
    from difflib import get_close_matches

    flag = word.split("=", 1)[0]
    # Dashes alone make any two short flags look alike: hence more than difflib's usual 0.6.
    near = get_close_matches(flag, list(parser._option_string_actions), n=2, cutoff=0.75)
    return f"unknown flag {flag}" + (
        f": did you mean {' or '.join(near)}?" if near else "; zotd --help lists all"
    )
