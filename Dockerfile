# offsetfs without root: all commands but those of Spark and of databases, archives in S3 alone; docs/use/containers.md has examples.
#
#   buildah build -t offsetfs .        (or docker build, podman build)
#
# BASE is a Debian 13 whose apt works.
ARG BASE=docker.io/library/debian:trixie-slim

FROM $BASE AS build
COPY . /build
RUN /build/scripts/debian/build environment mount,s3,sql && \
    /build/scripts/debian/prune && \
    /usr/lib/offsetfs/bin/python3 -m compileall -q -j 0 --invalidation-mode unchecked-hash /usr/lib/offsetfs

FROM $BASE
RUN apt-get -qq update && \
    apt-get -qq -y install --no-install-recommends fuse3 python3 > /dev/null && \
    apt-get clean && rm -rf /var/lib/apt/lists/* /var/log/apt /var/log/dpkg.log /var/cache/debconf/*-old && \
    useradd --create-home --uid 1000 offsetfs && install -d -o offsetfs -g offsetfs /data /mnt/kafka && \
    printf '#!/bin/sh\nexec /usr/lib/offsetfs/bin/python3 -I -X utf8 -m offsetfs "$@"\n' > /usr/bin/offsetfs && \
    chmod 755 /usr/bin/offsetfs
COPY --from=build /usr/lib/offsetfs /usr/lib/offsetfs
USER offsetfs
WORKDIR /data
VOLUME /data
EXPOSE 9092
ENTRYPOINT ["/usr/lib/offsetfs/bin/python3", "-I", "-X", "utf8", "-m", "offsetfs"]
CMD ["--help"]
