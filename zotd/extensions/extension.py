"""Owns one extension: its process, what is asked of it and what it answers, from start to end."""

from __future__ import annotations

import asyncio
import signal
import time

from zotd.base.clock import now
from zotd.base.limits import Limits
from zotd.base.log import log
from zotd.base.paths import extension_log
from zotd.extensions.asking import (
    AnyAnswer,
    ExtensionGone,
    NotReading,
    Question,
    Questions,
    RunningCalls,
    WrongAnswer,
    tag,
)
from zotd.extensions.backlog import Backlog, Listener
from zotd.extensions.discovery import Located
from zotd.extensions.journal import Journal
from zotd.extensions.outbox import Outbox
from zotd.extensions.program import Surroundings, argv, environment, hello_ack, how_it_ended
from zotd.process.spawn import Running, Spawner, SpawnError
from zotd.protocol.frame_parts import FrameBase
from zotd.protocol.frames import (
    CommandResponse,
    EventFrame,
    FromExtension,
    FromHost,
    Hello,
    InterceptResponse,
    Notify,
    Ready,
    ShutdownAck,
    Subscribe,
    ToolCallFrame,
    ToolResultFrame,
)
from zotd.protocol.session import ExtensionState
from zotd.wire.link import BadAnswer, ExtensionLink, Failed, Greeted, Output, Remark, State


class Extension:
    """One extension of one session. `live` is its life; `ask` the only way to ask it something.

    state, error: where it is, and why it failed.
    gone: whether its life is over, or never began for good.
    settled: set once it is ready or has failed, which is what start-up waits for.
    capabilities: what its `hello` listed. calls: of its tools, those that run.
    rank: its place in load order, which is the order in which extensions are asked.
    shared_with: how many other sessions kept its process when this one left.
    parting: what is said of it to who waits for an answer when it is stopped, after its name.
    """

    def __init__(
        self,
        located: Located,
        surroundings: Surroundings,
        limits: Limits,
        scope: Spawner,
        listener: Listener,
    ) -> None:
        """scope: starts its program. listener: whose it is."""
        self.located = located
        self.state: ExtensionState = "starting"
        self.error: str | None = None
        self.gone = False
        self._since = time.monotonic()
        self.settled = asyncio.Event()
        self.capabilities: frozenset[str] = frozenset()
        self.rank = 0
        self.shared_with = 0
        self.parting = "was stopped"
        self.calls = RunningCalls()
        self.log_path = extension_log(surroundings.home, located.name)
        self._log_at = f" (log: {self.log_path})"
        self._surroundings = surroundings
        self._limits = limits
        self._scope = scope
        self._listener = listener
        self._questions = Questions(located.name, self.send, self.remark)
        self._backlog = Backlog(listener, self._hear, limits.held_bytes)
        self._link = ExtensionLink(limits)
        self._journal: Journal | None = None
        self._child: Running | None = None
        self._outbox: Outbox | None = None
        self._stopping = False
        self._failure = ""
        self._last_words = 0
        self._stirred = asyncio.Event()  # its output has ended, or frames are held back
        self._paused = self._ended = False
        self._fault: Exception | None = None
        self._closed = asyncio.Event()
        self._patience: asyncio.Timeout | None = None
        self._quiet: asyncio.TimerHandle | None = None

    @property
    def name(self) -> str:
        """As the manifest has it."""
        return self.located.name

    @property
    def session_id(self) -> str:
        """Of the session that it belongs to."""
        return self._surroundings.session_id

    @property
    def dismissed(self) -> bool:
        """Whether it was told to end, and did not end by itself before."""
        return self._stopping and self.state != "failed"

    @property
    def running(self) -> bool:
        """Whether it is ready and has not ended."""
        return self.settled.is_set() and not self.gone

    @property
    def queued(self) -> int:
        """Frames that wait for it to read them."""
        return self._outbox.waiting if self._outbox is not None and not self.gone else 0

    @property
    def ended(self) -> str:
        """The error of one that ended on its own, without where its log is; empty for all others."""
        return (self.error or "").removesuffix(self._log_at)

    def remark(self, text: str) -> None:
        """A line of ours in its log."""
        if self._journal is not None:
            self._journal.remark(text)

    # Asking

    async def ask(self, question: Question, within: float | None, answer: type[AnyAnswer]) -> AnyAnswer:
        """Send a question under an id of its own and wait for its answer, up to `within` seconds if given.

        question: its `id` is filled in here. answer: the frame that answers it.
        A tool call that is no longer awaited, for want of time or by cancellation, is called off.
        Raises ExtensionGone at once when the process ends, NotReading, NoAnswer, WrongAnswer.
        """
        if not isinstance(question, ToolCallFrame):
            return await self._questions.ask(question, within, answer, call_off=False)
        with self.calls:
            call_off = "tool_cancel" in self.capabilities
            return await self._questions.ask(question, within, answer, call_off=call_off)

    def send(self, frame: FromHost) -> None:
        """Queue one frame. Raises ExtensionGone, or NotReading when its queue is full."""
        if self._outbox is None or self.gone or self._link.state not in (State.REGISTERING, State.RUNNING):
            raise ExtensionGone(f"extension {self.name} is not running")
        if not self._outbox.put(self._link.send(frame)):
            if not isinstance(frame, EventFrame):  # who observes may miss many: those are counted instead
                self.remark(f"{tag(frame)} was not sent: {self._outbox.waiting} frames wait to be read")
            raise NotReading(f"extension {self.name} is not reading")

    # Life

    async def live(self) -> None:
        """Start the process, serve it until it is gone. Raises nothing but cancellation, which kills it."""
        if self._stopping:
            self._end("stopped")
            return
        try:
            child = await self._start()
        except Exception as error:
            self._end(f"did not start: {error if isinstance(error, SpawnError | OSError) else repr(error)}")
            self._close()
            return
        try:
            self._end(await self._serve(child))
            # What it left in its group goes too: nothing outlives the extension it belongs to.
            await child.stop(self._limits.terminate_s)
        except Exception as error:  # a mistake of ours over one extension must not end the others
            import traceback

            self.remark(traceback.format_exc())
            self._end(f"was ended by a mistake of zotd: {error!r}")
        finally:
            self._stopping = True
            self._end("was cancelled")
            child.signal_group(signal.SIGKILL)
            await asyncio.wait([child.exited], timeout=self._limits.terminate_s)
            child.close()
            self._close()

    async def stop(self) -> None:
        """End it: `shutdown` and the end of its input, then SIGTERM, then SIGKILL, each after its time.

        What has not said `hello` yet cannot be told: `hello_ack` is the first frame anybody gets.
        """
        self._stopping = True
        child, outbox = self._child, self._outbox
        if child is None or outbox is None:
            return
        if not self.gone and (farewell := self._link.stop()):
            outbox.put(farewell)
            outbox.finish()
            await asyncio.wait([child.exited], timeout=self._limits.shutdown_s)
            if not child.exited.done():
                self.remark(f"did not exit within {self._limits.shutdown_s:g} s of shutdown: terminated")
        await child.stop(self._limits.terminate_s)
        if not child.exited.done():  # stuck in the kernel: nobody can end it, and nobody should wait for it
            child.close()
        self._backlog.hurry()
        await self._closed.wait()

    async def _start(self) -> Running:
        around, located = self._surroundings, self.located
        self._journal = Journal(self.log_path)
        self.remark(f"starting {self.name}/{located.manifest.version} at {now()}")
        self._child = child = await self._scope.spawn(
            argv(located.manifest, located.directory),
            cwd=located.directory,
            env=environment(around.env, home=around.home, directory=located.directory, cwd=around.cwd),
            stdin="pipe",
            stderr=self._journal.fd,
        )
        if child.stdin is not None:
            self._outbox = Outbox(child.stdin, self._limits)
        log("extension spawned", session=self.session_id, extension=self.name, pid=child.pid)
        return child

    async def _serve(self, child: Running) -> str:
        """Read frames until the end, and say what the end was."""
        if self._stopping:  # while it was being started
            return "was stopped"
        hello_s = self.located.manifest.hello_timeout or self._limits.hello_s
        try:
            async with asyncio.timeout(hello_s) as self._patience:
                child.exited.add_done_callback(self._on_exit)
                child.listen(self._on_output)
                await self._listen(child)
        except TimeoutError:
            if not child.exited.done():
                return f"sent no hello within {hello_s:g} s"
        finally:
            self._ended = True
            child.pause()
            child.exited.remove_done_callback(self._on_exit)
            self._patience = None
        how = ""
        if not self._failure:
            # The end of output comes a moment before the exit that caused it.
            await asyncio.wait([child.exited], timeout=self._limits.last_words_s)
            how = how_it_ended(child)
            self._take(self._link.gone(how))
        await self._backlog.flow()
        return self._failure or how

    async def _listen(self, child: Running) -> None:
        """Until its output ends. What the listener could not hear at once it hears when it caught up."""
        while not self._ended:
            await self._stirred.wait()
            self._stirred.clear()
            await self._backlog.flow()
            if self._paused and not self._ended:
                self._paused = False
                self._questions.resume()
                if child.exited.done():
                    self._on_exit(child.exited)
                child.resume()
        if self._fault is not None:
            raise self._fault

    def _on_output(self, data: bytes) -> None:
        """Take in what the process wrote, as soon as it is there; b"" is the end."""
        child = self._child
        if child is None or self._ended or self._paused:
            return
        try:
            self._take(self._link.receive(data))
        except Exception as error:
            self._fault = error
        if child.exited.done():
            self._last_words += len(data)
        spoken = self._failure or self._fault or self._last_words > self._limits.last_words_bytes
        if spoken or not data:
            self._ended = True
            child.pause()
        elif self._backlog.full:
            self._paused = True
            self._questions.pause()
            child.pause()
            if self._patience is not None and child.exited.done():
                self._patience.reschedule(None)  # the time the listener takes is not the extension's
        if self._ended or self._backlog.look():
            self._stirred.set()

    def _on_exit(self, _: asyncio.Future[int]) -> None:
        """The process is gone; what it said last is still read, but not what a child of its may say later."""
        if self._patience is not None and not self._ended and not self._paused:
            self._patience.reschedule(asyncio.get_running_loop().time() + self._limits.last_words_s)

    def _end(self, how: str) -> None:
        """Fail whoever waits, once, and tell the host. `how` continues the sentence `extension NAME …`."""
        if self.gone:
            return
        self.gone = True
        if self._quiet is not None:
            self._quiet.cancel()
        self.remark(how)
        took = round((time.monotonic() - self._since) * 1000, 3)
        log("extension ended", session=self.session_id, extension=self.name, how=how, duration_ms=took)
        said = f"extension {self.name} {how}"
        self._questions.fail(f"extension {self.name} {self.parting}" if self._stopping else said)
        if self._stopping:
            self.state = "stopped"
        else:
            self.state, self.error = "failed", said if self._journal is None else f"{said}{self._log_at}"
        self._listener.changed(self)
        self.settled.set()

    def _close(self) -> None:
        if self._journal is not None:
            self._journal.close()
        self._closed.set()

    # Hearing

    def _take(self, outputs: list[Output]) -> None:
        for output in outputs:
            if isinstance(output, FrameBase):
                self._receive(output)
                continue
            match output:
                case Remark(text):
                    self.remark(text)
                case Greeted(hello):
                    self._greet(hello)
                case Failed(reason):
                    self._failure = reason
                case BadAnswer(number, reason):
                    self._questions.answered(str(number), WrongAnswer(f"extension {self.name}: {reason}"))
        if outputs and self._quiet is not None:
            self._listen_for_silence()

    def _receive(self, frame: FromExtension) -> None:
        """Hear a frame now, or keep it while the listener is behind; decisions are not kept waiting."""
        if not self._backlog.holding or isinstance(frame, InterceptResponse | Subscribe):
            self._hear(frame)
            return
        if isinstance(frame, CommandResponse | ToolResultFrame):
            self._questions.heard(frame.id)
        self._backlog.put(frame)

    def _hear(self, frame: FromExtension) -> None:
        if isinstance(frame, Notify):  # the most frequent one
            self._listener.hear(self, frame)
            return
        match frame:
            case InterceptResponse() | CommandResponse() | ToolResultFrame():
                if not self._questions.answered(frame.id, frame):
                    self.remark(f"{tag(frame)} for {frame.id!r}, which nobody waits for: ignored")
            case Ready():
                self._become("ready")
            case Hello() | ShutdownAck():
                pass
            case _:
                self._listener.hear(self, frame)

    def _greet(self, hello: Hello) -> None:
        """Answer `hello`, then hear what was sent without waiting for the answer."""
        self.capabilities = frozenset(hello.capabilities)
        if hello.name != self.name:
            self.remark(f"hello says {hello.name!r}, the manifest {self.name!r}, which counts")
        if self._patience is not None and self._child is not None and not self._child.exited.done():
            self._patience.reschedule(None)
        if self._outbox is not None:
            ack = hello_ack(self._surroundings, self.located.directory)
            self._outbox.put(self._link.acknowledge(ack))
        self._listen_for_silence()
        self._take(self._link.receive(b""))

    def _listen_for_silence(self) -> None:
        """Not every extension says `ready`: a while without a frame counts too. Each frame starts it anew."""
        if self._quiet is not None:
            self._quiet.cancel()
        self._quiet = asyncio.get_running_loop().call_later(self._limits.auto_ready_s, self._on_silence)

    def _on_silence(self) -> None:
        if self._link.state is State.REGISTERING:
            self._link.ready()
            self.remark(f"counted as ready after {self._limits.auto_ready_s:g} s without a frame")
            self._become("auto_ready")

    def _become(self, state: ExtensionState) -> None:
        """Ready, one way or the other; only the first time counts."""
        if self._quiet is not None:
            self._quiet.cancel()
            self._quiet = None
        if self.state == "starting" and not self._stopping:
            self.state = state
            self.settled.set()
            self._listener.changed(self)
