//! Drivers of servers: the contract of rancher-machine, and drivers of our own.
