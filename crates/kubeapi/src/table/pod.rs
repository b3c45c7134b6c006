//! The row of a Pod: what its containers do, in a word.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Row;
use super::age::between;
use super::builtin::{created, has_condition, is_going, items, name, number, text, text_or};

pub(super) fn pod(object: &Value, now: Timestamp) -> Row {
    let summary = Summary::of(object);
    let restarts = match summary.last_restart {
        Some(last) if summary.restarts != 0 => format!("{} ({} ago)", summary.restarts, between(last, now)),
        _ => summary.restarts.to_string(),
    };
    let ip = text_or(object, "/status/podIPs/0/ip", text_or(object, "/status/podIP", "<none>"));
    let cells = vec![
        name(object),
        format!("{}/{}", summary.ready, summary.containers).into(),
        summary.reason.into(),
        restarts.into(),
        created(object, now),
        ip.into(),
        text_or(object, "/spec/nodeName", "<none>").into(),
        text_or(object, "/status/nominatedNodeName", "<none>").into(),
        gates(object).into(),
    ];
    Row { cells, conditions: conditions(object) }
}

/// A Pod that has finished is marked, so that a client may leave it out.
fn conditions(pod: &Value) -> Vec<Value> {
    let (reason, message) = match text(pod, "/status/phase") {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return Vec::new(),
    };
    vec![json!({"type": "Completed", "status": "True", "reason": reason, "message": message})]
}

fn gates(pod: &Value) -> String {
    let gates = items(pod, "/spec/readinessGates");
    if gates.is_empty() {
        return "<none>".into();
    }
    let open = gates.iter().filter(|gate| has_condition(pod, text(gate, "/conditionType"))).count();
    format!("{open}/{}", gates.len())
}

#[derive(Default)]
struct Summary {
    reason: String,
    ready: usize,
    containers: usize,
    restarts: i64,
    last_restart: Option<Timestamp>,
}

impl Summary {
    fn of(pod: &Value) -> Self {
        let sidecars =
            items(pod, "/spec/initContainers").iter().filter(|container| restarts_always(container));
        let mut summary = Summary {
            reason: text_or(pod, "/status/reason", text(pod, "/status/phase")).to_owned(),
            containers: items(pod, "/spec/containers").len() + sidecars.count(),
            ..Summary::default()
        };
        let gated = |condition: &&Value| {
            condition["type"] == "PodScheduled" && condition["reason"] == "SchedulingGated"
        };
        if items(pod, "/status/conditions").iter().find(gated).is_some() {
            summary.reason = "SchedulingGated".into();
        }
        let initializing = summary.init_containers(pod);
        if !initializing || has_condition(pod, "Initialized") {
            summary.main_containers(pod);
        }
        if is_going(pod) {
            if text(pod, "/status/reason") == "NodeLost" {
                summary.reason = "Unknown".into();
            } else if !matches!(text(pod, "/status/phase"), "Succeeded" | "Failed") {
                summary.reason = "Terminating".into();
            }
        }
        summary
    }

    fn count_restarts(&mut self, container: &Value) {
        self.restarts += number(container, "/restartCount");
        let finished = text(container, "/lastState/terminated/finishedAt").parse::<Timestamp>().ok();
        self.last_restart = self.last_restart.max(finished);
    }

    /// Looks at the init containers up to the first that is not through; whether there is such a one.
    fn init_containers(&mut self, pod: &Value) -> bool {
        let specs = items(pod, "/spec/initContainers");
        for (index, container) in items(pod, "/status/initContainerStatuses").iter().enumerate() {
            self.count_restarts(container);
            let spec = specs.iter().find(|spec| spec["name"] == container["name"]);
            let sidecar = spec.is_some_and(restarts_always);
            let terminated = &container["state"]["terminated"];
            if terminated.is_object() && number(terminated, "/exitCode") == 0 {
                continue;
            }
            if sidecar && container["started"] == true {
                self.ready += usize::from(container["ready"] == true);
                continue;
            }
            let waiting = text(container, "/state/waiting/reason");
            self.reason = match terminated.is_object() {
                true => format!("Init:{}", ended(terminated)),
                false if !waiting.is_empty() && waiting != "PodInitializing" => format!("Init:{waiting}"),
                false => format!("Init:{index}/{}", specs.len()),
            };
            return true;
        }
        false
    }

    fn main_containers(&mut self, pod: &Value) {
        (self.restarts, self.last_restart) = (0, None);
        let specs = items(pod, "/spec/initContainers");
        for container in items(pod, "/status/initContainerStatuses") {
            let spec = specs.iter().find(|spec| spec["name"] == container["name"]);
            if spec.is_some_and(restarts_always) {
                self.count_restarts(container);
            }
        }
        let mut running = false;
        for container in items(pod, "/status/containerStatuses").iter().rev() {
            self.count_restarts(container);
            let terminated = &container["state"]["terminated"];
            let waiting = text(container, "/state/waiting/reason");
            if !waiting.is_empty() {
                self.reason = waiting.to_owned();
            } else if terminated.is_object() {
                self.reason = ended(terminated);
            } else if container["ready"] == true && container["state"]["running"].is_object() {
                running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" && running {
            self.reason = if has_condition(pod, "Ready") { "Running" } else { "NotReady" }.into();
        }
    }
}

fn restarts_always(container: &Value) -> bool {
    container["restartPolicy"] == "Always"
}

/// Why a container ended.
fn ended(terminated: &Value) -> String {
    match (text(terminated, "/reason"), number(terminated, "/signal")) {
        ("", 0) => format!("ExitCode:{}", number(terminated, "/exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}
