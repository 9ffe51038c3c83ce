# The service, or with --target simulator what plays experiments against one. Built in stages: a virtual environment from
# the locked requirements and the wheels, then an image that has that environment and a Python, no compiler.

FROM python:3.12-slim-bookworm AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /build
RUN python -m venv tools && python -m venv --without-pip /opt/prudent
COPY requirements.lock requirements-build.lock ./
# Before the sources, so that a change of the code does not fetch the requirements again.
RUN tools/bin/python -m pip --python /opt/prudent/bin/python install --require-hashes --requirement requirements.lock \
    && tools/bin/python -m pip install --require-hashes --requirement requirements-build.lock
COPY pyproject.toml README.md LICENSE mkdocs.yml ./
COPY docs docs
COPY migrations migrations
COPY client client
COPY service service
COPY simulator simulator
RUN tools/bin/python -m pip wheel --no-deps --no-build-isolation --wheel-dir dist ./client . \
    && tools/bin/python -m pip --python /opt/prudent/bin/python install --no-deps --no-index dist/*.whl

FROM build AS build-simulator
COPY requirements-all.lock ./
RUN tools/bin/python -m pip --python /opt/prudent/bin/python install --require-hashes --requirement requirements-all.lock

# Without the tests that libraries bring along: a fifth of their size, and never run.
FROM build AS build-service
RUN find /opt/prudent/lib -path '*/tests/*' '(' -name 'test_*' -o -name data ')' -prune -exec rm -rf '{}' +

FROM python:3.12-slim-bookworm AS base
# Numeric, so that an orchestrator can see that it is not root.
RUN groupadd --gid 10001 prudent \
    && useradd --uid 10001 --gid prudent --no-log-init --home-dir /data --no-create-home --shell /usr/sbin/nologin prudent \
    && install --directory --owner prudent --group prudent --mode 0750 /data
ENV PATH=/opt/prudent/bin:$PATH PYTHONUNBUFFERED=1
WORKDIR /data
VOLUME /data
USER 10001:10001

FROM base AS simulator
COPY --from=build-simulator /opt/prudent /opt/prudent
ENV MPLCONFIGDIR=/tmp/matplotlib
ENTRYPOINT ["prudent-simulator"]
CMD ["--help"]

FROM base AS service
COPY --from=build-service /opt/prudent /opt/prudent
# It listens to other machines, so it does not start without a key: give one in PRUDENT_ADMIN_KEY or
# PRUDENT_ADMIN_KEY_FILE.
ENV PRUDENT_HOST=0.0.0.0 \
    PRUDENT_PORT=8000 \
    PRUDENT_DATABASE_URL=sqlite:////data/prudent.db
EXPOSE 8000
STOPSIGNAL SIGTERM
# An answer other than 200 raises, and so exits with 1. No proxy stands between a container and itself.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as u; u.build_opener(u.ProxyHandler({})).open('http://127.0.0.1:' + os.environ['PRUDENT_PORT'] + '/health/ready', timeout=4)"]
ENTRYPOINT ["prudent"]
CMD ["serve"]
