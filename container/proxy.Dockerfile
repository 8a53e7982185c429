# The proxy, to run beside a workload. Small, not root, with nothing to write but two folders.
#
# Build it with `egress image build proxy`, or from a checkout with `container/build proxy`.
# The context holds egress/, container/ and requirements.lock; with wheels/ as well it needs no package index.
# Every package has to have a hash that the lock file names.

# Any image with Python 3.12 or newer and its pip. No shell is used, here or later.
ARG BASE_IMAGE=python:3.13-slim

FROM ${BASE_IMAGE} AS made
# 1: take packages from wheels/ alone.
ARG PIP_NO_INDEX=0
# A pattern may match nothing.
COPY container/proxy/install.py requirements.lock wheels/*.whl /build/
RUN ["python3", "/build/install.py", "packages"]
COPY egress/ /build/egress/
COPY container/proxy/trust.py container/proxy/folders.py /opt/egress/share/
RUN ["python3", "/build/install.py", "egress"]
RUN ["python3", "/build/install.py", "slim"]

FROM ${BASE_IMAGE}
COPY --from=made /opt/egress/ /opt/egress/
RUN ["python3", "/opt/egress/share/folders.py"]
ENV PATH=/opt/egress/bin:/usr/local/bin:/usr/bin:/bin \
    HOME=/var/lib/egress \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    EGRESS_CONTAINER=true \
    EGRESS_RULES=/etc/egress/hosts.yaml \
    EGRESS_STATE_DIR=/var/lib/egress \
    EGRESS_RUNTIME_DIR=/run/egress
USER 10001:10001
WORKDIR /var/lib/egress
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=8s --start-period=30s --retries=3 CMD ["egress", "status"]
ENTRYPOINT ["egress"]
CMD ["serve"]
