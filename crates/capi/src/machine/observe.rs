//! What providers and the node say of a machine, taken over. No IO.

use api::capi::v1beta2::{Machine, MachineNodeReference, MachineStatus};
use api::catalogue::{annotations, reasons};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{Seen, SeenNode};
use crate::context::Error;

fn status_of(machine: &mut Machine) -> &mut MachineStatus {
    machine.status.get_or_insert_default()
}

/// Takes over what the bootstrap and infrastructure objects say.
///
/// # Errors
/// If an object breaks its contract, or was there and is gone; what could be read is taken over all the same.
pub(super) fn providers(machine: &mut Machine, seen: &Seen, now: Timestamp) -> Result<(), Error> {
    let bootstrap = bootstrap(machine, seen);
    let infrastructure = infrastructure(machine, seen);
    let certificates = certificates(machine, seen, now);
    bootstrap.and(infrastructure).and(certificates)
}

fn bootstrap(machine: &mut Machine, seen: &Seen) -> Result<(), Error> {
    if machine.spec.bootstrap.config_ref.is_none() {
        return Ok(());
    }
    if machine.spec.bootstrap.data_secret_name.is_some() {
        status_of(machine).initialization.bootstrap_data_secret_created = Some(true);
        return Ok(());
    }
    let Some(provider) = seen.bootstrap.there() else { return Ok(()) };
    let external = provider.read();
    if external.deleting() || !external.data_secret_created()? {
        return Ok(());
    }
    let name = external.data_secret_name()?;
    if name.is_empty() {
        return Err(Error::Impossible(format!(
            "{} {} says that its Secret is there, and status.dataSecretName is empty",
            external.kind(),
            provider.object.name()
        )));
    }
    machine.spec.bootstrap.data_secret_name = Some(name);
    status_of(machine).initialization.bootstrap_data_secret_created = Some(true);
    Ok(())
}

fn infrastructure(machine: &mut Machine, seen: &Seen) -> Result<(), Error> {
    let before = status_of(machine).initialization.infrastructure_provisioned == Some(true);
    let reference = machine.spec.infrastructure_ref.clone();
    let deprecated = status_of(machine).deprecated.get_or_insert_default().v1beta1.get_or_insert_default();
    let Some(provider) = seen.infrastructure.there() else {
        let gone = before
            && !seen.object.deleting()
            && matches!(seen.infrastructure, crate::context::Found::Missing);
        if gone {
            let message = format!(
                "{} {} has been deleted while the Machine still exists",
                reference.kind, reference.name
            );
            deprecated.failure_reason = Some(reasons::INVALID_CONFIGURATION.into());
            deprecated.failure_message = Some(message);
        }
        return Ok(());
    };
    let external = provider.read();
    let (reason, message) = external.failure();
    (deprecated.failure_reason, deprecated.failure_message) = (reason, message);
    if external.deleting() || !(external.provisioned()? || before) {
        return Ok(());
    }
    let id = external.provider_id()?;
    if id.is_empty() {
        return Ok(());
    }
    let (addresses, placed) = (external.addresses()?, external.failure_domain()?);
    if let Some(domain) = external.requested_failure_domain()? {
        machine.spec.failure_domain = domain;
    }
    machine.spec.provider_id = id;
    let status = status_of(machine);
    status.addresses = addresses;
    status.failure_domain = placed.unwrap_or_default();
    status.initialization.infrastructure_provisioned = Some(true);
    Ok(())
}

fn certificates(machine: &mut Machine, seen: &Seen, _: Timestamp) -> Result<(), Error> {
    if !seen.is_control_plane() {
        return Ok(());
    }
    let own = seen.object.annotation(annotations::CERTIFICATES_EXPIRY);
    let theirs = seen
        .bootstrap
        .there()
        .and_then(|provider| provider.object.annotation(annotations::CERTIFICATES_EXPIRY));
    let Some(text) = own.or(theirs) else {
        status_of(machine).certificates_expiry_date = None;
        return Ok(());
    };
    let time: Timestamp = text.parse().map_err(|error| {
        Error::Impossible(format!(
            "metadata.annotations[{}]: {text:?} is no time: {error}",
            annotations::CERTIFICATES_EXPIRY
        ))
    })?;
    status_of(machine).certificates_expiry_date = Some(Time(time));
    Ok(())
}

/// Takes over what the node says of itself. Gives whether the machine has become a node just now.
pub(super) fn node(machine: &mut Machine, seen: &Seen) -> bool {
    let SeenNode::There(object, node) = &seen.node else { return false };
    let status = status_of(machine);
    status.node_info = node.status.as_ref().and_then(|status| status.node_info.clone());
    let joined = status.node_ref.is_none();
    if joined {
        status.node_ref = Some(MachineNodeReference { name: object.name().into() });
    }
    joined
}
