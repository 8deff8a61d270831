"""Owns the shape of a theme file: zotd has no screen, and gives checked themes to front ends."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta, Struct, field

Index: TypeAlias = Annotated[int, Meta(ge=0, le=255)]
"""A colour of the xterm table of 256."""

Hex: TypeAlias = Annotated[str, Meta(pattern="^#[0-9A-Fa-f]{6}$")]
"""Red, green and blue as `#rrggbb`."""

Style: TypeAlias = Annotated[str, Meta(pattern="^ *((#[0-9A-Fa-f]{6}|bold|italic|underline)( +|$))*$")]
"""A colour and words of `bold`, `italic` and `underline`, separated by spaces; each may be missing."""


class XtermColor(Struct, frozen=True, kw_only=True, tag_field="mode", tag="256"):
    """A colour of the xterm table.

    index: its number.

    Example: {"mode":"256","index":236}
    """

    index: Index


class AnsiColor(Struct, frozen=True, kw_only=True, tag_field="mode", tag="ansi"):
    """A colour that the user's terminal defines.

    index: its number.

    Example: {"mode":"ansi","index":8}
    """

    index: Index


class RgbColor(Struct, frozen=True, kw_only=True, tag_field="mode", tag="rgb"):
    """A colour by its parts.

    r: red.
    g: green.
    b: blue.

    Example: {"mode":"rgb","r":40,"g":44,"b":52}
    """

    r: Index
    g: Index
    b: Index


Background: TypeAlias = Index | Hex | XtermColor | AnsiColor | RgbColor


class Palette(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Colours by what they are for. One that is missing is the front end's own.

    fg: text.
    muted: text that matters less.
    accent: what stands out.
    background: behind everything.
    user: the user's name or mark.
    user_bubble_bg: behind what the user said.
    user_bubble_fg: what the user said.
    assistant: the model's name or mark.
    tool: a call of a tool.
    tool_out: what a tool answered.
    error: what went wrong.
    warning: what may go wrong.
    spinner: the sign that something runs.
    thinking_max: the sign of the highest level of reasoning.
    selection_bg: behind what is selected.
    selection_fg: what is selected.

    Example: {"fg":252,"accent":110,"background":"#1c1c1c"}
    """

    fg: Index | None = None
    muted: Index | None = None
    accent: Index | None = None
    background: Background | None = None
    user: Index | None = None
    user_bubble_bg: Background | None = None
    user_bubble_fg: Index | None = None
    assistant: Index | None = None
    tool: Index | None = None
    tool_out: Index | None = None
    error: Index | None = None
    warning: Index | None = None
    spinner: Index | None = None
    thinking_max: Index | None = None
    selection_bg: Index | None = None
    selection_fg: Index | None = None


class Colors(Palette, frozen=True, kw_only=True, omit_defaults=True):
    """Colours for both kinds of terminal, and for each.

    dark: for a dark terminal, before those for both.
    light: for a light terminal, before those for both.

    Example: {"accent":110,"light":{"accent":25}}
    """

    dark: Palette | None = None
    light: Palette | None = None


class Syntax(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How code is coloured, by kinds of token: `#rrggbb`, `bold`, `italic`, `underline`, separated by spaces.

    keyword: any keyword without a line of its own here.
    keyword_constant: such as `true`.
    keyword_declaration: such as `var`.
    keyword_namespace: such as `import`.
    keyword_reserved: kept by the language.
    keyword_type: such as `int`.
    name_builtin: such as `print`.
    name_function: a function's name.
    name_class: a class's name.
    name_decorator: such as `@property`.
    literal_string: text in quotes.
    literal_string_escape: such as `\\\\n` in it.
    literal_number: a number.
    comment: a comment.
    comment_preproc: such as `#include`.
    operator: such as `+`.
    punctuation: such as a comma.
    text: the rest.

    Example: {"keyword":"#c678dd bold","comment":"#5c6370 italic"}
    """

    keyword: Style | None = None
    keyword_constant: Style | None = None
    keyword_declaration: Style | None = None
    keyword_namespace: Style | None = None
    keyword_reserved: Style | None = None
    keyword_type: Style | None = None
    name_builtin: Style | None = None
    name_function: Style | None = None
    name_class: Style | None = None
    name_decorator: Style | None = None
    literal_string: Style | None = None
    literal_string_escape: Style | None = None
    literal_number: Style | None = None
    comment: Style | None = None
    comment_preproc: Style | None = None
    operator: Style | None = None
    punctuation: Style | None = None
    text: Style | None = None


class Theme(Palette, frozen=True, kw_only=True, omit_defaults=True):
    """The content of a theme file. Every key may be missing, and unknown ones are ignored.

    Colours beside `colors`, and those directly in it, are for dark and light terminals alike.

    name: what people choose it by; the file's or the extension's name when absent.
    description: one line for lists.
    colors: colours, for both kinds of terminal or for each.
    spinner_frames: pictures of the running sign, in turn.
    spinner_messages: what it may say.
    spinner_interval_ms: milliseconds of one picture.
    syntax_base_style: name of the style that `syntax` changes.
    syntax: colours of code.

    Example: {"name":"dusk","colors":{"accent":110,"dark":{"background":"#1c1c1c"}},"syntax":{"comment":"#5c6370 italic"}}
    """  # noqa: E501

    name: str | None = None
    description: str | None = None
    colors: Colors | None = None
    spinner_frames: list[str] = field(default_factory=list)
    spinner_messages: list[str] = field(default_factory=list)
    spinner_interval_ms: Annotated[int, Meta(gt=0)] | None = None
    syntax_base_style: str | None = None
    syntax: Syntax | None = None
