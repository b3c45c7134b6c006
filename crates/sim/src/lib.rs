//! Simulated machines: an operating system, a distribution and a network that live in the process.
