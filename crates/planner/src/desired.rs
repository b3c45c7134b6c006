//! The desired plan of a machine: what it shall look like and run, given the cluster and its place in it.
//!
//! Files in this order: registries, S3 certificate, files of arguments, files of the user, the config file, manifests,
//! chart values, the webhook of direct access, certificates of the user, scripts, what the node's tunnel needs. Then one instruction (the
//! distribution's installer), probes, and on an init node without a control plane two periodic instructions.
//!
//! The installer restarts the distribution when `RESTART_STAMP` is not the one it stored; nodes are drained when
//! `DRAIN_HASH` changes. Files that are `dynamic` count for neither, the config's `server` and `cluster-init` only for
//! the stamp.

mod addresses;
mod config;
mod files;
pub(crate) mod install;
mod manifests;
mod probes;
mod registries;
mod s3;
mod tunnel;
mod user_config;

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use plan::document::File;
use plan::{Document, Plan};

use crate::epoch::Epoch;
use crate::snapshot::{Cluster, Machine, MachineName, Roles};
use crate::version::{Runtime, Version};
use crate::wait::{Code, Wait};

/// Where a machine stands in its cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// It starts the cluster, or did.
    pub init: bool,
    /// The URL at which it joins; none only for the one that starts the cluster.
    pub server: Option<String>,
    /// No cluster exists yet: the first start is still to come.
    pub fresh: bool,
}

/// A desired plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Rendered {
    /// The plan.
    pub document: Arc<Document>,
    /// The distribution restarts when this changes.
    pub restart_stamp: String,
    /// The node is drained when this changes.
    pub drain_hash: String,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// Why a plan could not be rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Something that the spec refers to is not as it should be.
    #[error("{field}: {problem}")]
    Reference {
        /// Path of the field.
        field: String,
        /// What is wrong.
        problem: String,
    },
    /// The driver has not saved what it knows of the server.
    #[error("waiting for machine {0} driver config to be saved")]
    DriverConfig(String),
}

impl Error {
    fn reference(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Error::Reference { field: field.into(), problem: problem.into() }
    }

    /// The wait of a machine whose plan cannot be rendered.
    pub fn wait(&self, machine: &MachineName) -> Wait {
        let code = match self {
            Error::Reference { .. } => Code::ReferencedObject,
            Error::DriverConfig(_) => Code::DriverConfigMissing,
        };
        Wait::machine(code, machine, self.to_string())
    }
}

/// What rendering goes by.
struct Context<'a> {
    epoch: Epoch,
    cluster: &'a Cluster,
    name: &'a MachineName,
    machine: &'a Machine,
    version: &'a Version,
    roles: Roles,
    placement: &'a Placement,
    data_dir: String,
}

impl Context<'_> {
    fn runtime(&self) -> Runtime {
        self.version.runtime()
    }

    /// The address of the machine for itself.
    fn loopback(&self) -> &'static str {
        let networking = self.cluster.spec.configuration.networking.as_ref();
        match networking.map_or("", |networking| networking.stack_preference.as_str()) {
            "" | "dual" => "localhost",
            "ipv6" => "[::1]",
            _ => "127.0.0.1",
        }
    }

    /// Where scripts of plans live.
    fn provisioning_dir(&self) -> &str {
        match self.cluster.spec.configuration.data_directories.provisioning.as_str() {
            "" => "/var/lib/rancher/capr",
            directory => directory,
        }
    }
}

/// Renders the plan of a machine.
///
/// # Errors
/// If something that the spec refers to is missing or not for this cluster, or the driver has not saved its machine.
pub fn render(
    epoch: Epoch,
    cluster: &Cluster,
    version: &Version,
    name: &MachineName,
    machine: &Machine,
    placement: &Placement,
) -> Result<Rendered, Error> {
    let custom = cluster.spec.configuration.data_directories.k8s_distro.as_str();
    let data_dir = match custom {
        "" => format!("/var/lib/rancher/{}", version.runtime()),
        _ if machine.is_windows() => format!("/var/lib/rancher/{}", version.runtime()),
        directory => directory.to_owned(),
    };
    let roles = machine.roles();
    let context = Context { epoch, cluster, name, machine, version, roles, placement, data_dir };
    assemble(&context)
}

fn assemble(context: &Context<'_>) -> Result<Rendered, Error> {
    let mut warnings = Vec::new();
    let user = user_config::merged(context, &mut warnings);
    let registry = registries::default_registry(context, &user);
    let registries = registries::files(context, &registry)?;
    let s3 = s3::s3(context)?;
    let config = config::config(context, user, &registry, &registries, &s3)?;
    let mut files = registries.files;
    files.extend(s3.files);
    files.extend(config.files);
    files.extend(files::selected(context)?);
    files.extend(config.file);
    files.extend(manifests::files(context, &registry));
    files.extend(files::authentication_webhook(context));
    files.extend(files::certificates(context)?);
    let image = install::image(context, &registry);
    let stamps = install::stamps(context, &image, &files, config.for_drain.as_deref());
    files.extend(install::scripts(context));
    files.extend(tunnel::files(context));
    let plan = Plan {
        files,
        instructions: install::instructions(context, image, &stamps),
        periodic_instructions: install::periodic(context),
        probes: probes::probes(context, &config.values),
        ..Plan::default()
    };
    let install::Stamps { restart, drain } = stamps;
    Ok(Rendered {
        document: Arc::new(Document::encode(plan)),
        restart_stamp: restart,
        drain_hash: drain,
        warnings,
    })
}

/// A file that only root reads.
fn file(path: impl Into<String>, content: impl AsRef<[u8]>) -> File {
    File { path: path.into(), content: BASE64_STANDARD.encode(content), ..File::default() }
}

/// A file whose change neither restarts nor drains.
fn dynamic(path: impl Into<String>, content: impl AsRef<[u8]>) -> File {
    File { dynamic: true, ..file(path, content) }
}
