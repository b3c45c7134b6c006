// A driver as somebody else would write it, in two versions, against rancher-machine's library. `cargo xtask peers` builds it; see
// docs/peers.md. The replace line is the library's own.
module herdsman.io/peers/third-party-driver

go 1.26.0

replace github.com/urfave/cli => github.com/urfave/cli v1.11.1-0.20151120215642-0302d3914d2a

require github.com/rancher/machine v0.15.0-rancher130

require (
	github.com/Azure/go-ansiterm v0.0.0-20170929234023-d6e3b3328b78 // indirect
	github.com/docker/docker v0.7.3-0.20190327010347-be7ac8be2ae0 // indirect
	github.com/sirupsen/logrus v1.9.3 // indirect
	golang.org/x/crypto v0.36.0 // indirect
	golang.org/x/sys v0.31.0 // indirect
	golang.org/x/term v0.30.0 // indirect
	gotest.tools v2.2.0+incompatible // indirect
)
