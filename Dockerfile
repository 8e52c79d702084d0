# syntax=docker/dockerfile:1
# Holdfast with every extra. An app is built on top of it:
#
#   FROM holdfast
#   COPY --chown=10001:10001 shop/ /app/shop/
#   ENV HOLDFAST_APP=shop.tasks:app
#
# and then it is `docker run shop worker`, `docker run shop upkeep`, `docker run shop jobs list`.

ARG PYTHON=3.13

FROM python:${PYTHON}-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src/ src/
RUN python -m venv /opt/holdfast \
    && /opt/holdfast/bin/pip install --no-cache-dir --disable-pip-version-check ".[all]"

FROM python:${PYTHON}-slim
# The user that `holdfast deploy kubernetes` names; a number, so that Kubernetes can tell that it is not root.
RUN groupadd --gid 10001 holdfast \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /app --shell /usr/sbin/nologin holdfast
COPY --from=build /opt/holdfast /opt/holdfast
# The root file system may be read-only: nothing is written but to /tmp.
ENV PATH=/opt/holdfast/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
WORKDIR /app
USER 10001:10001
# The process that gets the signals is Holdfast itself: the first SIGTERM lets running jobs end.
STOPSIGNAL SIGTERM
ENTRYPOINT ["holdfast"]
CMD ["--help"]
