"""Owns every number that bounds a wait or a size, with its unit and its reason.

One frozen value is handed in wherever a bound is needed, so that tests hand in short ones.
"""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB


# No comparing, no printing: for so many fields, making those methods takes longer than all else here.
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Limits:
    """Seconds, bytes and counts. The defaults are the product's; see docs/limits.md for the list."""

    # Framing
    frame_bytes: int = 16 * MIB
    """One JSON value on any wire: room for a large image, small enough to refuse a runaway."""

    # Extensions
    manifest_bytes: int = 256 * KIB
    """One `extension.json`."""
    manifests: int = 256
    """Looked at in one directory of extensions: all sessions wait while they are read."""
    extension_name_chars: int = 100
    """Of an extension's name, which stands in lists and in front of notes."""
    extension_name_bytes: int = 200
    """The same in UTF-8: the name of its log file must fit a directory."""
    hello_s: float = 60.0
    """From spawn to `hello`: a cold `npx` compiles for many seconds."""
    ready_together_s: float = 3.0
    """How long start-up waits for a whole set of extensions; later ones join when they are ready."""
    auto_ready_s: float = 0.25
    """Silence after `hello_ack` that counts as `ready` for extensions that never send it."""
    command_s: float = 30.0
    """`command_invoked` to `command_response`: a person is waiting."""
    intercept_s: float = 5.0
    """`event_intercept` to its answer, for each extension asked; without one the event passes."""
    tool_s: float = 60.0
    """`tool_call` to `tool_result`, unless the manifest says otherwise or the tool waits for a person."""
    panel_wait_s: float = 120.0
    """For somebody who can show panels to come back, while a tool waits for a person."""
    shutdown_s: float = 2.0
    """`shutdown` to exit, for all extensions together, as the protocol document says."""
    reload_s: float = 5.0
    """For tool calls that run when extensions are to be loaded anew."""
    terminate_s: float = 1.0
    """SIGTERM to SIGKILL."""
    last_words_s: float = 0.1
    """After an extension's exit: for what it wrote last, should a child of its hold the pipe open."""
    last_words_bytes: int = MIB
    """Read after an extension's exit: what the largest pipe that an ordinary program can make holds."""
    banner_lines: int = 20
    """Lines before `hello` that are no JSON: runtimes print banners."""
    outgoing_frames: int = 256
    """Frames that may wait for an extension that does not read."""
    outgoing_bytes: int = 16 * MIB
    """Bytes that may wait for an extension that does not read."""
    held_bytes: int = 16 * MIB
    """Said by an extension while a client is behind; beyond it the extension has to wait as well."""
    lagging_s: float = 1.0
    """How long sessions that share an extension wait for one whose client is that far behind."""
    note_bytes: int = MIB
    """One text that an extension shows: more than a person reads, and far below a frame, however escaped."""
    tool_text_bytes: int = MIB
    """Text in one result of an extension's tool: more than a model takes, and far below a frame."""
    commands_per_extension: int = 1_000
    """Names of commands that one extension can have: clients are told all of them at each change."""
    tools_per_extension: int = 1_000
    """The same for its tools; a request to a model has no room for a tenth of that."""
    log_chars: int = 200
    """Of a bad line, quoted in a log."""
    log_tail_bytes: int = MIB
    """Of a log, shown to a client: more than anybody reads, less than a frame."""
    panel_rows: int = 1_000
    """Of a panel: a multiple of any terminal's height."""
    panel_row_chars: int = 4_000
    """Of one row, title or footer: a multiple of any terminal's width, colours included."""

    spawn_s: float = 5.0
    """For a program to be started; milliseconds are usual, unless who starts them was stopped."""
    answer_s: float = 1.5
    """For who starts programs to say that it will end one; without a word of it that is done by force."""
    contained_s: float = 2.0
    """SIGKILL to the end of all that a session or the daemon has started; milliseconds are usual."""

    # Tools
    read_lines: int = 2_000
    """Lines of one `read`, and of the tail that `bash` shows: what a model can use at once."""
    read_bytes: int = 50 * KIB
    """Bytes of the same."""
    read_count_bytes: int = 64 * MIB
    """A file up to this size is read to its end so that its lines can be counted; that takes 50 ms."""
    read_reach_bytes: int = 1_024 * MIB
    """How far into a file a line may lie that is read: a second of work."""
    off_loop_bytes: int = 256 * KIB
    """File work beyond this goes to a thread: it would hold all sessions for a millisecond or more."""
    image_bytes: int = 5 * MIB
    """A picture handed to a model; providers refuse larger ones."""
    bash_s: float = 120.0
    """A shell command that names no `timeout`."""
    bash_max_s: float = 3_600.0
    """The longest `timeout` a model may ask for."""
    bash_kill_s: float = 1.0
    """SIGTERM to SIGKILL for a command's group, so that all is gone within two seconds."""
    bash_file_bytes: int = 1_024 * MIB
    """Output of one command; a runaway is stopped before it fills the disk."""
    progress_s: float = 0.05
    """Output of a command is gathered this long into one `tool_progress`."""

    undo_bytes: int = 64 * MIB
    """What files held before `write` and `edit` changed them, for one session; the oldest turns go first."""

    # Prompts
    context_items: int = 256
    """Things an editor shows the model beside one prompt."""
    context_bytes: int = 256 * KIB
    """All of them together, as the model gets them: five times what it reads of a file at once."""
    context_reach_bytes: int = 64 * MIB
    """Of files that are read to find the lines of one prompt's context: 50 ms of work."""
    prompt_bytes: int = 15 * MIB + 512 * KIB
    """One prompt with its context and pictures, as its event carries them: that has to fit a frame."""
    prompt_key_chars: int = 1_000
    """Of a prompt's `key`: many are kept."""

    # What a folder brings
    skills: int = 256
    """Skills in one session: each is a line of every request."""
    skill_bytes: int = 256 * KIB
    """One `SKILL.md`: what a model reads at once when it loads the skill."""
    skill_front_chars: int = 4 * KIB
    """The front matter of one: three times the longest name and description that may be told of."""
    skills_front_chars: int = 512 * KIB
    """The front matter of all: twice what as many real ones have, and half a second of work at worst."""
    skills_bytes: int = 16 * MIB
    """All `SKILL.md` that are looked at, together."""
    skill_files: int = 1_024
    """`SKILL.md` that are looked at for a session, good or bad."""
    complaints_told: int = 32
    """Of what is wrong with a folder's files, told to a session at once; lists have all."""
    skill_description_chars: int = 1_024
    """Of a skill's description, in every request; the published format has the same bound."""
    instructions_bytes: int = 64 * KIB
    """All `AGENTS.md` and `CLAUDE.md` of a project together, and `SYSTEM.md`: they are in every request."""
    theme_bytes: int = 256 * KIB
    """One theme file."""
    config_bytes: int = 256 * KIB
    """One `config.json`, read whenever a session begins: hundreds of times what a real one has."""
    trust_bytes: int = MIB
    """`trusted.json`: thousands of folders, read whenever a session of a client that needs trust starts."""

    # Exports
    export_prose_chars: int = 100_000
    """Of one text that is shown as the Markdown it is; longer ones stay as they were typed."""
    export_code_chars: int = 32_000
    """Of one piece of code that is coloured: what a person reads, and no time for odd patterns to blow up."""
    export_coloured_chars: int = 500_000
    """Of all code in one page that is coloured: about two seconds of work."""
    export_inline_bytes: int = 16 * KIB
    """A picture that stands in a Markdown export; of larger ones the size is told."""

    # Turns
    max_steps: int = 200
    """Model calls in one turn: far above honest work, below an endless loop's bill."""
    last_submissions: int = 100
    """Prompts and commands of extensions that are still taken once all clients have said their last: one that
    submits itself would never end."""
    queued_turns: int = 256
    """Prompts that wait in one session: more than anybody types, and clients are shown all at each change."""
    queued_bytes: int = 2 * MIB
    """Their text together, so that it fits into one frame, however escaped."""
    turns_kept: int = 1_000
    """Finished turns that `turn/wait` still answers for."""

    prompt_key_s: float = 24 * 3600.0
    """How long a prompt's `key` is known: a client that was cut off tries again within a day."""
    prompt_keys: int = 10_000
    """Keys known in one session; the oldest are forgotten first."""

    # Approvals
    approval_s: float = 1_800.0
    """For a user to say whether a call may run: they may be at lunch."""
    approver_wait_s: float = 120.0
    """For somebody who can say so to attach, when the last one is gone: editors restart."""
    approval_reason_chars: int = 4_000
    """Of what the model is told of a denial: a page."""
    approval_bytes: int = 8 * MIB
    """Of a question: a frame holds it, or the session with it."""
    permissions_bytes: int = 256 * KIB
    """`permissions.json`: thousands of rules, and milliseconds to read."""
    permissions_of_session: int = 1_000
    """Rules that answers leave in one session; the oldest are forgotten first."""
    preview_bytes: int = 256 * KIB
    """Both texts of a diff that is shown to who is asked, or a command: more than anybody reads."""
    command_parts: int = 100
    """Commands in one line that rules look at one by one; a longer line is asked about as a whole."""
    permissions_lock_s: float = 2.0
    """For another process that changes `permissions.json` or `trusted.json`; milliseconds are usual."""

    # Compaction
    compact_at: float = 0.85
    """Use of a model's window from which the older part is summarised: there is still room to do it."""
    compact_keep: int = 4
    """The last exchanges, which are kept word for word."""
    compact_share: float = 0.6
    """Of the window, for the conversation in the request for a summary: the answer needs room as well."""
    compact_tool_chars: int = 2_000
    """Of the arguments of a tool call, and of its result, in that request: the gist of most."""

    # Saved sessions
    session_bytes: int = 1_024 * MIB
    """One session file, written or read: years of work, and still what memory holds."""
    row_bytes: int = 128 * MIB
    """One row of it: a batch of the largest pictures, and half a second to read."""
    sessions_listed: int = 100
    """Rows of one `session/list` that names no limit."""
    sessions_page: int = 1_000
    """Rows of one at most: what a frame has room for many times over."""
    closed_kept: int = 256
    """Closed sessions whose flags and environment are still known, so that a client can come back."""
    shown_result_lines: int = 20
    """Of a tool's result, where `zotd sessions show` prints a conversation; exports have all of it."""
    session_prefix_chars: int = 4
    """The shortest beginning of a session's id that is looked for."""
    title_chars: int = 200
    """Of a session's title, and of the first prompt that is shown in lists."""

    # Models
    connect_s: float = 10.0
    """To a provider's socket."""
    silence_s: float = 120.0
    """Between two bytes of a stream: slow models think, dead ones hang."""
    usage_s: float = 5.0
    """After a model said why it stopped: for its usage figures, which a few servers never send."""
    stream_end_s: float = 0.1
    """After a stream said that it is done: for its last bytes, so that the connection can be used again."""
    local_start_s: float = 60.0
    """A model file from disk to its first answer."""
    local_stop_s: float = 2.0
    """End of input to SIGKILL for the process of an embedded model, which ends in 0.02 s."""

    # Connections
    client_queue_bytes: int = 8 * MIB
    """Waiting for one client: beyond it events are merged, and if that is not enough, given up for a
    `resync`."""
    client_unsent_bytes: int = 256 * KIB
    """Of that, handed to the system at once; the rest can still be merged."""
    client_pause_s: float = 1.0
    """How long a turn waits for its only client, if that reads nothing and can be sent a `resync`."""
    client_stall_s: float = 30.0
    """The same for one that cannot: a client of the zot dialect. And, at the end, for what was written."""
    notes_kept: int = 256
    """Notes of extensions that stand in one session; the oldest go first."""
    notes_bytes: int = 4 * MIB
    """All of them together: whoever comes later is sent them at once."""
    orphan_s: float = 600.0
    """A session that has no client, no turn and no queue is closed after this: editors restart."""
    give_back_s: float = 1.0
    """After a session was closed, until freed memory goes back to the system: many often close together."""
    give_back_at_most_s: float = 60.0
    """The same where a turn always runs, though it is held up by up to a tenth of a second then."""
    replay_events: int = 20_000
    """Events of one session kept for clients that come back: minutes of the fastest answer."""
    replay_bytes: int = 16 * MIB
    """The same in bytes."""
    replay_bytes_of_all: int = 256 * MIB
    """Of all sessions of the daemon together; who runs out of it drops its own oldest."""
    requests_in_flight: int = 64
    """JSON-RPC requests of one client."""
    private_exit_s: float = 3.5
    """A private stdio server: from the last `done` after EOF to its exit."""
    health_grace_s: float = 0.05
    """A new connection's first frames are answered before the agent is loaded: health checks are cheap."""
    drain_s: float = 5.0
    """SIGTERM to exit."""
    drain_spare_s: float = 0.5
    """Of that, kept for the very end: a daemon that hangs by then leaves by force."""
    place_s: float = 10.0
    """Between two looks whether the daemon's socket is still there: some systems clean up after a logout."""
    drain_turns_s: float = 3_600.0
    """A daemon that is replaced waits so long for its turns to end; the longest shell command takes it."""
    manager_s: float = 15.0
    """For one answer of systemd or launchd; milliseconds are usual, and a stop takes as long as `drain_s`."""
    installation_s: float = 0.1
    """Between two looks, as clients come, whether the program on disk is still the one that runs."""
    preload_s: float = 1.0
    """From a daemon's start until it loads what it may need later: clients come first."""
    backlog: int = 4_096
    """Clients that may wait to be accepted on a Unix socket; the system allows as many by default."""
    accepted_at_once: int = 64
    """Of them, before those that are in have their turn again."""
    accept_again_s: float = 0.2
    """With no descriptor left to tell a client even that, until the next look."""
    spare_descriptors: int = 32
    """Not given to new clients, so that turns that run can still open files and start programs."""
    threads_end_s: float = 1.0
    """At the very end, for disk work in threads: milliseconds are usual, and some disks never answer."""
    heard_out_s: float = 3_600.0
    """On a shared socket, for the answers and prompts of a client that has said its last word."""
    exit_grace_s: float = 0.5
    """After the answer to `shutdown`: editors send `exit` next, and hanging up sooner would cross it."""
    websocket_open_s: float = 10.0
    """From a WebSocket client's connection to the end of its handshake."""
    websocket_ping_s: float = 20.0
    """Between pings; a client that shows no sign of life for one such time is cut off."""
    websocket_close_s: float = 2.0
    """After our goodbye, for a WebSocket client to hang up by itself."""

    # Joining a shared daemon
    preface_s: float = 10.0
    """For a daemon to answer a preface, which takes a millisecond: one that was stopped never does."""
    join_s: float = 30.0
    """For all tries of `--connect` together: a daemon may be ending just then, and another one starting."""
    daemon_start_s: float = 15.0
    """From a daemon's start until it listens: half a second is usual; the same for who waits for another."""
    daemon_taken_s: float = 0.3
    """For another one to listen, where a daemon that was just started ends for want of its place."""
    daemons_tried: int = 5
    """That end in a row just as a client or run comes; one is rare."""
    daemon_parts_s: float = 2.0
    """Behind a preface: who hangs up within it was just ending; who does later was told to."""
    idle_exit_s: float = 1_800.0
    """With nothing to do, after which a daemon ends that `--connect auto` has started: editors restart."""
    daemon_answer_s: float = 5.0
    """For a daemon to answer what `zotd daemon` asks of it."""
    log_looks_s: float = 0.25
    """Between two looks of `zotd daemon logs -f` at what was written."""

    # Looking for what is wrong
    check_s: float = 5.0
    """One check of `zotd doctor`; all run at once, so that a disk or daemon that hangs costs this once."""
    check_answer_s: float = 2.0
    """For a daemon that `zotd doctor` asks, and for a program that it starts."""
    checked_sessions: int = 1_000
    """Saved sessions that it reads, the newest ones: damage that matters is in what is used."""
    free_bytes: int = 100 * MIB
    """Of a disk: with less left it warns that sessions will soon not be saved."""
    free_descriptors: int = 1_024
    """Open files that a process should be allowed; an extension takes five, a client one."""
    config_shown_bytes: int = MIB
    """Of one configuration file, put into a support bundle."""

    # Log
    log_bytes: int = 10 * MIB
    """The file that a daemon in the background writes, before it is put aside and a new one begun."""
    log_files: int = 3
    """Older ones of it that are kept."""
    log_lines_waiting: int = 10_000
    """Lines that wait for a slow disk or terminal; more are dropped, and counted."""
    log_value_chars: int = 4_000
    """Of one value in a line: a traceback fits."""
    log_gather_s: float = 0.02
    """Lines that come within it are written together."""

    # Print mode
    joined_answer_s: float = 30.0
    """A run in a shared daemon: from meeting it to its session, whose file may be large."""
    joined_stop_s: float = 5.0
    """The same: from an interruption to the end of the turn."""
    joined_line_bytes: int = 64 * MIB
    """The same: the longest line that is read; the daemon's own frames are shorter."""
    joined_held_bytes: int = 64 * MIB
    """The same: events that wait for a slow reader of standard output before the daemon has to hold them."""
    stdin_s: float = 1.0
    """For piped standard input to end when a prompt is given too."""
