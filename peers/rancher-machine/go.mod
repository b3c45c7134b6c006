// Pins rancher-machine. `cargo xtask peers` builds it; see docs/peers.md. The replace line is its own.
module herdsman.io/peers/rancher-machine

go 1.26.0

replace github.com/urfave/cli => github.com/urfave/cli v1.11.1-0.20151120215642-0302d3914d2a

require github.com/rancher/machine v0.15.0-rancher130
