"""Owns which slash command belongs to whom."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from zotd.extensions.panel_text import one_row, paragraphs
from zotd.extensions.shadow import Shadow
from zotd.extensions.text import within
from zotd.protocol.frames import CommandResponse, PanelSpec

Action: TypeAlias = Literal["prompt", "insert", "display", "open_panel", "noop"]

BUILT_IN = frozenset(
    {
        *("help", "login", "logout", "model", "llama", "sessions", "session", "jump", "compact", "study"),
        *("btw", "jail", "unjail", "skills", "swarm", "reload-ext", "telegram", "settings", "clear"),
        *("yolo", "exit"),
    }
)
"""Commands of zot and its terminal, which no extension can take."""


@dataclass(frozen=True, slots=True)
class CommandInfo:
    """A command that can be run: `name` in the spelling it was registered with, without a slash."""

    name: str
    description: str
    extension: str


@dataclass(frozen=True, slots=True)
class Invocation:
    """A command line taken apart. `name` is the registered spelling; `args` is trimmed."""

    extension: str
    name: str
    args: str


@dataclass(frozen=True, slots=True)
class CommandAnswer:
    """What became of a command. The session shows it; nothing was emitted for it yet.

    text: the prompt, the text to insert or to display, or the lines of the panel; empty for `noop`.
    error: for the user, whatever the action.
    panel: one that no attached client can open, so that somebody who shows only text has its lines.
    """

    extension: str
    name: str
    action: Action
    text: str
    error: str | None
    panel: PanelSpec | None = None


def answer_of(extension: str, name: str, response: CommandResponse) -> CommandAnswer:
    """Read an extension's answer to `/name`.

    An action that does not exist is an error of the command, and so is one without what it acts on.
    """
    panel = response.open_panel
    texts: dict[Action, str | None] = {
        "prompt": response.prompt,
        "insert": response.insert,
        "display": response.display,
        "open_panel": None if panel is None else "\n".join(panel.lines),
        "noop": "",
    }
    said = response.action or "noop"
    action: Action = next((known for known in texts if known == said), "noop")
    text = texts[action]
    whose = f"command /{name} of extension {extension} answered with"
    error = response.error
    if not error and said not in texts:
        error = f"{whose} {said!r}; expected one of: {', '.join(texts)}"
    elif not error and text is None:
        error = f"{whose} {action!r} but has no member {action!r}"
    elif not error and action == "prompt" and not (text or "").strip():
        error = f"{whose} 'prompt', and the prompt is empty"
    elif not error and panel is not None and action == "open_panel" and not panel.id:
        error = f"{whose} a panel whose id is empty"
    return CommandAnswer(
        extension, name, action, text or "", error or None, panel if action == "open_panel" else None
    )


def bounded(answer: CommandAnswer, most: int, remark: Callable[[str], None]) -> CommandAnswer:
    """The same, no text of which has more than `most` bytes. A prompt is taken whole or not at all."""
    what = f"the answer to /{answer.name}"
    error = paragraphs(within(answer.error or "", most, remark, f"{what}, an error,")) or None
    if answer.error and error is None:
        error = f"command /{answer.name} failed and said why in control characters only"
    if answer.action == "open_panel":  # panels have bounds of their own
        return replace(answer, error=error)
    text = within(answer.text, most, remark, f"{what}, {answer.action},")
    if answer.action == "prompt" and len(text) < len(answer.text) and not error:
        error = f"command /{answer.name} of extension {answer.extension} gave a prompt that is too long"
    # A prompt is for the model, which gets what was said; all else is for eyes.
    return replace(answer, text=text if answer.action == "prompt" else paragraphs(text), error=error)


class Commands:
    """The registry: names without regard to case, first come, first served."""

    def __init__(self) -> None:
        self._by_name: dict[str, CommandInfo] = {}

    def claim(self, name: str, description: str, extension: str) -> str | Shadow:
        """Give a name to an extension. Returns "" or why it cannot have it.

        One leading slash is tolerated. Registering a command again changes its description.
        """
        name = name.removeprefix("/")
        if not name or any(character.isspace() for character in name):
            return f"command {name!r} was refused: expected one word"
        if not name.isprintable():
            return f"command {name!r} was refused: expected printable characters"
        key = name.casefold()
        if key in BUILT_IN:
            return Shadow("command", name)
        owner = self._by_name.get(key)
        if owner is not None and owner.extension != extension:
            return Shadow("command", name, owner.extension)
        if owner is not None and owner.name != name:
            return f"command /{name} was refused: it is registered as /{owner.name}"
        self._by_name[key] = CommandInfo(name, one_row(description), extension)
        return ""

    def release(self, extension: str) -> bool:
        """Take every command of `extension` away; whether it had any."""
        gone = [key for key, info in self._by_name.items() if info.extension == extension]
        for key in gone:
            del self._by_name[key]
        return bool(gone)

    def of(self, extension: str) -> list[str]:
        """The names that `extension` owns."""
        return [info.name for info in self._by_name.values() if info.extension == extension]

    def all(self) -> list[CommandInfo]:
        """All commands, in the order they were registered."""
        return [*self._by_name.values()]

    def find(self, text: str) -> Invocation | None:
        """Take `/name[ args]` apart; None unless it is one line and the name is registered."""
        text = text.strip()
        if not text.startswith("/") or text[1:2].isspace() or "\n" in text or "\r" in text:
            return None
        name, *rest = text[1:].split(maxsplit=1) or [""]
        info = self._by_name.get(name.casefold())
        return None if info is None else Invocation(info.extension, info.name, rest[0] if rest else "")
