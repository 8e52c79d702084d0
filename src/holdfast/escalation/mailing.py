"""Sending a mail by SMTP, on a thread of its own."""

import logging
import smtplib
import ssl
from collections.abc import Mapping

from holdfast.escalation.facts import Facts, Together
from holdfast.escalation.mail import mail_of
from holdfast.failure import clean
from holdfast.policies.channels import Email

_logger = logging.getLogger("holdfast")

_ERROR_BYTES = 500


def send(channel: Email, event: str, message: Facts | Together, notice: int, deadline_s: float) -> str | None:
    """Send a mail; the answer is what went wrong. Every error may pass: mail servers say no for a while too."""
    error: str | None = None
    try:
        refused = _sent(channel, event, message, notice, deadline_s)
        if refused:
            _logger.warning("a mail was sent, but not to all: %s", clean(_who(refused), _ERROR_BYTES))
    except smtplib.SMTPResponseException as trouble:
        said = trouble.smtp_error
        error = f"answered {trouble.smtp_code}: {said.decode(errors='replace') if isinstance(said, bytes) else said}"
    except smtplib.SMTPRecipientsRefused as trouble:
        error = f"nobody may be written to: {_who(trouble.recipients)}"
    except (OSError, smtplib.SMTPException, ValueError) as trouble:
        error = f"{type(trouble).__name__}: {trouble}"
    return None if error is None else clean(error, _ERROR_BYTES)


def _sent(
    channel: Email, event: str, message: Facts | Together, notice: int, deadline_s: float
) -> Mapping[str, tuple[int, bytes]]:
    with smtplib.SMTP(channel.host, channel.port, timeout=deadline_s) as server:
        if channel.starttls:
            server.starttls(context=ssl.create_default_context())
        if channel.username is not None:
            server.login(channel.username, channel.password or "")
        return server.send_message(mail_of(channel, event, message, notice))


def _who(recipients: Mapping[str, tuple[int, bytes]]) -> str:
    return ", ".join(f"{who} ({code})" for who, (code, _) in recipients.items())
