//! Everything behind the one port.
