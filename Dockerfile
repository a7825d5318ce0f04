# Byline's image, for those who have Docker. Without it, "go -C deploy/image run ." makes the same files and configuration,
# not the same digest.
#
#   docker build -t byline --build-arg VERSION=$(git describe --tags --always) --build-arg REVISION=$(git rev-parse HEAD) .
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
ARG TARGETARCH
WORKDIR /src
COPY . .
RUN CGO_ENABLED=0 GOOS=linux GOARCH=$TARGETARCH go build -buildvcs=true -trimpath -ldflags="-s -w" -o /image/byline .
RUN mkdir /image/data

FROM scratch
COPY --from=build /image/byline /byline
COPY --from=build --chown=65532:65532 /image/data /data
ARG VERSION REVISION SOURCE
LABEL org.opencontainers.image.version=$VERSION
LABEL org.opencontainers.image.revision=$REVISION
LABEL org.opencontainers.image.source=$SOURCE
ENV BYLINE_DATA=/data
ENV BYLINE_LISTEN=:8080
EXPOSE 8080/tcp
WORKDIR /
USER 65532:65532
ENTRYPOINT ["/byline"]
