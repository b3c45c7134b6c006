//! What is served, told to clients: group by group, or all at once.

mod aggregated;
mod groups;
mod legacy;

use kubeapi::media::{self, Discovery, Endpoint, Format};
use kubeapi::{Status, proto};
use serde_json::Value;
use sha2::{Digest, Sha512};

use crate::Document;
use crate::registry::Registry;
use groups::Groups;

/// The document at a path, if discovery has one there. A group that is not served has none: who asks gets what any
/// unknown path gives.
///
/// # Errors
/// 404 for a version that a built-in group does not have, 406 for a format that there is not.
pub fn answer(registry: &Registry, path: &str, accept: &str) -> Option<Result<Document, Status>> {
    let path = path.strip_suffix('/').unwrap_or(path).strip_prefix('/')?;
    let segments: Vec<&str> = path.split('/').collect();
    let groups = Groups::of(registry);
    let found = match segments[..] {
        ["api"] | ["apis"] if Discovery::accept(accept).0 != Discovery::Legacy => {
            return Some(aggregated(&groups, path == "api", accept));
        }
        ["api"] => legacy::core_versions(),
        ["apis"] => legacy::group_list(&groups),
        ["apis", group] => legacy::group(groups.get(group)?),
        ["api", version] => match groups.core().and_then(|group| group.version(version)) {
            Some(version) => legacy::resources(registry, "", version),
            None => return Some(Err(Status::no_such_resource())),
        },
        ["apis", name, version] => {
            let group = groups.get(name)?;
            match group.version(version) {
                Some(version) => legacy::resources(registry, name, version),
                None if group.is_builtin() => return Some(Err(Status::no_such_resource())),
                None => return None,
            }
        }
        _ => return None,
    };
    let accepted = media::accept(accept, Endpoint::Builtin);
    Some(accepted.and_then(|accepted| rendered(found, accepted.format)))
}

fn aggregated(groups: &Groups<'_>, core: bool, accept: &str) -> Result<Document, Status> {
    let (form, format) = Discovery::accept(accept);
    let list = match core {
        true => aggregated::list(form, groups.core()),
        false => aggregated::list(form, groups.by_name()),
    };
    let etag = hash(list.to_string().as_bytes());
    let document = rendered(list, format)?;
    Ok(Document {
        content_type: form.content_type(format),
        etag: Some(etag),
        headers: vec![("Cache-Control", "public".into()), ("Vary", "Accept".into())],
        ..document
    })
}

fn rendered(mut value: Value, format: Format) -> Result<Document, Status> {
    let body = match format {
        Format::Json => value.to_string().into(),
        Format::Yaml => serde_saphyr::to_string(&value).map_err(Status::internal)?.into(),
        Format::Protobuf => {
            // In JSON the oldest lists are without.
            if value.get("apiVersion").is_none() {
                value["apiVersion"] = "v1".into();
            }
            proto::encode(&value).map_err(Status::internal)?.into()
        }
    };
    Ok(Document { content_type: format.media_type().into(), body, ..Document::default() })
}

/// A hash as upstream writes those of its documents.
pub(crate) fn hash(bytes: &[u8]) -> String {
    Sha512::digest(bytes).iter().map(|byte| format!("{byte:02X}")).collect()
}
