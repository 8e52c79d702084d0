"""Messages of an incoming webhook of Slack: blocks, and the same in short as text for notifications."""

from typing import Any

import msgspec

from holdfast.escalation import words
from holdfast.escalation.facts import Facts, Together

_HEADER, _SECTION, _BLOCKS = 150, 2_900, 40


def message_of(event: str, message: Facts | Together) -> bytes:
    """Write a message."""
    if isinstance(message, Facts):
        title = words.headline(message, event)
        texts = ["\n".join(f"*{_escaped(name)}* {_escaped(text)}" for name, text in words.lines(message))]
    else:
        title = words.headline_of_all(message)
        texts = [f"- {_escaped(line)}" for line in words.lines_of_all(message)]
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": {"type": "plain_text", "text": title[:_HEADER], "emoji": False}}
    ]
    blocks += [{"type": "section", "text": {"type": "mrkdwn", "text": text}} for text in _joined(texts)]
    return msgspec.json.encode({"text": _escaped(title), "blocks": blocks})


def _joined(texts: list[str]) -> list[str]:
    """Put lines together to as few sections as Slack's bounds allow; what does not fit is left out and said."""
    sections: list[str] = []
    for given in texts:
        text = given if len(given) <= _SECTION else given[:_SECTION] + "…"
        if sections and len(sections[-1]) + len(text) < _SECTION:
            sections[-1] += f"\n{text}"
        else:
            sections.append(text)
    left_out = len(sections) - _BLOCKS
    return sections if left_out <= 0 else [*sections[:_BLOCKS], "and more: holdfast escalations list"]


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
