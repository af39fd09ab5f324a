# The image of krucible itself: simulations, nights, searches and reports, wherever containers run.
#
#     docker/make-krucible                       # makes krucible:latest from this checkout
#     docker run --rm -v "$PWD/store:/store" krucible sim --seeds 1..100
#
# docker/make-krucible puts its context together: site/, krucible with all that it imports. Live runs
# need a host: they cut links and stop processes, which a container is not allowed to.
ARG BASE_IMAGE=python:3.11-slim
FROM ${BASE_IMAGE}

COPY site /opt/krucible
ENV PYTHONPATH=/opt/krucible PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
RUN python3 -m compileall -q /opt/krucible && python3 -m krucible --version

# What it writes: runs, reports, nights. Whoever runs it as another user brings a folder of theirs.
RUN mkdir -m 1777 /store
WORKDIR /
VOLUME /store
ENTRYPOINT ["python3", "-m", "krucible"]
CMD ["--help"]
