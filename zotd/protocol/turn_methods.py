"""Owns the methods that send prompts, wait for them, stop them and undo them: their params and results."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from zotd.protocol.content import StopReason, Usage
from zotd.protocol.params import SessionRef
from zotd.protocol.session import QueuedTurn


class Position(Struct, frozen=True, kw_only=True):
    """A place in a text.

    line: from 0.
    character: from 0, in UTF-16 units.

    Example: {"line":3,"character":0}
    """

    line: int
    character: int


class ContextItem(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something the user looks at while writing a prompt.

    type: `file`, `range` of one, `diagnostic` in one, or `text`.
    path: absolute, or relative to the session's directory; all but `text` need it.
    start: where it begins; `range` and `diagnostic` need it.
    end: where it ends, exclusive; `range` needs it.
    text: what is there, when the editor knows better than the disk.
    severity: of a diagnostic, such as `error`.
    message: of a diagnostic.

    Example: {"type":"range","path":"src/a.py","start":{"line":3,"character":0},"end":{"line":5,"character":0},"text":"def a():\\n    return 1\\n"}
    """  # noqa: E501

    type: Literal["file", "range", "diagnostic", "text"]
    path: str | None = None
    start: Position | None = None
    end: Position | None = None
    text: str | None = None
    severity: str | None = None
    message: str | None = None


class PromptImage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A picture that goes with a prompt: one of `data` and `path` says what it shows.

    mime_type: such as `image/png`.
    data: the picture, base64.
    path: absolute path of its file.

    Example: {"mime_type":"image/png","path":"/home/user/shot.png"}
    """

    mime_type: str
    data: str | None = None
    path: str | None = None


class TurnStartParams(SessionRef, frozen=True, kw_only=True):
    """Sends a prompt.

    session_id: to whom.
    text: the prompt, not blank unless there are images; a registered `/command` runs instead.
    images: pictures that go with it.
    context: what the editor shows the model beside the prompt.
    if_busy: `queue` waits its turn, `reject` fails with kind `busy`, `steer` reaches the model of the running
        turn before its next call, or queues when there is none any more; a command runs at once either way.
    key: of the caller's making: the same one within 24 hours is answered as before and runs nothing twice.
    dirty_files: paths of files with unsaved changes, absolute or relative to the session's directory: `write`
        and `edit` refuse them in this turn.

    Example: {"session_id":"8f37d5f6","text":"fix the test"}
    """

    text: str
    images: list[PromptImage] = field(default_factory=list)
    context: list[ContextItem] = field(default_factory=list)
    if_busy: Literal["queue", "steer", "reject"] = "queue"
    key: str | None = None
    dirty_files: list[str] = field(default_factory=list)


class TurnAccepted(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Answers `turn/start`.

    turn_id: of the turn; its `done` carries it.
    state: `started`, `queued`, `steered` or `command`. The prompt of one that steers comes as a
        `user_message` of the turn that takes it in; its own `done` follows that turn's.
    position: in the queue, from 1.

    Example: {"turn_id":"b2c7","state":"queued","position":1}
    """

    turn_id: str
    state: Literal["started", "queued", "steered", "command"]
    position: int | None = None


class TurnWait(SessionRef, frozen=True, kw_only=True):
    """Waits for a turn's end; of a turn that ended, answers at once.

    session_id: whose turn.
    turn_id: of the last 1,000 turns.

    Example: {"session_id":"8f37d5f6","turn_id":"b2c7"}
    """

    turn_id: str


class TurnError(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a turn failed.

    kind: a stable word.
    message: for a person.

    hint: what to do.

    Example: {"kind":"provider_error","message":"529 overloaded"}
    """

    kind: str
    message: str
    hint: str | None = None


class TurnResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a turn ended.

    stop: `end_turn`, `length`, `error` or `aborted`.
    text: the last assistant text.
    usage: of the whole turn.
    error: set when stop is `error`.

    Example: {"stop":"end_turn","text":"Fixed.","usage":{"input":10,"output":7,"cache_read":0,"cache_write":0,"cost_usd":0.0}}
    """  # noqa: E501

    stop: StopReason
    text: str
    usage: Usage
    error: TurnError | None = None


class TurnAbort(SessionRef, frozen=True, kw_only=True):
    """Stops the running turn.

    session_id: whose.
    turn_id: stops only this one, running, waiting or a command; without it whichever runs.
    clear_queue: also empties the queue and gives its texts back.

    Example: {"session_id":"8f37d5f6","clear_queue":true}
    """

    turn_id: str | None = None
    clear_queue: bool = False


class TurnAborted(Struct, frozen=True, kw_only=True):
    """Answers `turn/abort`.

    aborted: whether there was something to stop.
    unqueued: texts of the prompts taken from the queue.

    Example: {"aborted":true,"unqueued":[]}
    """

    aborted: bool
    unqueued: list[str]


class TurnQueue(SessionRef, frozen=True, kw_only=True):
    """Asks for the prompts that wait.

    session_id: whose.

    Example: {"session_id":"8f37d5f6"}
    """


class TurnUnqueue(SessionRef, frozen=True, kw_only=True):
    """Takes a prompt that waits out of the queue; its `done` says `aborted`.

    session_id: whose.
    turn_id: which.

    Example: {"session_id":"8f37d5f6","turn_id":"b2c7"}
    """

    turn_id: str


class QueuedTurns(Struct, frozen=True, kw_only=True):
    """What waits.

    turns: in the order in which they will run.

    Example: {"turns":[{"turn_id":"b2c7","text":"and now the tests","client":"nvim"}]}
    """

    turns: list[QueuedTurn]


class TurnRevert(SessionRef, frozen=True, kw_only=True):
    """Gives the files that `write` and `edit` touched in a turn the content they had before it.

    Nothing is restored when one of them was changed since: the error names all of those.

    session_id: whose turn.
    turn_id: which.

    Example: {"session_id":"8f37d5f6","turn_id":"b2c7"}
    """

    turn_id: str


class TurnReverted(Struct, frozen=True, kw_only=True):
    """Answers `turn/revert`.

    restored: absolute paths of files that have their old content again.
    removed: absolute paths of files that the turn had made.

    Example: {"restored":["/home/user/project/a.py"],"removed":[]}
    """

    restored: list[str]
    removed: list[str]
