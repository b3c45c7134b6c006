//! What clients are told when the store refuses.

use kubeapi::status::{Cause, Details};
use kubeapi::{FieldError, GroupKind, GroupResource, Path, Status};

use crate::store::{Error, Revision};

/// No client sees it.
const REDEFINED: &str = "Redefined";

/// The answer to a request that the store could not carry out. Expectations of writes are the callers' to explain.
pub(super) fn of_store(error: Error) -> Status {
    match error {
        Error::Compacted { .. } => Status::expired("The resourceVersion for the provided list is too old."),
        Error::FutureRevision { asked, head } => too_large_version(asked, head),
        Error::TooLarge { bytes, most, .. } => {
            Status::too_large(format!("limit is {most}, the object has {bytes} bytes"))
        }
        // Nothing of the write is kept. Clients of upstream try again by themselves when they are told when.
        Error::DiskFull => {
            let details = Details { retry_after_seconds: 1, ..Details::default() };
            Status { details: Some(details), ..Status::internal(Error::DiskFull) }
        }
        Error::Closed => Status::unavailable("the server is shutting down"),
        other => Status::internal(other),
    }
}

/// What a write of a custom object answers within the server if the object's CRD has changed meanwhile.
pub(super) fn redefined() -> Status {
    Status { reason: REDEFINED.into(), ..Status::internal("the definition has changed") }
}

pub(super) fn is_redefined(status: &Status) -> bool {
    status.reason == REDEFINED
}

/// A revision that is not there yet, and may come.
pub(super) fn too_large_version(asked: Revision, head: Revision) -> Status {
    let mut status = Status::timeout(format!("Too large resource version: {asked}, current: {head}"), 1);
    let cause = Cause {
        reason: "ResourceVersionTooLarge".into(),
        message: "Too large resource version".into(),
        ..Cause::default()
    };
    status.details = Some(Details { causes: vec![cause], ..status.details.unwrap_or_default() });
    status
}

/// An error that upstream gives no reason to.
pub(super) fn plain(message: &str) -> Status {
    Status { code: 500, reason: String::new(), message: message.into(), ..Status::bad_request("") }
}

/// Reads a `resourceVersion`; empty and `0` are none.
pub(super) fn revision(text: &str) -> Result<Option<Revision>, Status> {
    if text.is_empty() || text == "0" {
        return Ok(None);
    }
    match text.parse::<i64>().ok().filter(|number| *number > 0) {
        Some(number) => Ok(Some(Revision(number))),
        None => Err(Status::bad_request(format!(
            "invalid resource version: resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"
        ))),
    }
}

/// As [`revision`]; upstream gives the error no reason where the reading itself finds it.
pub(super) fn plain_revision(text: &str) -> Result<Option<Revision>, Status> {
    revision(text).map_err(|status| {
        let message = &status.message;
        plain(message.strip_prefix("invalid resource version: ").unwrap_or(message))
    })
}

/// An update that does not say which revision it is of, where that has to be said.
pub(super) fn version_required(resource: &GroupResource, name: &str) -> Status {
    // Upstream names the resource here, where everywhere else it names the kind.
    let kind = &GroupKind::new(&*resource.group, &*resource.resource);
    let path = Path::new("metadata").child("resourceVersion");
    Status::invalid(kind, name, &[FieldError::invalid(&path, 0, "must be specified for an update")])
}
