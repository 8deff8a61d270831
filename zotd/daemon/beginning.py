"""Owns what a session begins with: nothing, or what its file says; and the file it is written to."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from zotd import __version__
from zotd.agent.loop import Outcome
from zotd.agent.transcript import Transcript, shown
from zotd.base.clock import now, stamp
from zotd.base.files import is_empty_file, is_folder, is_there
from zotd.base.limits import Limits
from zotd.daemon.spec import SessionSpec
from zotd.protocol.content import Message, ToolCall
from zotd.providers.catalog import WITH_URL
from zotd.store.catalog import SessionStore
from zotd.store.log import SessionLog, real_path, torn_path
from zotd.store.rows import missing_results
from zotd.store.saved import Saved


class Keyed(NamedTuple):
    """A prompt with a key, and how its turn ended. when: seconds since 1970."""

    turn_id: str
    key: str
    when: float
    outcome: Outcome


@dataclass(slots=True)
class Beginning:
    """What a session is made from besides its spec.

    path: where it is saved, None for nowhere. log: that file once it can be written. saved: what it says.
    created, updated: RFC 3339 UTC.
    """

    session_id: str
    created: str
    updated: str
    path: Path | None = None
    log: SessionLog | None = None
    saved: Saved | None = None
    complaints: list[str] = field(default_factory=list)
    limits: Limits | None = None

    @staticmethod
    def ephemeral(saved: Saved | None = None) -> Beginning:
        """Saved nowhere. saved: what it goes on from all the same."""
        return Beginning(str(uuid.uuid4()), time := now(), time, saved=saved)

    @property
    def title(self) -> str:
        return self.saved.title if self.saved is not None else ""

    def name_model(self, spec: SessionSpec, provider: str, model: str) -> None:
        """Who answers: a new file begins with it, one that goes on has it from here on."""
        if self.log is not None:
            self.log.use_later(provider, model, spec.reasoning)
        elif self.path is not None:
            meta = {
                "id": self.session_id,
                "cwd": str(spec.cwd),
                "model": model,
                "provider": provider,
                "started": self.created,
                "version": __version__,
            }
            self.log = SessionLog.new(self.path, meta, spec.reasoning, self.limits)

    def restore(self, transcript: Transcript) -> None:
        """Give a transcript what there is, with a result for every call, and write down what it gets."""
        if (saved := self.saved) is not None:
            messages = list(saved.messages)
            if results := missing_results(saved):
                messages.append(message := Message("tool", results, now()))
                if self.log is not None:
                    self.log.later(message)
                answered = saved.results.keys() & {getattr(result, "call_id", "") for result in results}
                self.complaints += _without_result(len(results) - len(answered))
            transcript.restore(messages, saved.first_id, saved.usage, saved.used)
        transcript.record = self.log

    def keyed(self) -> Iterator[Keyed]:
        """Prompts whose senders may send them again, not knowing that they arrived."""
        messages = [*self.saved.replaced, *self.saved.messages] if self.saved is not None else []
        said: dict[str, Message] = {message.meta.get("turn_id", ""): message for message in messages}
        for message in messages:
            turn_id, key = message.meta.get("turn_id", ""), message.meta.get("key", "")
            if turn_id and key:
                with suppress(ValueError):
                    when = datetime.fromisoformat(message.time).timestamp()
                    own = message.meta.get("steered", turn_id)
                    yield Keyed(own, key, when, _outcome(said[turn_id]))

    def give_up(self) -> None:
        """No session is made of it."""
        if self.log is not None:
            self.log.close()


def begin(spec: SessionSpec, limits: Limits) -> Beginning:
    """What a session of a spec begins with. Reads and locks the file, if it is to go on with one.

    An empty file, which a crash leaves ahead of the first row, counts as none.

    Raises NoSession, SessionLocked and BadSessionFile.
    """
    if spec.ephemeral:
        return Beginning.ephemeral()
    path = spec.saved
    if path is not None and is_there(path) and not is_empty_file(path):
        path = real_path(path)  # its undo and all else that belongs to it lie beside it, not beside a link
        log, saved = SessionLog.open(path, limits)
        changed = stamp(path.stat().st_mtime_ns)
        complaints = _complaints(path, saved, spec.cwd)
        return Beginning(saved.session_id, saved.started or changed, changed, path, log, saved, complaints)
    session_id, started = str(uuid.uuid4()), now()
    if path is None:
        path = SessionStore(spec.home, limits).new_path(spec.cwd, session_id, started)
    return Beginning(session_id, started, started, path, limits=limits)


def continued(spec: SessionSpec, saved: Saved) -> SessionSpec:
    """The spec that a saved session goes on with: what it names itself comes before what the file says."""
    provider, model = spec.provider, spec.model
    elsewhere = model.lower().endswith(".gguf") or (spec.base_url and saved.provider not in WITH_URL)
    if not provider and not elsewhere:
        provider = saved.provider
    if provider == saved.provider:
        model = model or saved.model
    cwd = saved.cwd if works_there(saved) else spec.cwd
    reasoning = spec.reasoning or saved.reasoning or "off"  # what it was told before is a choice
    return replace(spec, provider=provider, model=model, reasoning=reasoning, cwd=cwd)


def works_there(saved: Saved) -> bool:
    """Whether the folder that a session worked in can be worked in."""
    return saved.cwd.is_absolute() and is_folder(saved.cwd)


def _outcome(last: Message) -> Outcome:
    """How a turn ended, from its last message."""
    ended = last.role == "assistant" and not any(isinstance(block, ToolCall) for block in last.content)
    return Outcome("end_turn" if ended else "aborted", text=shown(last).text if ended else "")


def _without_result(calls: int) -> list[str]:
    """What is to be said of calls at the end: zotd was killed while they ran, or a copy ends in between."""
    if not calls:
        return []
    which = (
        "a call that has no result: it counts"
        if calls == 1
        else f"{calls} calls that have no result: they count"
    )
    return [f"the conversation ends with {which} as interrupted"]


def _complaints(path: Path, saved: Saved, instead: Path) -> list[str]:
    """What is to be said of a file that is not whole, or of a folder that is gone."""
    said = []
    if not works_there(saved):
        said.append(f"there is no folder {saved.cwd}, where this session worked: it works in {instead} now")
    if saved.torn_size:
        which = f"the first {len(saved.torn)} of its" if len(saved.torn) < saved.torn_size else "its"
        said.append(
            f"the last line of {path} was cut off: "
            f"{which} {saved.torn_size} bytes are set aside in {torn_path(path)}"
        )
    if saved.skipped:
        line, why = saved.skipped[0]
        more = f", and {len(saved.skipped) - 1} more lines" if len(saved.skipped) > 1 else ""
        said.append(f"line {line} of {path} is left out: {why}{more}")
    return said
