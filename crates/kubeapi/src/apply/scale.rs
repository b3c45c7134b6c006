//! The scale subresource shows one field of an object: who owns it there owns it here.

use std::collections::BTreeMap;

use serde_json::Value;

use super::element::Element;
use super::managers::{Managers, Owned};
use super::set::Set;

/// The version of Scales.
const SCALE: &str = "autoscaling/v1";

/// Where the number of replicas is in each version of a resource.
#[derive(Clone, Debug, Default)]
pub struct Replicas(BTreeMap<String, Option<Vec<Element>>>);

impl Replicas {
    /// By group and version: the path as a CRD has it (`.spec.replicas`), or none where the version has no scale
    /// subresource.
    pub fn of<'a>(paths: impl IntoIterator<Item = (String, Option<&'a str>)>) -> Self {
        let elements = |path: &str| path.trim_start_matches('.').split('.').map(Element::field).collect();
        Replicas(paths.into_iter().map(|(version, path)| (version, path.map(elements))).collect())
    }

    /// The managed fields of the Scale of an object that has `entries`.
    ///
    /// # Errors
    /// What is wrong with the entries.
    pub fn to_scale(&self, entries: &Value) -> Result<Value, String> {
        let mut shown = Managers::default();
        for (owner, owned) in Managers::decode(entries)?.0 {
            let path = self.0.get(&owned.version).and_then(Option::as_ref);
            if path.is_some_and(|path| owned.fields.has(path)) {
                shown.0.insert(owner, Owned { version: SCALE.into(), fields: in_scale(), time: owned.time });
            }
        }
        Ok(shown.encode())
    }

    /// The managed fields of an object that had `entries`, once its Scale has `scale_entries`. Who came to own the
    /// number owns it in `version`.
    ///
    /// # Errors
    /// What is wrong with the entries.
    pub fn from_scale(&self, entries: &Value, scale_entries: &Value, version: &str) -> Result<Value, String> {
        let mut scale = Managers::decode(scale_entries)?;
        let mut managers = Managers::default();
        for (owner, mut owned) in Managers::decode(entries)?.0 {
            let Some(path) = self.0.get(&owned.version) else { continue };
            if let Some(path) = path.as_ref().filter(|path| owned.fields.has(path))
                && scale.0.remove(&owner).is_none()
            {
                owned.fields = owned.fields.difference(&only(path));
            }
            if !owned.fields.is_empty() {
                managers.0.insert(owner, owned);
            }
        }
        let Some(Some(path)) = self.0.get(version) else { return Ok(managers.encode()) };
        for (owner, _) in
            scale.0.into_iter().filter(|(_, owned)| !owned.fields.intersection(&in_scale()).is_empty())
        {
            // Upstream forgets the time, too.
            managers.0.insert(owner, Owned { version: version.into(), fields: only(path), time: None });
        }
        Ok(managers.encode())
    }
}

fn only(path: &[Element]) -> Set {
    let mut set = Set::default();
    set.insert(path);
    set
}

fn in_scale() -> Set {
    Set::of_fields(["spec.replicas"])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(manager: &str, operation: &str, version: &str, subresource: &str, fields: Value) -> Value {
        let mut entry = json!({
            "manager": manager, "operation": operation, "apiVersion": version, "fieldsType": "FieldsV1",
            "fieldsV1": fields,
        });
        if !subresource.is_empty() {
            entry["subresource"] = json!(subresource);
        }
        entry
    }

    #[test]
    fn the_number_changes_hands() {
        let replicas = Replicas::of([("x/v1".to_owned(), Some(".spec.replicas")), ("x/v2".to_owned(), None)]);
        let number = json!({"f:spec": {"f:replicas": {}}});
        let more = json!({"f:spec": {"f:other": {}, "f:replicas": {}}});
        let before = json!([
            entry("a", "Apply", "x/v1", "", more.clone()),
            entry("b", "Apply", "x/v2", "", number.clone()),
            entry("c", "Update", "x/v0", "", number.clone()),
        ]);
        let shown = replicas.to_scale(&before).unwrap();
        assert_eq!(shown, json!([entry("a", "Apply", "autoscaling/v1", "", number.clone())]));
        let unchanged = replicas.from_scale(&before, &shown, "x/v1").unwrap();
        assert_eq!(unchanged, json!([before[0], before[1]]));
        let scaled = json!([entry("hpa", "Update", "autoscaling/v1", "scale", number.clone())]);
        assert_eq!(
            replicas.from_scale(&before, &scaled, "x/v1").unwrap(),
            json!([
                entry("a", "Apply", "x/v1", "", json!({"f:spec": {"f:other": {}}})),
                before[1],
                entry("hpa", "Update", "x/v1", "scale", number),
            ])
        );
    }
}
