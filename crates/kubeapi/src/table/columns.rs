//! The columns of the built-in kinds.

use super::Column;

/// A column in short: a name that ends in `+` is shown in wide output only, `#` makes it an integer, `?` a truth value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Short(pub(super) &'static str);

impl Short {
    pub(super) fn column(&self) -> Column {
        let name = self.0.trim_end_matches(['+', '#', '?']);
        let type_ = match self.0 {
            "Created At" => "date",
            integer if integer.ends_with('#') => "integer",
            truth if truth.ends_with('?') => "boolean",
            _ => "string",
        };
        Column {
            name: name.into(),
            type_: type_.into(),
            format: if matches!(name, "Name" | "Attacher") { "name" } else { "" }.into(),
            description: String::new(),
            priority: i64::from(self.0.ends_with('+')),
        }
    }
}

macro_rules! columns {
    ($($name:ident: $($column:literal),+;)+) => {
        $(pub(super) const $name: &[Short] = &[$(Short($column)),+];)+
    };
}

columns! {
    DEFAULT: "Name", "Created At";
    POD: "Name", "Ready", "Status", "Restarts", "Age", "IP+", "Node+", "Nominated Node+", "Readiness Gates+";
    BUDGET: "Name", "Min Available", "Max Unavailable", "Allowed Disruptions#", "Age";
    JOB: "Name", "Status", "Completions", "Duration", "Age", "Containers+", "Images+", "Selector+";
    DAEMON_SET: "Name", "Desired#", "Current#", "Ready#", "Up-to-date#", "Available#", "Node Selector", "Age",
        "Containers+", "Images+", "Selector+";
    DEPLOYMENT: "Name", "Ready", "Up-to-date", "Available", "Age", "Containers+", "Images+", "Selector+";
    SERVICE: "Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "Selector+";
    ENDPOINTS: "Name", "Endpoints", "Age";
    ENDPOINT_SLICE: "Name", "AddressType", "Ports", "Endpoints", "Age";
    NODE: "Name", "Status", "Roles", "Age", "Version", "Internal-IP+", "External-IP+", "OS-Image+",
        "Kernel-Version+", "Container-Runtime+";
    EVENT: "Last Seen", "Type", "Reason", "Object", "Subobject+", "Source+", "Message", "First Seen+", "Count+",
        "Name+";
    NAMESPACE: "Name", "Status", "Age";
    SECRET: "Name", "Type", "Data", "Age";
    SERVICE_ACCOUNT: "Name", "Secrets", "Age";
    VOLUME: "Name", "Capacity", "Access Modes", "Reclaim Policy", "Status", "Claim", "StorageClass",
        "VolumeAttributesClass", "Reason", "Age", "VolumeMode+";
    CLAIM: "Name", "Status", "Volume", "Capacity", "Access Modes", "StorageClass", "VolumeAttributesClass", "Age",
        "VolumeMode+";
    CONFIG_MAP: "Name", "Data", "Age";
    LEASE: "Name", "Holder", "Age";
    BINDING: "Name", "Role", "Age", "Users+", "Groups+", "ServiceAccounts+";
    ATTACHMENT: "Name", "Attacher", "PV", "Node", "Attached?", "Age";
    WEBHOOKS: "Name", "Webhooks#", "Age";
    POLICY: "Name", "Validations#", "ParamKind", "Age";
    POLICY_BINDING: "Name", "PolicyName", "ParamRef", "Age";
}
