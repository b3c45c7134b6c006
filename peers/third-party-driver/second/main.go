// The driver's next version: hosts stand on shelves.
package main

import (
	"github.com/rancher/machine/libmachine/mcnflag"

	"herdsman.io/peers/third-party-driver/shed"
)

func main() {
	shed.Serve(mcnflag.StringFlag{Name: "shed-shelf", Usage: "Where the host stands", Value: "top", EnvVar: "SHED_SHELF"})
}
