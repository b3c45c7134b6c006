//! How a Rust struct becomes a Kubernetes kind.
//!
//! kube's own derive makes kinds of exactly `spec` and `status`, both of which it insists on when it reads. Rancher
//! has kinds with fields at the top level, and objects come without a spec, so the [`kind!`] macro writes the root
//! struct out (docs/adr/0003-kinds-by-macro.md).

use std::borrow::Cow;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Whether objects of a kind live in a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One object per namespace and name.
    Namespaced,
    /// One object per name.
    Cluster,
}

/// What is known of a kind at compile time. Implemented by `kind!`.
pub trait Kind: kube::Resource<DynamicType = ()> + JsonSchema {
    /// API group, such as `rke.cattle.io`.
    const GROUP: &'static str;
    /// API version, such as `v1`.
    const VERSION: &'static str;
    /// Kind, such as `RKECluster`.
    const KIND: &'static str;
    /// Plural, as in URLs.
    const PLURAL: &'static str;
    /// Namespaced or not.
    const SCOPE: Scope;
}

/// The `apiVersion` of kind `K`: takes no space, is always written, and refuses to be read from another kind's object.
pub struct ApiVersion<K>(PhantomData<fn() -> K>);

/// The `kind` of kind `K`; as [`ApiVersion`].
pub struct KindName<K>(PhantomData<fn() -> K>);

impl<K: Kind> ApiVersion<K> {
    fn text() -> Cow<'static, str> {
        K::api_version(&())
    }
}

impl<K: Kind> KindName<K> {
    fn text() -> Cow<'static, str> {
        Cow::Borrowed(K::KIND)
    }
}

macro_rules! constant_field {
    ($Field:ident, $what:literal) => {
        impl<K> Clone for $Field<K> {
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<K> Copy for $Field<K> {}
        impl<K> Default for $Field<K> {
            fn default() -> Self {
                $Field(PhantomData)
            }
        }
        impl<K> PartialEq for $Field<K> {
            fn eq(&self, _: &Self) -> bool {
                true
            }
        }
        impl<K: Kind> std::fmt::Debug for $Field<K> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&Self::text())
            }
        }
        impl<K: Kind> Serialize for $Field<K> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&Self::text())
            }
        }
        impl<'de, K: Kind> Deserialize<'de> for $Field<K> {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let found = Cow::<str>::deserialize(deserializer)?;
                if found == Self::text() {
                    Ok($Field(PhantomData))
                } else {
                    Err(D::Error::custom(format!(concat!($what, " is {:?}, expected {:?}"), found, Self::text())))
                }
            }
        }
        impl<K> JsonSchema for $Field<K> {
            fn schema_name() -> Cow<'static, str> {
                $what.into()
            }
            fn inline_schema() -> bool {
                true
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string" })
            }
        }
    };
}

constant_field!(ApiVersion, "apiVersion");
constant_field!(KindName, "kind");

/// The schema that a CRD has for `metadata`: the API server knows the rest.
pub(crate) fn metadata_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object" })
}

/// Declares a kind: a root struct with `apiVersion`, `kind` and `metadata`, and its [`Kind`] and `kube::Resource`
/// implementations.
///
/// ```ignore
/// kind! {
///     /// What it is.
///     pub struct RKECluster: "rke.cattle.io/v1" rkeclusters Namespaced {
///         /// What is asked for.
///         pub spec: RKEClusterSpec,
///         /// What is.
///         #[serde(skip_serializing_if = "Option::is_none")]
///         pub status: Option<RKEClusterStatus>,
///     }
/// }
/// ```
macro_rules! kind {
    (
        $(#[$attribute:meta])*
        pub struct $Name:ident : $group:literal / $version:literal $plural:ident $scope:ident {
            $( $(#[$field_attribute:meta])* pub $field:ident : $Type:ty ),* $(,)?
        }
    ) => {
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(rename_all = "camelCase", default)]
        $(#[$attribute])*
        pub struct $Name {
            #[doc = concat!("Always `", $group, "/", $version, "`.")]
            pub api_version: $crate::kind::ApiVersion<$Name>,
            #[doc = concat!("Always `", stringify!($Name), "`.")]
            pub kind: $crate::kind::KindName<$Name>,
            /// Name, namespace, labels and the rest of what every object has.
            #[schemars(schema_with = "crate::kind::metadata_schema")]
            pub metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
            $( $(#[$field_attribute])* pub $field: $Type, )*
        }

        impl $crate::Kind for $Name {
            const GROUP: &'static str = $group;
            const VERSION: &'static str = $version;
            const KIND: &'static str = stringify!($Name);
            const PLURAL: &'static str = stringify!($plural);
            const SCOPE: $crate::Scope = $crate::Scope::$scope;
        }

        impl kube::Resource for $Name {
            type DynamicType = ();
            type Scope = $crate::kind::resource_scope::$scope;

            fn kind(_: &()) -> std::borrow::Cow<'_, str> {
                <Self as $crate::Kind>::KIND.into()
            }
            fn group(_: &()) -> std::borrow::Cow<'_, str> {
                <Self as $crate::Kind>::GROUP.into()
            }
            fn version(_: &()) -> std::borrow::Cow<'_, str> {
                <Self as $crate::Kind>::VERSION.into()
            }
            fn plural(_: &()) -> std::borrow::Cow<'_, str> {
                <Self as $crate::Kind>::PLURAL.into()
            }
            fn meta(&self) -> &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &self.metadata
            }
            fn meta_mut(&mut self) -> &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

/// kube's scope markers under the names that [`kind!`] takes.
pub(crate) mod resource_scope {
    pub(crate) type Namespaced = k8s_openapi::NamespaceResourceScope;
    #[allow(dead_code, reason = "the macro takes either scope, whether or not there are kinds of both")]
    pub(crate) type Cluster = k8s_openapi::ClusterResourceScope;
}
