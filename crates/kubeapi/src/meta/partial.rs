//! Objects as nothing but their metadata.

use serde_json::{Value, json};

use crate::Status;
use crate::media::MetaVersion;

/// The metadata of an object.
///
/// # Errors
/// 406 if it is a list.
pub fn partial(object: &Value, version: MetaVersion) -> Result<Value, Status> {
    if is_list(object) {
        let why = "you requested PartialObjectMetadata, but the requested object is a list";
        return Err(refused(why, object));
    }
    Ok(projected(object, version))
}

/// The metadata of a list's objects.
///
/// # Errors
/// 406 if it is no list.
pub fn partial_list(list: &Value, version: MetaVersion) -> Result<Value, Status> {
    if !is_list(list) {
        let why = "you requested PartialObjectMetadataList, but the requested object is not a list";
        return Err(refused(why, list));
    }
    let items = list["items"].as_array().into_iter().flatten().map(|item| projected(item, version));
    Ok(json!({
        "kind": "PartialObjectMetadataList",
        "apiVersion": version.api_version(),
        "metadata": list.get("metadata").cloned().unwrap_or_else(|| json!({})),
        "items": items.collect::<Vec<_>>(),
    }))
}

fn projected(object: &Value, version: MetaVersion) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": version.api_version(),
        "metadata": object.get("metadata").cloned().unwrap_or_else(|| json!({})),
    })
}

fn is_list(object: &Value) -> bool {
    object["items"].is_array() && object["kind"].as_str().is_none_or(|kind| kind.ends_with("List"))
}

fn refused(why: &str, object: &Value) -> Status {
    let message = format!("{why} ({})", object["kind"].as_str().unwrap_or_default());
    Status { message, ..Status::not_acceptable(&[]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_become_their_metadata() {
        let object = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"}, "spec": {}});
        let wanted = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "a"}});
        assert_eq!(partial(&object, MetaVersion::V1).unwrap(), wanted);
        let list = json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "5"}, "items": [object]});
        let wanted = json!({
            "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
            "metadata": {"resourceVersion": "5"}, "items": [wanted],
        });
        assert_eq!(partial_list(&list, MetaVersion::V1).unwrap(), wanted);
        let status = partial(&list, MetaVersion::V1).unwrap_err();
        assert_eq!(
            (status.code, status.message.as_str()),
            (406, "you requested PartialObjectMetadata, but the requested object is a list (PodList)")
        );
        assert_eq!(partial_list(&object, MetaVersion::V1).unwrap_err().code, 406);
    }
}
