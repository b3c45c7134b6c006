//! How ownership moves when an object changes.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::compare::Comparison;
use super::element::Element;
use super::fields::Emptied;
use super::managers::{Managers, Operation, Owned, Owner};
use super::set::Set;
use super::types::Type;
use super::{Error, Versions, fields, merge};

/// A field that somebody else owns, and that an applied configuration would change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Who owns it.
    pub owner: Owner,
    /// The version that the path is of.
    pub version: String,
    /// Where it is.
    pub path: Vec<Element>,
}

/// An object in one version, and how to get it in others.
pub(super) struct Objects<'a> {
    pub(super) versions: &'a dyn Versions,
    /// The version that the request is in.
    pub(super) version: &'a str,
    /// What nobody comes to own by this request.
    pub(super) ignored: &'a Set,
}

impl Objects<'_> {
    /// The object in a version; `None` if there is no such version any more.
    async fn at(&self, object: &Value, version: &str) -> Result<Option<Value>, Error> {
        if object["apiVersion"] == version {
            return Ok(Some(object.clone()));
        }
        if self.versions.types(version).is_none() {
            return Ok(None);
        }
        self.versions.convert(object.clone(), version).await.map(Some).map_err(Error::Conversion)
    }

    fn types(&self, version: &str) -> Result<Type<'_>, Error> {
        let missing = || Error::Conversion(format!("no schema for {version}"));
        self.versions.types(version).ok_or_else(missing)
    }

    /// Follows changes of the schema: what is owned as a whole now is owned by who owned a part of it.
    fn follow_schema(&self, managers: &mut Managers) {
        for owned in managers.0.values_mut() {
            let Some(types) = self.versions.types(&owned.version) else { continue };
            if let Some(fields) = fields::follow_schema(&owned.fields, types) {
                owned.fields = fields;
            }
        }
    }

    /// Takes from all but `owner` what has changed from `old` to `new`. Gives what has, in the request's version.
    ///
    /// # Errors
    /// The conflicts, unless `force`.
    pub(super) async fn take(
        &self,
        managers: &mut Managers,
        old: &Value,
        new: &Value,
        owner: &Owner,
        force: bool,
    ) -> Result<Comparison, Error> {
        let whole = Comparison::of(old, new, self.types(self.version)?).outside(self.ignored);
        let mut by_version = BTreeMap::new();
        let (mut lost, mut conflicts, mut obsolete) = (Vec::new(), Vec::new(), Vec::new());
        for (other, owned) in managers.0.iter().filter(|(other, _)| *other != owner) {
            if owned.version != self.version && !by_version.contains_key(&owned.version) {
                let (Some(old), Some(new)) =
                    (self.at(old, &owned.version).await?, self.at(new, &owned.version).await?)
                else {
                    obsolete.push(other.clone());
                    continue;
                };
                let comparison = Comparison::of(&old, &new, self.types(&owned.version)?);
                by_version.insert(owned.version.clone(), comparison.outside(self.ignored));
            }
            let changed = by_version.get(&owned.version).unwrap_or(&whole);
            let contested = owned.fields.intersection(&changed.modified.union(&changed.added));
            conflicts.extend(contested.paths().into_iter().map(|path| Conflict {
                owner: other.clone(),
                version: owned.version.clone(),
                path,
            }));
            lost.push((other.clone(), contested.union(&changed.removed)));
        }
        if !force && !conflicts.is_empty() {
            return Err(Error::Conflicts(conflicts));
        }
        for (other, fields) in lost {
            if let Some(owned) = managers.0.get_mut(&other) {
                owned.fields = owned.fields.difference(&fields);
            }
        }
        obsolete.iter().for_each(|other| {
            managers.0.remove(other);
        });
        managers.0.retain(|_, owned| !owned.fields.is_empty());
        Ok(whole)
    }

    /// What an update makes of ownership: who updates owns what has changed. Nothing is recorded under `owner` if
    /// nothing has.
    pub(super) async fn update(
        &self,
        managers: &mut Managers,
        live: &Value,
        new: &Value,
        owner: &Owner,
    ) -> Result<(), Error> {
        self.follow_schema(managers);
        let changed = self.take(managers, live, new, owner, true).await?;
        let before = managers.0.remove(owner).map(|owned| owned.fields).unwrap_or_default();
        let mut fields = before.difference(&changed.removed).outside(self.ignored);
        fields.extend(changed.modified);
        fields.extend(changed.added);
        if !fields.is_empty() {
            managers.0.insert(owner.clone(), Owned { version: self.version.into(), fields, time: None });
        }
        Ok(())
    }

    /// The object with a configuration applied by `owner`.
    pub(super) async fn apply(
        &self,
        managers: &mut Managers,
        live: &Value,
        config: &Value,
        owner: &Owner,
        force: bool,
    ) -> Result<Value, Error> {
        self.follow_schema(managers);
        let types = self.types(self.version)?;
        let merged = merge::merge(live, config, types);
        let fields = fields::of(config, types).outside(self.ignored);
        let time = managers.0.get(owner).and_then(|owned| owned.time.clone());
        let owned = Owned { version: self.version.into(), fields, time };
        let last = managers.0.insert(owner.clone(), owned);
        let pruned = match last {
            Some(last) if !last.fields.is_empty() => self.prune(&merged, managers, &last).await?,
            _ => None,
        };
        let (compared, new) = pruned.unwrap_or_else(|| (merged.clone(), merged));
        self.take(managers, live, &compared, owner, force).await?;
        Ok(new)
    }

    /// Without what the owner applied last time, not this time, and nobody else owns: as ownership sees it, and as it
    /// is to be. `None` if nothing can be said of what was applied, because its version is gone.
    async fn prune(
        &self,
        merged: &Value,
        managers: &Managers,
        last: &Owned,
    ) -> Result<Option<(Value, Value)>, Error> {
        let Some(merged_then) = self.at(merged, &last.version).await? else { return Ok(None) };
        let types = self.types(&last.version)?;
        let gone = fields::with_named_fields(&last.fields, types);
        let pruned = without(&merged_then, types, &gone, Emptied::Null);
        let pruned = self.give_back_owned(&merged_then, pruned, managers, last).await?;
        // Only what the owner really had may go; what nobody owned stays.
        let Some(pruned) = self.at(&pruned, &last.version).await? else { return Ok(None) };
        let named = |object: &Value| fields::with_named_fields(&fields::of(object, types), types);
        let gone = named(&merged_then).difference(&named(&pruned)).intersection(&gone);
        let [compared, new] =
            [Emptied::Null, Emptied::Gone].map(|emptied| without(&merged_then, types, &gone, emptied));
        Ok(self.at(&compared, self.version).await?.zip(self.at(&new, self.version).await?))
    }

    /// Puts back what was pruned but somebody owns, version by version.
    async fn give_back_owned(
        &self,
        merged: &Value,
        mut pruned: Value,
        managers: &Managers,
        last: &Owned,
    ) -> Result<Value, Error> {
        let mut by_version: BTreeMap<&str, Set> = BTreeMap::new();
        for owned in managers.0.values() {
            let fields = by_version.entry(&owned.version).or_default();
            *fields = fields.union(&owned.fields);
        }
        // The pruned version first: a conversion may need what was pruned.
        let mut order: Vec<&str> = by_version.keys().copied().collect();
        order.sort_by_key(|version| *version != last.version);
        for version in order {
            let (Some(whole), Some(part)) =
                (self.at(merged, version).await?, self.at(&pruned, version).await?)
            else {
                continue;
            };
            let types = self.types(version)?;
            let named = |set: &Set| fields::with_named_fields(set, types);
            let kept = named(&fields::of(&part, types)).union(&named(&by_version[version]));
            let gone = named(&fields::of(&whole, types)).difference(&kept);
            pruned = without(&whole, types, &gone, Emptied::Null);
        }
        Ok(pruned)
    }
}

/// An object without some fields. Its version and kind are not up for pruning: without them it cannot be converted.
fn without(from: &Value, types: Type<'_>, gone: &Set, emptied: Emptied) -> Value {
    let mut pruned = fields::remove(from, types, gone, emptied).unwrap_or_else(|| json!({}));
    for name in ["apiVersion", "kind"] {
        pruned[name] = from[name].clone();
    }
    pruned
}

impl Owner {
    /// Who makes a request.
    pub(super) fn of(manager: &str, operation: Operation, version: &str, subresource: &str) -> Self {
        Owner {
            manager: manager.into(),
            operation,
            version: if operation == Operation::Apply { String::new() } else { version.into() },
            subresource: subresource.into(),
        }
    }
}
