//! How the built-in kinds are served.

use crate::meta::GenerationRule;
use crate::name::{self, NameRule};
use crate::{GroupVersion, GroupVersionKind, GroupVersionResource};

/// What a kind asks of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameShape {
    /// A DNS subdomain.
    Subdomain,
    /// A DNS label.
    Label,
    /// A DNS label that starts with a letter.
    Label1035,
    /// Anything that fits into a path.
    PathSegment,
}

impl NameShape {
    /// The rule.
    pub fn rule(self) -> NameRule {
        match self {
            NameShape::Subdomain => name::is_subdomain,
            NameShape::Label => name::is_label,
            NameShape::Label1035 => name::is_1035_label,
            NameShape::PathSegment => name::is_path_segment,
        }
    }
}

/// A subresource of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subresource {
    /// Such as `status`.
    pub name: &'static str,
    /// Group, version and kind of its bodies; the resource's own if `None`.
    pub kind: Option<(&'static str, &'static str, &'static str)>,
    /// What can be done to it.
    pub verbs: &'static [&'static str],
}

/// A built-in resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resource {
    /// API group; empty for core.
    pub group: &'static str,
    /// API version.
    pub version: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// As in paths.
    pub plural: &'static str,
    /// As people say.
    pub singular: &'static str,
    /// As people type.
    pub short_names: &'static [&'static str],
    /// Groups of resources, such as `all`.
    pub categories: &'static [&'static str],
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
    /// What can be done to it.
    pub verbs: &'static [&'static str],
    /// Its subresources.
    pub subresources: &'static [Subresource],
    /// Whether its objects are kept; what is not, is answered and forgotten.
    pub stored: bool,
    /// What its names look like.
    pub names: NameShape,
    /// What changes its generation.
    pub generation: GenerationRule,
}

impl Resource {
    /// Group, version and kind.
    pub fn gvk(&self) -> GroupVersionKind {
        GroupVersion::new(self.group, self.version).kind(self.kind)
    }

    /// Group, version and resource.
    pub fn gvr(&self) -> GroupVersionResource {
        GroupVersion::new(self.group, self.version).resource(self.plural)
    }

    /// A subresource by its name.
    pub fn subresource(&self, name: &str) -> Option<&'static Subresource> {
        self.subresources.iter().find(|one| one.name == name)
    }

    const fn of(
        group: &'static str,
        kind: &'static str,
        plural: &'static str,
        singular: &'static str,
    ) -> Self {
        Resource {
            group,
            version: "v1",
            kind,
            plural,
            singular,
            short_names: &[],
            categories: &[],
            namespaced: true,
            verbs: ALL,
            subresources: &[],
            stored: true,
            names: NameShape::Subdomain,
            generation: GenerationRule::None,
        }
    }

    /// A kind that is created, answered and forgotten.
    const fn review(
        group: &'static str,
        kind: &'static str,
        plural: &'static str,
        singular: &'static str,
    ) -> Self {
        let resource = Resource::of(group, kind, plural, singular);
        Resource { namespaced: false, verbs: &["create"], stored: false, ..resource }
    }

    const fn cluster(self) -> Self {
        Resource { namespaced: false, ..self }
    }

    const fn short(self, short_names: &'static [&'static str]) -> Self {
        Resource { short_names, ..self }
    }

    const fn in_all(self) -> Self {
        Resource { categories: &["all"], ..self }
    }

    const fn with(self, subresources: &'static [Subresource]) -> Self {
        Resource { subresources, ..self }
    }

    const fn named(self, names: NameShape) -> Self {
        Resource { names, ..self }
    }

    const fn counting(self, generation: GenerationRule) -> Self {
        Resource { generation, ..self }
    }
}

const ALL: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const CHANGE: &[&str] = &["get", "patch", "update"];
const STATUS: Subresource = Subresource { name: "status", kind: None, verbs: CHANGE };
const FINALIZE: Subresource = Subresource { name: "finalize", kind: None, verbs: &["update"] };
const SCALE: Subresource =
    Subresource { name: "scale", kind: Some(("autoscaling", "v1", "Scale")), verbs: CHANGE };
const TOKEN: Subresource = Subresource {
    name: "token",
    kind: Some(("authentication.k8s.io", "v1", "TokenRequest")),
    verbs: &["create"],
};
const EVICTION: Subresource =
    Subresource { name: "eviction", kind: Some(("policy", "v1", "Eviction")), verbs: &["create"] };
const BINDING: Subresource =
    Subresource { name: "binding", kind: Some(("", "v1", "Binding")), verbs: &["create"] };

const RBAC: &str = "rbac.authorization.k8s.io";
const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";

/// Namespaces are deleted one by one.
const NAMESPACES: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];

static RESOURCES: &[Resource] = &[
    Resource::of("", "ConfigMap", "configmaps", "configmap").short(&["cm"]),
    Resource::of("", "Endpoints", "endpoints", "endpoints").short(&["ep"]),
    Resource::of("", "Event", "events", "event").short(&["ev"]),
    Resource { verbs: NAMESPACES, ..Resource::of("", "Namespace", "namespaces", "namespace") }
        .cluster()
        .short(&["ns"])
        .with(&[FINALIZE, STATUS])
        .named(NameShape::Label),
    Resource::of("", "Node", "nodes", "node").cluster().short(&["no"]).with(&[STATUS]),
    Resource::of("", "PersistentVolumeClaim", "persistentvolumeclaims", "persistentvolumeclaim")
        .short(&["pvc"])
        .with(&[STATUS]),
    Resource::of("", "PersistentVolume", "persistentvolumes", "persistentvolume")
        .cluster()
        .short(&["pv"])
        .with(&[STATUS]),
    Resource::of("", "Pod", "pods", "pod")
        .short(&["po"])
        .in_all()
        .with(&[BINDING, EVICTION, STATUS])
        .counting(GenerationRule::Spec),
    Resource::of("", "Secret", "secrets", "secret"),
    Resource::of("", "ServiceAccount", "serviceaccounts", "serviceaccount").short(&["sa"]).with(&[TOKEN]),
    Resource::of("", "Service", "services", "service")
        .short(&["svc"])
        .in_all()
        .with(&[STATUS])
        .named(NameShape::Label1035),
    Resource::of(
        ADMISSION,
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        "mutatingwebhookconfiguration",
    )
    .cluster()
    .counting(GenerationRule::AllButMetadata)
    .in_api_extensions(),
    Resource::of(
        ADMISSION,
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
        "validatingadmissionpolicy",
    )
    .cluster()
    .with(&[STATUS])
    .counting(GenerationRule::Spec)
    .in_api_extensions(),
    Resource::of(
        ADMISSION,
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        "validatingadmissionpolicybinding",
    )
    .cluster()
    .counting(GenerationRule::Spec)
    .in_api_extensions(),
    Resource::of(
        ADMISSION,
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        "validatingwebhookconfiguration",
    )
    .cluster()
    .counting(GenerationRule::AllButMetadata)
    .in_api_extensions(),
    Resource::of(
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        "customresourcedefinition",
    )
    .cluster()
    .short(&["crd", "crds"])
    .with(&[STATUS])
    .counting(GenerationRule::Spec)
    .in_api_extensions(),
    Resource::of("apps", "DaemonSet", "daemonsets", "daemonset")
        .short(&["ds"])
        .in_all()
        .with(&[STATUS])
        .counting(GenerationRule::Spec),
    Resource::of("apps", "Deployment", "deployments", "deployment")
        .short(&["deploy"])
        .in_all()
        .with(&[SCALE, STATUS])
        .counting(GenerationRule::SpecOrAnnotations),
    Resource::review(AUTHENTICATION, "SelfSubjectReview", "selfsubjectreviews", "selfsubjectreview"),
    Resource::review(AUTHENTICATION, "TokenReview", "tokenreviews", "tokenreview"),
    Resource {
        namespaced: true,
        ..Resource::review(
            AUTHORIZATION,
            "LocalSubjectAccessReview",
            "localsubjectaccessreviews",
            "localsubjectaccessreview",
        )
    },
    Resource::review(
        AUTHORIZATION,
        "SelfSubjectAccessReview",
        "selfsubjectaccessreviews",
        "selfsubjectaccessreview",
    ),
    Resource::review(
        AUTHORIZATION,
        "SelfSubjectRulesReview",
        "selfsubjectrulesreviews",
        "selfsubjectrulesreview",
    ),
    Resource::review(AUTHORIZATION, "SubjectAccessReview", "subjectaccessreviews", "subjectaccessreview"),
    Resource::of("batch", "Job", "jobs", "job").in_all().with(&[STATUS]).counting(GenerationRule::Spec),
    Resource::of("coordination.k8s.io", "Lease", "leases", "lease"),
    Resource::of("discovery.k8s.io", "EndpointSlice", "endpointslices", "endpointslice")
        .counting(GenerationRule::AllButMetadata),
    Resource::of("events.k8s.io", "Event", "events", "event").short(&["ev"]),
    Resource::of("policy", "PodDisruptionBudget", "poddisruptionbudgets", "poddisruptionbudget")
        .short(&["pdb"])
        .with(&[STATUS])
        .counting(GenerationRule::Spec),
    Resource::of(RBAC, "ClusterRoleBinding", "clusterrolebindings", "clusterrolebinding")
        .cluster()
        .named(NameShape::PathSegment),
    Resource::of(RBAC, "ClusterRole", "clusterroles", "clusterrole").cluster().named(NameShape::PathSegment),
    Resource::of(RBAC, "RoleBinding", "rolebindings", "rolebinding").named(NameShape::PathSegment),
    Resource::of(RBAC, "Role", "roles", "role").named(NameShape::PathSegment),
    Resource::of("storage.k8s.io", "VolumeAttachment", "volumeattachments", "volumeattachment")
        .cluster()
        .with(&[STATUS]),
];

impl Resource {
    const fn in_api_extensions(self) -> Self {
        Resource { categories: &["api-extensions"], ..self }
    }
}

/// The built-in resources, by group and plural.
pub fn resources() -> &'static [Resource] {
    RESOURCES
}

/// The built-in resource at a path.
pub fn resource(group: &str, version: &str, plural: &str) -> Option<&'static Resource> {
    RESOURCES.iter().find(|one| (one.group, one.version, one.plural) == (group, version, plural))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::builtin::types;

    #[test]
    fn every_resource_has_its_types() {
        let mut seen = BTreeSet::new();
        for one in resources() {
            assert!(seen.insert((one.group, one.plural)), "{} twice", one.plural);
            assert!(types().by_kind(&one.gvk()).is_some(), "{}", one.kind);
            let list = GroupVersion::new(one.group, one.version).kind(format!("{}List", one.kind));
            assert_eq!(types().by_kind(&list).is_some(), one.stored, "{}", one.kind);
            for kind in one.subresources.iter().filter_map(|sub| sub.kind) {
                let kind = GroupVersion::new(kind.0, kind.1).kind(kind.2);
                assert!(types().by_kind(&kind).is_some(), "{kind:?}");
            }
            assert!(one.subresources.is_sorted_by_key(|sub| sub.name), "{}", one.kind);
            assert_eq!(one.singular, one.kind.to_lowercase());
        }
    }

    #[test]
    fn resources_are_found_by_path() {
        assert_eq!(resource("", "v1", "pods").unwrap().kind, "Pod");
        assert_eq!(
            resource("apps", "v1", "deployments").unwrap().subresource("scale").unwrap().kind.unwrap().2,
            "Scale"
        );
        assert!(resource("apps", "v1beta1", "deployments").is_none());
        assert!(!resource("", "v1", "namespaces").unwrap().verbs.contains(&"deletecollection"));
    }
}
