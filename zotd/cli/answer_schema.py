"""Owns `--output-schema`: the answer must be JSON that fits, with one repair."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, best_match
from referencing.exceptions import Unresolvable

_FENCE = re.compile(r"^```(?:json)?\s*\n(.*)\n```$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class AnswerSchema:
    """A JSON Schema (draft 2020-12) that the final answer has to fit."""

    schema: Any

    @classmethod
    def load(cls, path: str) -> AnswerSchema:
        """Raises ValueError saying what is wrong with the file."""
        try:
            schema = json.loads(Path(path).read_text("utf-8"))
            Draft202012Validator.check_schema(schema)
        except OSError as wrong:
            raise ValueError(wrong.strerror or str(wrong)) from None
        except SchemaError as wrong:
            raise ValueError(f"not a JSON Schema: {wrong.message}") from None
        made = cls(schema)
        for sample in (
            "null",
            "{}",
            "[]",
        ):  # so that a `$ref` that leads nowhere is seen before a model is paid
            made.fault(sample)
        return made

    def ask(self, prompt: str) -> str:
        wish = "Answer with one JSON value and nothing else. It must fit this JSON Schema:"
        return f"{prompt}\n\n{wish}\n{json.dumps(self.schema)}"

    def ask_again(self, fault: str) -> str:
        return (
            f"That answer does not fit the schema: {fault}\nAnswer again with only the corrected JSON value."
        )

    def bare(self, text: str) -> str:
        """The JSON text itself, without a code fence around it."""
        text = text.strip()
        return found[1] if (found := _FENCE.match(text)) else text

    def fault(self, text: str) -> str | None:
        """What is wrong with an answer, None if it fits. Raises ValueError when the schema itself fails."""
        try:
            value = json.loads(self.bare(text))
        except ValueError as wrong:
            return f"it is not JSON: {wrong}"
        except RecursionError:
            return "it is nested too deeply"
        try:
            error = best_match(Draft202012Validator(self.schema).iter_errors(value))
        except Unresolvable as wrong:
            raise ValueError(f"a $ref leads nowhere: {wrong}") from None
        except RecursionError:
            raise ValueError("a $ref leads back to itself, or the answer is nested too deeply") from None
        return None if error is None else f"{error.json_path}: {error.message}"
