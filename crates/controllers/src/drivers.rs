//! Node drivers: from a driver's flags to its fields, and from its fields to its three kinds, while running.
//!
//! Drivers of our own are asked in the process, all others over rancher-machine's plugin protocol. What comes out is a
//! DynamicSchema, as Rancher keeps it, and from that the CRDs of `<Driver>Config`, `<Driver>MachineTemplate` and
//! `<Driver>Machine`. They stay when a driver is switched off: machines may be there.

mod act;
mod catalogue;
mod context;
mod source;
mod status;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use api::machine::Driver;
use api::management::v3::NodeDriver;
use kit::{Controller, Ended, Key, Turn};
use machine::Drivers;
use serde_json::json;

use crate::Parts;
use context::Context;
pub use context::Error;
use source::Source;
use status::Stage;

/// On a driver's schema: digest of what its NodeDriver said of single fields, in annotations, when it was made.
const SPECIAL: &str = "herdsman.io/special-fields";

/// How many drivers are looked at at a time. Each may be a process and a download.
const AT_A_TIME: usize = 4;

/// Which drivers there are, and where programs come from.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Drivers of our own; each gets a NodeDriver.
    pub drivers: Drivers,
    /// The program rancher-machine; if it is there, the drivers in it get NodeDrivers too.
    pub rancher_machine: Option<PathBuf>,
    /// Where downloaded drivers are kept.
    pub downloads: PathBuf,
    /// Our own environment: downloads go through the proxy that it names.
    pub environment: BTreeMap<String, String>,
}

/// Looks after node drivers until the future is dropped.
pub async fn run(parts: Parts, settings: Settings) {
    let context = Context::new(parts, settings);
    context.ready().await;
    act::put_in_place(&context).await;
    context.connect();
    let queue = context.queue.clone();
    kit::runner::run(Arc::new(NodeDrivers(context)), queue, AT_A_TIME).await;
}

struct NodeDrivers(Arc<Context>);

impl Controller for NodeDrivers {
    type Error = Error;

    fn name(&self) -> &'static str {
        "drivers"
    }

    async fn reconcile(&self, key: &Key, turn: &Turn) -> Result<Ended, Error> {
        let context = &self.0;
        let Some(object) = context.drivers.get(key) else { return Ok(Ended::Gone) };
        if object.deleting() {
            return Ok(Ended::Well);
        }
        let node_driver = object.view::<NodeDriver>()?;
        let done = match node_driver.spec.active {
            true => self.activate(&node_driver, turn).await,
            false => Ok(Stage::Inactive),
        };
        let (stage, failed) = match done {
            Ok(stage) => (stage, None),
            // Only a restart of the server changes that.
            Err(error @ Error::Source(source::Error::Off(_))) => (Stage::of(&error), None),
            Err(error) => (Stage::of(&error), Some(error)),
        };
        let status = status::of(&node_driver, &stage, &context.clock.now().to_string());
        act::write_status(context, turn, &object, &node_driver, status).await?;
        failed.map_or(Ok(Ended::Well), Err)
    }
}

impl NodeDrivers {
    /// Everything that makes a driver usable.
    async fn activate(&self, node_driver: &NodeDriver, turn: &Turn) -> Result<Stage, Error> {
        let context = &self.0;
        let name = display_name(node_driver);
        let driver = Driver::named(&name).ok_or(Error::NoName)?;
        let source = Source::of(context, node_driver, &driver);
        let version = source.version().await?;
        let applied = node_driver.status.clone().unwrap_or_default();
        let special = source::special(node_driver);
        let digest = catalogue::digest(&json!(source::marks(&special)));
        let asked_for = context.schemas.get(&Key::new("", &driver.schema_name()));
        let asked_for = asked_for.filter(|schema| schema.annotation(SPECIAL) == Some(digest.as_str()));
        let known = asked_for.filter(|_| {
            applied.applied_url == node_driver.spec.url
                && applied.applied_checksum == node_driver.spec.checksum
                && applied.applied_docker_machine_version == version
        });
        // Asking a program costs a process: it is asked again when it is another one, or its fields mean something else.
        match known.filter(|_| !source.is_ours()) {
            Some(schema) => act::apply_definitions(context, &*schema.view()?).await?,
            None => {
                let flags = source.flags().await?;
                let (mut schema, credential) =
                    provisioning::machine::flags::schemas(&driver, &flags, &special)?;
                schema.metadata.annotations.get_or_insert_default().insert(SPECIAL.into(), digest);
                for schema in credential.iter().chain([&schema]) {
                    act::apply_schema(context, turn, schema).await?;
                }
                act::apply_definitions(context, &schema).await?;
            }
        }
        Ok(Stage::Active { version })
    }
}

/// The name that users see and kinds begin with.
fn display_name(driver: &NodeDriver) -> String {
    match driver.spec.display_name.as_str() {
        "" => driver.metadata.name.clone().unwrap_or_default(),
        name => name.to_owned(),
    }
}
