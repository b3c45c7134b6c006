//! What is refused.

use std::net::IpAddr;

use api::catalogue::annotations;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kubeapi::{FieldError, Path, name};
use serde_json::Value;

use crate::naming::{self, Parts};
use crate::rollout::{self, Rounding};
use crate::selector::Selector;
use crate::version::Version;
use crate::{health, preflight};

/// The shortest time a machine may be given to become a node, in seconds.
const SHORTEST_STARTUP: i64 = 30;
/// A taint that keeps everything off control planes; workers must not have it.
const CONTROL_PLANE_TAINT: &str = "node-role.kubernetes.io/control-plane";

struct Rules<'a> {
    object: &'a Value,
    old: Option<&'a Value>,
    found: Vec<FieldError>,
}

fn path(text: &str) -> Path {
    let mut parts = text.split('.');
    let first = Path::new(parts.next().unwrap_or_default());
    parts.fold(first, |path, part| path.child(part))
}

impl<'a> Rules<'a> {
    fn new(object: &'a Value, old: Option<&'a Value>) -> Self {
        Rules { object, old, found: Vec::new() }
    }

    fn at(object: &'a Value, field: &str) -> &'a Value {
        let pointer = format!("/{}", field.replace('.', "/"));
        object.pointer(&pointer).unwrap_or(&Value::Null)
    }

    fn get(&self, field: &str) -> &'a Value {
        Self::at(self.object, field)
    }

    fn text(&self, field: &str) -> &'a str {
        self.get(field).as_str().unwrap_or_default()
    }

    fn invalid(&mut self, field: &str, why: impl Into<String>) {
        let value = self.get(field).clone();
        self.found.push(FieldError::invalid(&path(field), value, why));
    }

    /// The name becomes the value of labels.
    fn name_is_label(&mut self) {
        let problems = name::label_value(self.text("metadata.name"));
        if let Some(problem) = problems.first() {
            self.invalid("metadata.name", problem.clone());
        }
    }

    fn immutable(&mut self, field: &str) {
        if let Some(old) = self.old
            && Self::at(old, field) != self.get(field)
        {
            self.found.push(FieldError::forbidden(&path(field), "field is immutable"));
        }
    }

    fn version(&mut self, field: &str) {
        let version = self.text(field);
        if !version.is_empty() && Version::read(version).is_none() {
            self.invalid(field, "must be a valid semantic version");
        }
    }

    fn bootstrap(&mut self, field: &str) {
        let bootstrap = self.get(field);
        if bootstrap["configRef"].is_null() && bootstrap["dataSecretName"].is_null() {
            let path = path(field).child("data");
            self.found.push(FieldError::required(
                &path,
                "expected either spec.bootstrap.dataSecretName or spec.bootstrap.configRef to be populated",
            ));
        }
    }

    fn no_control_plane_taint(&mut self, field: &str) {
        for (index, taint) in self.get(field).as_array().into_iter().flatten().enumerate() {
            if taint["key"] == CONTROL_PLANE_TAINT {
                let path = path(field).index(index).child("key");
                self.found.push(FieldError::invalid(
                    &path,
                    CONTROL_PLANE_TAINT,
                    "workers cannot have the taint of control planes",
                ));
            }
        }
    }

    fn selector_fits_template(&mut self) {
        let Ok(selector) = serde_json::from_value::<LabelSelector>(self.get("spec.selector").clone()) else {
            return self.invalid("spec.selector", "is no label selector");
        };
        let labels =
            serde_json::from_value(self.get("spec.template.metadata.labels").clone()).unwrap_or_default();
        match Selector::read(&selector) {
            Err(why) => self.invalid("spec.selector", why),
            Ok(selector) if !selector.takes(Some(&labels)) => {
                self.invalid(
                    "spec.template.metadata.labels",
                    format!("must match spec.selector {:?}", selector.text()),
                );
            }
            Ok(_) => {}
        }
    }

    fn template(&mut self) {
        self.immutable("spec.clusterName");
        self.selector_fits_template();
        if self.get("spec.clusterName") != self.get("spec.template.spec.clusterName") {
            self.invalid("spec.template.spec.clusterName", "must equal spec.clusterName");
        }
        self.bootstrap("spec.template.spec.bootstrap");
        self.version("spec.template.spec.version");
        self.no_control_plane_taint("spec.template.spec.taints");
        let template = self.text("spec.machineNaming.template");
        if !template.is_empty()
            && let Err(why) =
                naming::machine(template, Parts { cluster: "cluster", set: "machineset", random: "abcde" })
        {
            self.invalid("spec.machineNaming.template", why.problem);
        }
        self.metadata();
        self.preflight_checks();
    }

    fn metadata(&mut self) {
        for (part, values) in [("labels", true), ("annotations", false)] {
            let field = format!("spec.template.metadata.{part}");
            for (key, value) in self.get(&field).as_object().into_iter().flatten() {
                let path = path(&field);
                if let Some(problem) = name::qualified(key).first() {
                    self.found.push(FieldError::invalid(&path, key.as_str(), problem.clone()));
                }
                if values && let Some(problem) = name::label_value(value.as_str().unwrap_or_default()).first()
                {
                    self.found.push(FieldError::invalid(&path, value.clone(), problem.clone()));
                }
            }
        }
    }

    fn preflight_checks(&mut self) {
        let noted = self.object["metadata"]["annotations"][annotations::SKIP_PREFLIGHT_CHECKS]
            .as_str()
            .unwrap_or_default();
        for check in noted.split(',').map(str::trim).filter(|check| !check.is_empty()) {
            if !preflight::CHECKS.contains(&check) {
                let path = path("metadata.annotations").key(annotations::SKIP_PREFLIGHT_CHECKS);
                self.found.push(FieldError::invalid(
                    &path,
                    check,
                    format!("must be one of {}", preflight::CHECKS.join(", ")),
                ));
            }
        }
    }

    /// A number or a percentage, of 100; none if it is missing or wrong.
    fn count(&mut self, field: &str, rounding: Rounding) -> Option<i32> {
        let value = self.get(field);
        if value.is_null() {
            return None;
        }
        let read: Option<IntOrString> = serde_json::from_value(value.clone()).ok();
        match read.map(|read| rollout::count(&read, 100, rounding)) {
            Some(Ok(count)) if count >= 0 => Some(count),
            _ => {
                self.invalid(field, "must be an int or a percentage such as \"25%\", not below 0");
                None
            }
        }
    }
}

pub(super) fn cluster(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut rules = Rules::new(object, old);
    rules.name_is_label();
    let parts = ["spec.infrastructureRef", "spec.controlPlaneRef", "spec.topology"];
    if parts.iter().all(|field| rules.get(field).is_null()) {
        rules.found.push(FieldError::forbidden(
            &path("spec"),
            "one of spec.controlPlaneRef, spec.infrastructureRef and spec.topology must be set",
        ));
    }
    for field in parts {
        let had = old.is_some_and(|old| !Rules::at(old, field).is_null());
        if had && rules.get(field).is_null() {
            rules.found.push(FieldError::forbidden(&path(field), "cannot be removed"));
        }
    }
    for field in ["spec.clusterNetwork.services.cidrBlocks", "spec.clusterNetwork.pods.cidrBlocks"] {
        for (index, block) in rules.get(field).as_array().into_iter().flatten().enumerate() {
            if !is_cidr(block.as_str().unwrap_or_default()) {
                rules.found.push(FieldError::invalid(
                    &path(field).index(index),
                    block.clone(),
                    "must be a valid CIDR, such as 10.42.0.0/16",
                ));
            }
        }
    }
    rules.found
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let longest = match address.parse() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    bits.parse::<u8>().is_ok_and(|bits| bits <= longest)
}

pub(super) fn machine(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut rules = Rules::new(object, old);
    let pooled = object["metadata"]["ownerReferences"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|owner| owner["kind"] == "MachinePool");
    if !pooled {
        rules.bootstrap("spec.bootstrap");
    }
    rules.immutable("spec.clusterName");
    rules.version("spec.version");
    if object["metadata"]["labels"][api::catalogue::labels::CAPI_CONTROL_PLANE].is_null() {
        rules.no_control_plane_taint("spec.taints");
    }
    rules.found
}

pub(super) fn machine_set(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut rules = Rules::new(object, old);
    rules.template();
    rules.found
}

pub(super) fn machine_deployment(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut rules = Rules::new(object, old);
    rules.name_is_label();
    rules.template();
    let update = "spec.rollout.strategy.rollingUpdate";
    let surge = rules.count(&format!("{update}.maxSurge"), Rounding::Up);
    let unavailable = rules.count(&format!("{update}.maxUnavailable"), Rounding::Down);
    if surge == Some(0) && unavailable == Some(0) {
        rules.invalid(&format!("{update}.maxUnavailable"), "may not be 0 when `maxSurge` is 0");
    }
    rules.count("spec.remediation.maxInFlight", Rounding::Up);
    rules.found
}

pub(super) fn machine_health_check(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut rules = Rules::new(object, old);
    rules.immutable("spec.clusterName");
    let selector: Option<LabelSelector> = serde_json::from_value(rules.get("spec.selector").clone()).ok();
    match selector.map(|selector| Selector::read(&selector)) {
        Some(Ok(selector)) if selector.takes_all() => {
            rules.found.push(FieldError::required(&path("spec.selector"), "selector must not be empty"))
        }
        Some(Err(why)) => rules.invalid("spec.selector", why),
        _ => {}
    }
    let named = &rules.get("spec.selector")["matchLabels"][api::catalogue::labels::CAPI_CLUSTER_NAME];
    if !named.is_null() && named != rules.get("spec.clusterName") {
        rules.invalid(
            "spec.selector",
            "cannot specify a cluster selector other than the one specified by ClusterName",
        );
    }
    let startup = rules.get("spec.checks.nodeStartupTimeoutSeconds").as_i64().unwrap_or_default();
    if startup != 0 && startup < SHORTEST_STARTUP {
        rules.invalid(
            "spec.checks.nodeStartupTimeoutSeconds",
            "must be at least 30s, or 0 to switch the check off",
        );
    }
    rules.count("spec.remediation.triggerIf.unhealthyLessThanOrEqualTo", Rounding::Down);
    let within = rules.text("spec.remediation.triggerIf.unhealthyInRange");
    if !within.is_empty() && health::range(within).is_err() {
        rules.invalid(
            "spec.remediation.triggerIf.unhealthyInRange",
            "must be a range such as [3-5], the smaller number first",
        );
    }
    rules.found
}

pub(super) fn machine_drain_rule(object: &Value) -> Vec<FieldError> {
    let mut rules = Rules::new(object, None);
    let drain = rules.get("spec.drain");
    if drain["behavior"] != "Drain" && !drain["order"].is_null() {
        rules.invalid("spec.drain.order", "order must not be set if behavior is not \"Drain\"");
    }
    for (list, selectors) in
        [("machines", ["selector", "clusterSelector"]), ("pods", ["selector", "namespaceSelector"])]
    {
        let field = format!("spec.{list}");
        for (index, entry) in rules.get(&field).as_array().into_iter().flatten().enumerate() {
            for selector in selectors.into_iter().filter(|selector| !entry[*selector].is_null()) {
                let read = serde_json::from_value::<LabelSelector>(entry[selector].clone())
                    .map_err(|error| error.to_string());
                if let Err(why) = read.and_then(|read| Selector::read(&read)) {
                    let path = path(&field).index(index).child(selector);
                    rules.found.push(FieldError::invalid(&path, entry[selector].clone(), why));
                }
            }
        }
    }
    rules.found
}
