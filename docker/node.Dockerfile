# The image of one node: Python 3.11, our node with what it imports, and the tools of the network.
#
# `krucible run --env docker` builds it by itself, from a context that it puts together: app/ (the
# package `node`), site/ (what that imports, copied from the environment krucible runs in) and
# requirements.txt (the same by name). See harness/envs/docker/image.py.
#
# Without a registry make the base with docker/make-base.
ARG BASE_IMAGE=python:3.11-slim
FROM ${BASE_IMAGE}

# iproute2: tc, ip. iptables: cut links. faketime: libfaketime, which moves one process's clock.
RUN set -e; \
    if ! { command -v iptables && command -v tc && command -v faketime; } >/dev/null; then \
        apt-get update -qq; \
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
            iptables iproute2 faketime; \
        rm -rf /var/lib/apt/lists/*; \
    fi

# Where nodes find it whatever the machine; an image without it has no clock faults.
RUN ln -s "$(find /usr/lib /usr/local/lib -name libfaketimeMT.so.1 | head -n 1)" \
        /opt/libfaketime.so && test -e /opt/libfaketime.so

COPY site /opt/krucible/site
COPY requirements.txt /opt/krucible/requirements.txt
ENV PYTHONPATH=/opt/krucible/app:/opt/krucible/site PYTHONDONTWRITEBYTECODE=1
# What was copied serves when this Python is of the same version and the same kind of machine; else
# it is fetched.
RUN python3 -c "import kio.serial, crc32c, msgspec" 2>/dev/null \
    || { rm -rf /opt/krucible/site && pip install --no-cache-dir --target /opt/krucible/site \
         -r /opt/krucible/requirements.txt; }
RUN python3 -m compileall -q /opt/krucible/site

COPY app /opt/krucible/app
RUN python3 -m compileall -q /opt/krucible/app && python3 -m node run --help >/dev/null

CMD ["sleep", "infinity"]
