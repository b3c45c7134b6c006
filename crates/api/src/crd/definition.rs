use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceConversion, CustomResourceDefinition,
    CustomResourceDefinitionNames, CustomResourceDefinitionSpec, CustomResourceDefinitionVersion,
    CustomResourceSubresourceScale, CustomResourceSubresourceStatus, CustomResourceSubresources,
    CustomResourceValidation, JSONSchemaProps, ServiceReference, WebhookClientConfig, WebhookConversion,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use crate::catalogue::labels;
use crate::schema::{self, Nulls};
use crate::{Kind, Scope};

/// A printer column: what `kubectl get` shows.
#[derive(Clone, Debug)]
pub struct Column {
    name: &'static str,
    kind: &'static str,
    path: &'static str,
    priority: i32,
}

impl Column {
    /// A column of text.
    pub const fn string(name: &'static str, path: &'static str) -> Self {
        Column { name, kind: "string", path, priority: 0 }
    }

    /// A column of whole numbers.
    pub const fn integer(name: &'static str, path: &'static str) -> Self {
        Column { kind: "integer", ..Column::string(name, path) }
    }

    /// A column of true and false.
    pub const fn boolean(name: &'static str, path: &'static str) -> Self {
        Column { kind: "boolean", ..Column::string(name, path) }
    }

    /// A column of times, shown as ages.
    pub const fn date(name: &'static str, path: &'static str) -> Self {
        Column { kind: "date", ..Column::string(name, path) }
    }

    /// The object's age.
    pub const fn age() -> Self {
        Column::date("Age", ".metadata.creationTimestamp")
    }

    /// The same column, shown only with `-o wide`.
    pub const fn wide(self) -> Self {
        // Any priority above 0 hides a column; 10 is what Cluster API uses.
        Column { priority: 10, ..self }
    }
}

/// What the scale subresource of a kind shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scale {
    WithSelector,
    WithoutSelector,
}

/// One served version of a kind.
#[derive(Clone, Debug)]
pub struct Version {
    name: &'static str,
    deprecated: bool,
    status: bool,
    scale: Option<Scale>,
    columns: Vec<Column>,
    schema: Value,
}

impl Version {
    /// The version that `K` is, with a status subresource, strict about nulls.
    pub fn of<K: Kind>() -> Self {
        Version::with_nulls::<K>(Nulls::Refused)
    }

    /// The version that `K` is, with a status subresource; optional fields may be given as null.
    pub fn taking_nulls<K: Kind>() -> Self {
        Version::with_nulls::<K>(Nulls::Taken)
    }

    fn with_nulls<K: Kind>(nulls: Nulls) -> Self {
        let schema = schema::structural::<K>(nulls);
        Version {
            name: K::VERSION,
            deprecated: false,
            status: true,
            scale: None,
            columns: Vec::new(),
            schema,
        }
    }

    /// Without a status subresource: status is written with the rest of the object.
    pub fn without_status(mut self) -> Self {
        self.status = false;
        self
    }

    /// With a scale subresource at the usual paths.
    pub fn with_scale(mut self) -> Self {
        self.scale = Some(Scale::WithSelector);
        self
    }

    /// The same for a kind whose status has no selector.
    pub fn with_scale_without_selector(mut self) -> Self {
        self.scale = Some(Scale::WithoutSelector);
        self
    }

    /// Whoever uses this version is warned.
    pub fn deprecated(mut self) -> Self {
        self.deprecated = true;
        self
    }

    /// What `kubectl get` shows.
    pub fn columns(mut self, columns: impl IntoIterator<Item = Column>) -> Self {
        self.columns = columns.into_iter().collect();
        self
    }

    fn build(self, storage: bool) -> CustomResourceDefinitionVersion {
        let scale = self.scale.map(|scale| CustomResourceSubresourceScale {
            spec_replicas_path: ".spec.replicas".into(),
            status_replicas_path: ".status.replicas".into(),
            label_selector_path: (scale == Scale::WithSelector).then(|| ".status.selector".into()),
        });
        let status = self.status.then(status_subresource);
        let has_subresources = scale.is_some() || status.is_some();
        CustomResourceDefinitionVersion {
            name: self.name.into(),
            served: true,
            storage,
            deprecated: self.deprecated.then_some(true),
            subresources: has_subresources.then_some(CustomResourceSubresources { scale, status }),
            additional_printer_columns: (!self.columns.is_empty())
                .then(|| self.columns.iter().map(column).collect()),
            schema: Some(CustomResourceValidation { open_api_v3_schema: Some(schema_props(self.schema)) }),
            ..Default::default()
        }
    }
}

/// An empty object switches the subresource on; k8s-openapi's default is null, which does not.
pub(crate) fn status_subresource() -> CustomResourceSubresourceStatus {
    CustomResourceSubresourceStatus(json!({}))
}

fn column(column: &Column) -> CustomResourceColumnDefinition {
    CustomResourceColumnDefinition {
        name: column.name.into(),
        type_: column.kind.into(),
        json_path: column.path.into(),
        priority: (column.priority != 0).then_some(column.priority),
        ..Default::default()
    }
}

pub(crate) fn schema_props(schema: Value) -> JSONSchemaProps {
    // Our own types, known when this is compiled: a test builds every definition.
    serde_json::from_value(schema).expect("a structural schema is made of schema keywords")
}

/// A CustomResourceDefinition in the making.
#[derive(Clone, Debug)]
pub struct Definition {
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    scope: Scope,
    short_names: Vec<&'static str>,
    categories: Vec<&'static str>,
    labels: BTreeMap<&'static str, &'static str>,
    /// The first one is stored.
    versions: Vec<Version>,
}

impl Definition {
    /// The definition of `K`, stored in the given version.
    pub fn of<K: Kind>(stored: Version) -> Self {
        Definition {
            group: K::GROUP,
            kind: K::KIND,
            plural: K::PLURAL,
            scope: K::SCOPE,
            short_names: Vec::new(),
            categories: Vec::new(),
            labels: BTreeMap::new(),
            versions: vec![stored],
        }
    }

    /// A further version, served by conversion.
    pub fn also_served(mut self, version: Version) -> Self {
        self.versions.push(version);
        self
    }

    /// Abbreviations for `kubectl`.
    pub fn short_names(mut self, names: impl IntoIterator<Item = &'static str>) -> Self {
        self.short_names.extend(names);
        self
    }

    /// Groups of resources that `kubectl get <category>` lists together.
    pub fn categories(mut self, categories: impl IntoIterator<Item = &'static str>) -> Self {
        self.categories.extend(categories);
        self
    }

    /// A label on the definition itself.
    pub fn label(mut self, key: &'static str, value: &'static str) -> Self {
        self.labels.insert(key, value);
        self
    }

    /// One of Cluster API's own: clusterctl finds it by these labels.
    pub fn of_cluster_api(self) -> Self {
        self.categories(["cluster-api"]).label(labels::CLUSTERCTL, "").label(labels::PROVIDER, "cluster-api")
    }

    /// The finished object.
    pub fn build(self) -> CustomResourceDefinition {
        let singular = self.kind.to_lowercase();
        // kubectl lists versions by age: the stored one is the newest and comes last.
        let conversion = (self.versions.len() > 1).then(conversion_by_webhook);
        let mut versions: Vec<_> =
            self.versions.into_iter().enumerate().map(|(index, version)| version.build(index == 0)).collect();
        versions.reverse();
        CustomResourceDefinition {
            metadata: ObjectMeta {
                name: Some(format!("{}.{}", self.plural, self.group)),
                labels: owned_labels(&self.labels),
                ..Default::default()
            },
            spec: CustomResourceDefinitionSpec {
                group: self.group.into(),
                names: CustomResourceDefinitionNames {
                    kind: self.kind.into(),
                    list_kind: Some(format!("{}List", self.kind)),
                    plural: self.plural.into(),
                    singular: Some(singular),
                    short_names: owned_list(&self.short_names),
                    categories: owned_list(&self.categories),
                },
                scope: match self.scope {
                    Scope::Namespaced => "Namespaced".into(),
                    Scope::Cluster => "Cluster".into(),
                },
                versions,
                conversion,
                preserve_unknown_fields: None,
            },
            status: None,
        }
    }
}

/// Two versions that differ in shape need a converter. Where it is reached is the installer's business; until it is
/// set, requests in the other version fail clearly instead of losing fields silently.
fn conversion_by_webhook() -> CustomResourceConversion {
    CustomResourceConversion {
        strategy: "Webhook".into(),
        webhook: Some(WebhookConversion {
            client_config: Some(WebhookClientConfig {
                service: Some(ServiceReference {
                    namespace: "cattle-system".into(),
                    name: "herdsman".into(),
                    path: Some("/convert".into()),
                    port: Some(443),
                }),
                ..Default::default()
            }),
            conversion_review_versions: vec!["v1".into()],
        }),
    }
}

fn owned_list(items: &[&'static str]) -> Option<Vec<String>> {
    (!items.is_empty()).then(|| items.iter().map(|&item| item.into()).collect())
}

fn owned_labels(labels: &BTreeMap<&'static str, &'static str>) -> Option<BTreeMap<String, String>> {
    (!labels.is_empty()).then(|| labels.iter().map(|(&key, &value)| (key.into(), value.into())).collect())
}
