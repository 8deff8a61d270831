"""One extension with many ways to go wrong: `misbehave.py MODE`. Each mode is one function.

Modes that get as far as registering offer the command `/poke`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Frame = dict[str, Any]
MODES: dict[str, Callable[[], None]] = {}


def mode(run: Callable[[], None]) -> Callable[[], None]:
    MODES[run.__name__] = run
    return run


def send(**frame: Any) -> None:
    raw(json.dumps(frame).encode() + b"\n")


def raw(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def frames() -> Iterator[Frame]:
    for line in sys.stdin:
        yield json.loads(line)


def greet() -> None:
    name = json.loads(Path("extension.json").read_text())["name"]
    send(type="hello", name=name, version="0", capabilities=["commands"])


def serve(answer: Callable[[Frame], None], *, on_shutdown: Callable[[], None] | None = None) -> None:
    """Register `/poke` and be a good extension, except for what `answer` does."""
    for frame in frames():
        if frame["type"] == "hello_ack":
            send(type="register_command", name="poke", description="poke it")
            send(type="ready")
        elif frame["type"] == "command_invoked":
            answer(frame)
        elif frame["type"] == "shutdown":
            send(type="shutdown_ack")
            if on_shutdown is None:
                return
            on_shutdown()


def display(frame: Frame, text: str = "ouch") -> None:
    send(type="command_response", id=frame["id"], action="display", display=text)


def wait_for_ever() -> None:
    while True:
        signal.pause()


@mode
def good() -> None:
    greet()
    serve(display)


@mode
def silent() -> None:
    for _ in sys.stdin:
        pass


@mode
def banner() -> None:
    raw(b"Welcome to the runtime!\nversion 1\n\n")
    greet()
    serve(display)


@mode
def chatter() -> None:
    for number in range(1000):
        raw(b"banner line %d\n" % number)
    greet()
    serve(display)


@mode
def notify_first() -> None:
    send(type="notify", level="info", message="too early")
    greet()
    serve(display)


@mode
def nameless() -> None:
    send(type="hello", name="", version="0")
    serve(display)


@mode
def exits_7() -> None:
    print("cannot find my configuration", file=sys.stderr)
    sys.exit(7)


@mode
def killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@mode
def closes_stdout() -> None:
    os.close(1)
    for _ in sys.stdin:
        pass


@mode
def closes_stdout_later() -> None:
    greet()

    def answer(frame: Frame) -> None:
        os.close(1)
        for _ in sys.stdin:
            pass

    serve(answer)


@mode
def invalid_utf8() -> None:
    greet()

    def answer(frame: Frame) -> None:
        raw(b'{"type":"notify","message":"\xff\xfe"}\n')
        display(frame)

    serve(answer)


@mode
def garbage() -> None:
    greet()

    def answer(frame: Frame) -> None:
        raw(b'\n{"type":\nnot json\n[1,2]\n"text"\n{"no":"type"}\n{"type":"teleport"}\n{"type":"notify"}\n')
        send(type="notify", level="loud", message="still in sync\u2028really")
        display(frame)

    serve(answer)


@mode
def bad_answer() -> None:
    greet()
    serve(lambda frame: send(type="command_response", id=frame["id"], action=7))


@mode
def odd_action() -> None:
    greet()
    serve(lambda frame: send(type="command_response", id=frame["id"], action="explode"))


@mode
def no_action() -> None:
    greet()
    serve(lambda frame: send(type="command_response", id=frame["id"]))


@mode
def wrong_answer() -> None:
    greet()
    serve(lambda frame: send(type="tool_result", id=frame["id"], content=[]))


@mode
def panel() -> None:
    """Opens a panel, and notifies when it is told that the panel is closed."""
    greet()
    for frame in frames():
        if frame["type"] == "hello_ack":
            send(type="register_command", name="poke", description="poke it")
            send(type="ready")
        elif frame["type"] == "command_invoked":
            spec = {"id": "p1", "title": "T", "lines": ["one", "two"], "footer": "f"}
            send(type="command_response", id=frame["id"], action="open_panel", open_panel=spec)
        elif frame["type"] == "panel_close":
            send(type="notify", level="info", message=f"closed {frame['panel_id']}")
        elif frame["type"] == "shutdown":
            return


@mode
def closes_stdin() -> None:
    """Answers nothing, because it closed its input, and lives on."""
    greet()
    sys.stdin.readline()
    send(type="register_command", name="poke", description="poke it")
    os.close(0)
    send(type="ready")
    wait_for_ever()


@mode
def says_error() -> None:
    greet()
    serve(lambda f: send(type="command_response", id=f["id"], action="prompt", prompt="x", error="no luck"))


@mode
def no_answer() -> None:
    greet()
    serve(lambda frame: None)


@mode
def answers_twice() -> None:
    greet()

    def answer(frame: Frame) -> None:
        display(frame, "first")
        display(frame, "second")
        send(type="notify", message="answered twice")

    serve(answer)


@mode
def unknown_id() -> None:
    greet()

    def answer(frame: Frame) -> None:
        send(type="command_response", id="nobody-asked", action="display", display="wrong")
        display(frame, "right")

    serve(answer)


@mode
def dies_in_call() -> None:
    greet()
    serve(lambda frame: sys.exit(3))


@mode
def stays_until_eof() -> None:
    greet()

    def on_shutdown() -> None:
        for _ in sys.stdin:
            pass
        print("saw the end of stdin", file=sys.stderr, flush=True)
        sys.exit(0)

    serve(display, on_shutdown=on_shutdown)


@mode
def ignores_shutdown() -> None:
    greet()
    serve(display, on_shutdown=wait_for_ever)


@mode
def ignores_sigterm() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    greet()
    serve(display, on_shutdown=wait_for_ever)


@mode
def early() -> None:
    """Registers without waiting for the ack, and never says ready."""
    greet()
    send(type="register_command", name="poke", description="registered early")
    for frame in frames():
        if frame["type"] == "command_invoked":
            display(frame)
        elif frame["type"] == "shutdown":
            return


@mode
def late() -> None:
    """Registers a second command when the first is run."""
    greet()

    def answer(frame: Frame) -> None:
        if frame["name"] == "poke":
            send(type="register_command", name="/Later", description="came late")
        display(frame, frame["name"])

    serve(answer)


@mode
def rivals() -> None:
    """Wants a built-in name, one name twice, and one that nobody could type."""
    greet()
    for frame in frames():
        if frame["type"] == "hello_ack":
            for name in ("Clear", "poke", "POKE", "two words", "", "mine"):
                send(type="register_command", name=name, description=name)
            send(type="ready")
        elif frame["type"] == "command_invoked":
            display(frame, frame["name"])
        elif frame["type"] == "shutdown":
            return


@mode
def echo() -> None:
    """Shows what came: the frames, the environment, the directory."""
    greet()
    seen: list[Frame] = []
    for frame in frames():
        seen.append(frame)
        if frame["type"] == "hello_ack":
            send(type="register_command", name="poke", description="poke it")
            send(type="ready")
        elif frame["type"] == "command_invoked":
            shown = {
                "frames": seen,
                "env": dict(os.environ),
                "cwd": str(Path.cwd()),
                "args": sys.argv[1:],
                "leader": os.getsid(0) == os.getpid() == os.getpgid(0),
            }
            display(frame, json.dumps(shown))
        elif frame["type"] == "shutdown":
            return


@mode
def not_reading() -> None:
    """Greets, then reads nothing any more, until it is told by a signal to go."""
    greet()
    sys.stdin.readline()
    send(type="register_command", name="poke", description="poke it")
    send(type="ready")
    wait_for_ever()


@mode
def grandchild() -> None:
    """Leaves a child behind that holds both pipes; its pid is in the file `grandchild.pid`."""
    greet()

    def answer(frame: Frame) -> None:
        child = os.fork()
        if child == 0:
            wait_for_ever()
        Path("grandchild.pid").write_text(str(child))
        os._exit(4)

    serve(answer)


@mode
def tools() -> None:
    """Registers the `offers` of its manifest, has the capabilities it `says`, and does as a call's args say.

    exit: ends with that status. say: these frames, the id of the call filled in; otherwise an answer with
    what it heard. What is called off is answered all the same, too late. `/poke-NAME` registers more.
    before, after: pipes that it opens when it has registered, or waits for until it does.
    """
    own = json.loads(Path("extension.json").read_text())
    send(type="hello", name=own["name"], version="0", capabilities=own.get("says", []))
    for frame in frames():
        match frame:
            case {"type": "hello_ack"}:
                send(type="register_command", name=f"poke-{own['name']}", description="register")
                if "after" in own:
                    Path(own["after"]).read_text()
                for offer in own["offers"]:
                    send(type="register_tool", **offer)
                send(type="ready")
                if "before" in own:
                    Path(own["before"]).write_text("registered")
            case {"type": "command_invoked"}:
                send(type="register_tool", **json.loads(frame["args"]))
                display(frame, "registered")
            case {"type": "tool_call", "args": {"exit": status}}:
                sys.exit(status)
            case {"type": "tool_call", "args": {"say": said}}:
                for answer in said:
                    send(**{"id": frame["id"], **answer})
            case {"type": "tool_call"}:
                heard = json.dumps({"name": frame["name"], "args": frame["args"]})
                send(type="tool_result", id=frame["id"], content=[{"type": "text", "text": heard}])
            case {"type": "tool_cancel"}:
                send(type="tool_result", id=frame["id"], content=[{"type": "text", "text": "too late"}])
                send(type="notify", message=f"called off: {frame['id']}")
            case {"type": "shutdown"}:
                return


@mode
def floods() -> None:
    """Pushes 100,000 notes when it is poked, then answers."""
    greet()

    def answer(frame: Frame) -> None:
        raw(b"".join(b'{"type":"notify","message":"%d"}\n' % number for number in range(100_000)))
        display(frame)

    serve(answer)


@mode
def long_line() -> None:
    """Says a line of 20 MiB before its answer; `/poke answer` gets such a line for an answer."""
    greet()

    def answer(frame: Frame) -> None:
        if frame["args"] == "answer":
            display(frame, "x" * (20 << 20))
            return
        send(type="notify", message="x" * (20 << 20))
        send(type="notify", message="still in step")
        display(frame)

    serve(answer)


@mode
def never_acks() -> None:
    """Leaves when it is told to, without a word."""
    greet()
    for frame in frames():
        if frame["type"] == "hello_ack":
            send(type="register_command", name="poke", description="poke it")
            send(type="ready")
        elif frame["type"] == "shutdown":
            sys.exit(5)


@mode
def hello_late() -> None:
    """Says nothing until somebody opens the FIFO `gate` for writing."""
    Path("gate").read_bytes()
    greet()
    serve(display)


@mode
def silent_in_intercept() -> None:
    """Wants to decide on everything, and never does."""
    greet()
    for frame in frames():
        if frame["type"] == "hello_ack":
            send(type="subscribe", intercept=["turn_start", "tool_call", "assistant_message"])
            send(type="register_command", name="poke", description="poke it")
            send(type="ready")
        elif frame["type"] == "command_invoked":
            display(frame)
        elif frame["type"] == "shutdown":
            return


@mode
def slash_inside_call() -> None:
    """Runs a command of its own inside its own tool call, and answers the call once it was run."""
    greet()
    call = ""
    for frame in frames():
        if frame["type"] == "hello_ack":
            send(type="register_command", name="poke", description="poke it")
            send(type="register_tool", name="ask", description="ask a person")
            send(type="ready")
        elif frame["type"] == "tool_call":
            call = frame["id"]
            send(type="submit_slash", text="/poke from inside")
        elif frame["type"] == "command_invoked":
            display(frame)
            send(type="tool_result", id=call, content=[{"type": "text", "text": frame["args"]}])
        elif frame["type"] == "shutdown":
            return


@mode
def daemonizes() -> None:
    """Leaves a daemon behind, forked twice in a session of its own; its pid is in the file `daemon.pid`."""
    greet()

    def answer(frame: Frame) -> None:
        reading, writing = os.pipe()
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                Path("daemon.pid").write_text(str(os.getpid()))
                os.write(writing, b"written")
                wait_for_ever()
            os._exit(0)
        os.wait()
        os.read(reading, 1)
        display(frame)

    serve(answer)


@mode
def decides() -> None:
    """Subscribes as `plan.json` says, notifies of all it gets, and answers what it is asked as the plan says.

    An answer is the members of the frame, or `hang`, or `die`.
    """
    greet()
    plan = json.loads(Path("plan.json").read_text())
    answers = plan.pop("answers", {})
    for frame in frames():
        if frame["type"] == "hello_ack":
            send(type="subscribe", **plan)
            send(type="ready")
        elif frame["type"] == "event":
            send(type="notify", message=json.dumps(frame))
        elif frame["type"] == "event_intercept":
            send(type="notify", message=json.dumps(frame))
            answer = answers.get(frame["event"], {})
            if answer == "die":
                sys.exit(9)
            if answer != "hang":
                send(type="event_intercept_response", id=frame["id"], **answer)
        elif frame["type"] == "shutdown":
            return


@mode
def deaf() -> None:
    """Wants to hear and to decide, but reads nothing any more."""
    greet()
    sys.stdin.readline()
    send(type="subscribe", events=["tool_call"], intercept=["tool_call"])
    send(type="ready")
    wait_for_ever()


@mode
def plays() -> None:
    """Sends the `frames` of its manifest before `ready`, and the JSON frames that `/heard-NAME` has for args.

    That command shows what was heard. An interception is refused. Pipes: a tool call waits for its `gate`,
    and `leaving` is told before the exit.
    """
    own = json.loads(Path("extension.json").read_text())
    name = own["name"]
    send(type="hello", name=name, capabilities=own.get("says", []))
    heard: list[Frame] = []
    for frame in frames():
        heard.append(frame)
        session = {"session_id": frame["session_id"]} if "session_id" in frame else {}
        match frame["type"]:
            case "hello_ack":
                send(type="register_command", name=f"heard-{name}")
                for offer in own.get("frames", []):
                    send(**offer)
                send(type="ready")
            case "command_invoked":
                for said in json.loads(frame["args"] or "[]"):
                    send(**said)
                display(frame, json.dumps({"pid": os.getpid(), "frames": heard, "env": dict(os.environ)}))
            case "tool_call":
                if gate := frame["args"].get("gate"):
                    Path(gate).read_bytes()
                block = {"type": "text", "text": f"done by {name}"}
                send(type="tool_result", id=frame["id"], content=[block], **session)
            case "event_intercept":
                answer = {"block": True, "reason": f"{name} says no"}
                send(type="event_intercept_response", id=frame["id"], **answer)
            case "shutdown":
                if "leaving" in own:
                    Path(own["leaving"]).write_text("bye")
                return


MODES[sys.argv[1]]()
