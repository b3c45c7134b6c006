// The driver as it was first given out.
package main

import "herdsman.io/peers/third-party-driver/shed"

func main() { shed.Serve() }
