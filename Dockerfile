# One static binary, no shell, a user without rights, nothing written to the file system.
#
#   docker build --build-arg VERSION="$(git describe --tags --always --dirty)" -t dqbridge .
#   docker run --read-only -e DQ_NATS_URL=nats://nats:4222 -e DQ_REDIS_URL=redis://redis:6379/0 dqbridge
#
# HTTP listens on loopback unless DQ_HTTP_ADDR says otherwise: DQ_HTTP_ADDR=:8080 for probes and metrics from outside,
# DQ_HTTP_TOKEN beside it for the rest. There is no HEALTHCHECK, which would need a shell or curl: let the orchestrator
# ask /healthz (alive) and /readyz (NATS and Redis connected), as Kubernetes does, or see docker-compose.yml.
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG TARGETOS TARGETARCH VERSION=dev
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -tags grpcnotrace -buildvcs=false -trimpath -ldflags "-s -w -X main.stamp=$VERSION" -o /dqbridge .

FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /dqbridge /dqbridge
USER 65532:65532
EXPOSE 8080
STOPSIGNAL SIGTERM
ENTRYPOINT ["/dqbridge"]
