"""The server: an HTTP API, a live stream and a dashboard on top of the client, mountable anywhere ASGI runs."""

from importlib.util import find_spec

from holdfast.errors import ConfigError

_PACKAGES = ("fastapi", "httptools", "jinja2", "multipart", "uvicorn")


def require_server() -> None:
    """Refuse to go on without the packages that a server needs, and say how to get them."""
    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        message = f"the server needs packages that are not installed ({', '.join(missing)}); run"
        message += " pip install 'holdfast-jobs[server]'"
        raise ConfigError(message)
