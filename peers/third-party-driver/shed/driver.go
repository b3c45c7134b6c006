// Package shed is a node driver for hosts that stand in a shed: they are there already, and are reached by SSH.
package shed

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/rancher/machine/libmachine/drivers"
	"github.com/rancher/machine/libmachine/drivers/plugin"
	"github.com/rancher/machine/libmachine/log"
	"github.com/rancher/machine/libmachine/mcnflag"
	"github.com/rancher/machine/libmachine/state"
)

// Driver is one host.
type Driver struct {
	*drivers.BaseDriver
	Token  string
	Shelf  string
	source string
	more   []mcnflag.Flag
}

// Serve answers rancher-machine. A version may have more flags than the first one has.
func Serve(more ...mcnflag.Flag) {
	plugin.RegisterDriver(&Driver{BaseDriver: &drivers.BaseDriver{}, more: more})
}

// DriverName is what users call it.
func (d *Driver) DriverName() string { return "shed" }

// GetCreateFlags are what users can say of a host.
func (d *Driver) GetCreateFlags() []mcnflag.Flag {
	return append([]mcnflag.Flag{
		mcnflag.StringFlag{Name: "shed-address", Usage: "Address of the host", EnvVar: "SHED_ADDRESS"},
		mcnflag.StringFlag{Name: "shed-ssh-key-path", Usage: "File with the private key", EnvVar: "SHED_SSH_KEY_PATH"},
		mcnflag.IntFlag{Name: "shed-ssh-port", Usage: "Port", Value: 22, EnvVar: "SHED_SSH_PORT"},
		mcnflag.StringFlag{Name: "shed-token", Usage: "Opens the shed", EnvVar: "SHED_TOKEN"},
		mcnflag.StringSliceFlag{Name: "shed-tag", Usage: "Written on the host", EnvVar: "SHED_TAG"},
	}, d.more...)
}

// SetConfigFromFlags takes what the user said.
func (d *Driver) SetConfigFromFlags(flags drivers.DriverOptions) error {
	d.IPAddress = flags.String("shed-address")
	d.SSHPort = flags.Int("shed-ssh-port")
	d.SSHUser = "root"
	d.Token = flags.String("shed-token")
	d.source = flags.String("shed-ssh-key-path")
	for _, flag := range d.more {
		if flag.String() == "shed-shelf" {
			d.Shelf = flags.String("shed-shelf")
		}
	}
	if d.IPAddress == "" {
		return errors.New("the shed needs --shed-address")
	}
	return nil
}

// PreCreateCheck refuses whoever has no key to the shed.
func (d *Driver) PreCreateCheck() error {
	if d.Token != "open sesame" {
		return errors.New("the shed stays closed: wrong token")
	}
	return nil
}

// Create takes the key along.
func (d *Driver) Create() error {
	log.Infof("Fetching a host from shelf %q", d.Shelf)
	key, err := os.ReadFile(d.source)
	if err != nil {
		return err
	}
	return os.WriteFile(d.GetSSHKeyPath(), key, 0o600)
}

// GetSSHHostname is where the host is reached.
func (d *Driver) GetSSHHostname() (string, error) { return d.GetIP() }

// GetURL is where a Docker would be.
func (d *Driver) GetURL() (string, error) { return fmt.Sprintf("tcp://%s:2376", d.IPAddress), nil }

// GetState tells whether the host answers.
func (d *Driver) GetState() (state.State, error) {
	connection, err := net.DialTimeout("tcp", net.JoinHostPort(d.IPAddress, strconv.Itoa(d.SSHPort)), 5*time.Second)
	if err != nil {
		return state.Stopped, nil
	}
	return state.Running, connection.Close()
}

// Remove puts the host back.
func (d *Driver) Remove() error {
	_, err := drivers.RunSSHCommandFromDriver(d, "echo back in the shed > /returned")
	return err
}

// Start is for others.
func (d *Driver) Start() error { return nil }

// Stop is for others.
func (d *Driver) Stop() error { return nil }

// Restart is for others.
func (d *Driver) Restart() error { return nil }

// Kill is for others.
func (d *Driver) Kill() error { return nil }
