# One image for origin and node: docker run IMAGE origin …, docker run IMAGE node …
# git is not in it, so the version comes with the command:
# docker build --build-arg VERSION=$(git describe --tags --always --dirty) -t partner-edge .

FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# Here, so that another version does not fetch the modules anew.
ARG VERSION=dev
RUN make build VERSION=$VERSION && mkdir /state

# No shell, no package manager; the user nonroot is 65532.
FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /src/build/edge /usr/bin/edge
# Where a node and edge sandbox look for them.
COPY --from=build /src/build/modules /usr/lib/edge/modules
COPY --from=build /src/build/sandbox.wasm /usr/lib/edge/sandbox.wasm
COPY --from=build --chown=65532:65532 /state /var/lib/edge
USER 65532:65532
VOLUME /var/lib/edge
# A node's partner API and metrics; the origin's admin API and NATS.
EXPOSE 8080 9090 8090 4222
ENTRYPOINT ["/usr/bin/edge"]
CMD ["help"]
