"""Messages as mail: plain text that a telephone shows whole."""

from email.message import EmailMessage
from email.utils import formatdate

from holdfast.escalation import words
from holdfast.escalation.facts import Facts, Together
from holdfast.policies.channels import Email

_SUBJECT = 200


def mail_of(channel: Email, event: str, message: Facts | Together, notice: int) -> EmailMessage:
    """Write a mail; a repeat has the same Message-ID, by which mailboxes tell repeats."""
    mail = EmailMessage()
    mail["From"] = channel.sender
    mail["To"] = ", ".join(channel.to)
    if isinstance(message, Facts):
        subject = words.headline(message, event)
        text = "\n".join(f"{name}: {value}" for name, value in words.lines(message))
    else:
        subject = words.headline_of_all(message)
        text = "\n".join(words.lines_of_all(message))
    mail["Subject"] = f"[holdfast] {' '.join(subject.split())}"[:_SUBJECT]
    mail["Date"] = formatdate(usegmt=True)
    mail["Message-ID"] = f"<{message.dedup}-{notice}@holdfast>"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(f"{subject}\n\n{text}\n")
    return mail
