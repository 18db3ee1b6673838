# syntax=docker/dockerfile:1
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
ARG COMMIT=
# Every file that is shipped has this time, so that the same sources give the same layers. /usr/share/sbom lists what is linked.
ARG SOURCE_DATE_EPOCH=0
RUN make build sbom VERSION="$VERSION" COMMIT="$COMMIT" && \
    mkdir -p /rootfs/tmp /rootfs/usr/local/bin /rootfs/etc/ssl/certs /rootfs/usr/share/sbom && chmod 1777 /rootfs/tmp && \
    cp /etc/ssl/certs/ca-certificates.crt /rootfs/etc/ssl/certs/ && \
    mkdir /rootfs-br && cp -a /rootfs/etc /rootfs/usr /rootfs-br/ && rmdir /rootfs-br/usr/local/bin /rootfs-br/usr/local && \
    cp bin/br.cdx.json /rootfs-br/usr/share/sbom/ && cp bin/tisnap.cdx.json /rootfs/usr/share/sbom/ && \
    cp bin/tisnap /rootfs/usr/local/bin/ && \
    find /rootfs /rootfs-br bin/br -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +

# br for TiDB Operator: spec.toolImage. The Operator runs /bin/sh -c "cp /br …" in it and the copy in another image, so it
# holds a shell and cp beside the one static program.
FROM busybox:1.37.0-musl AS br
COPY --from=build /rootfs-br/ /
COPY --from=build --chmod=0755 /src/bin/br /br
LABEL org.opencontainers.image.title="tisnap-br" \
      org.opencontainers.image.licenses="Apache-2.0"
USER 65532:65532
ENTRYPOINT ["/br"]

# No shell and no package manager: the image holds a static program and the roots it trusts.
FROM scratch AS tisnap
COPY --from=build /rootfs/ /
LABEL org.opencontainers.image.title="tisnap" \
      org.opencontainers.image.licenses="Apache-2.0"
ENV PATH=/usr/local/bin
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/tisnap"]
