// Pins K3s. Its source is copied out and built as a main module of its own; see docs/peers.md.
module herdsman.io/peers/k3s

go 1.26.0

require github.com/k3s-io/k3s v1.35.1-0.20260131041455-e69d18614fbf
