# syntax=docker/dockerfile:1
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
ARG COMMIT=
RUN make build VERSION="$VERSION" COMMIT="$COMMIT" && mkdir -p /rootfs/tmp && chmod 1777 /rootfs/tmp

# br for TiDB Operator: spec.toolImage. The Operator runs /bin/sh -c "cp /br …" in it and the copy in another image, so it
# holds a shell and cp beside the one static program.
FROM busybox:1.37.0-musl AS br
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build --chmod=0755 /src/bin/br /br
LABEL org.opencontainers.image.title="tisnap-br" \
      org.opencontainers.image.licenses="Apache-2.0"
USER 65532:65532
ENTRYPOINT ["/br"]

# No shell and no package manager: the image holds one static program and the roots it trusts.
FROM scratch AS tisnap
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /rootfs/ /
COPY --from=build /src/bin/tisnap /usr/local/bin/tisnap
LABEL org.opencontainers.image.title="tisnap" \
      org.opencontainers.image.licenses="Apache-2.0"
ENV PATH=/usr/local/bin
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/tisnap"]
