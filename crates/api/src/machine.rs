//! Machines of node drivers: `rke-machine-config.cattle.io` and `rke-machine.cattle.io`.
//!
//! Each driver has three kinds, and nobody knows the drivers beforehand: their fields come from a
//! [`DynamicSchema`](crate::management::v3::DynamicSchema). So the objects here type what all drivers share and keep
//! the driver's fields as a map, kinds are values ([`Driver`]) and definitions are made while running
//! ([`definitions`]).

mod definitions;
mod driver;
mod objects;

pub use definitions::{UnknownFieldType, definitions};
pub use driver::{CONFIG_GROUP, Driver, GROUP, VERSION};
pub use objects::{
    Machine, MachineConfig, MachineSpec, MachineTemplate, MachineTemplateResource, MachineTemplateSpec,
};
