//! How far a cluster is, and showing it.

use api::catalogue::labels;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use serde_json::Value;

/// How far a cluster is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Machines that are wanted.
    pub(crate) wanted: u64,
    /// Of these: agents that registered, nodes that joined, nodes that are ready.
    pub(crate) steps: [u64; 3],
    /// What is waited for.
    pub(crate) message: String,
    /// It is as asked for.
    pub(crate) done: bool,
}

/// What the steps are called.
const STEPS: [&str; 3] = ["registered", "joined", "ready"];

impl Progress {
    /// How far a cluster is, from itself, its control plane and its machines.
    pub(crate) fn of(cluster: Option<&Value>, control_plane: Option<&Value>, machines: &[&Value]) -> Self {
        let Some(cluster) = cluster else { return Progress::default() };
        let staying: Vec<&&Value> =
            machines.iter().filter(|one| one["metadata"]["deletionTimestamp"].is_null()).collect();
        let count = |so: fn(&Value) -> bool| staying.iter().filter(|one| so(one)).count() as u64;
        let steps = [
            count(|one| one["metadata"]["labels"][labels::MACHINE_ID].is_string()),
            count(|one| one["status"]["nodeRef"]["name"].is_string()),
            count(|one| condition(one, "NodeReady").is_some_and(|found| found["status"] == "True")),
        ];
        let pools = cluster["spec"]["rkeConfig"]["machinePools"].as_array();
        let of_pool = |pool: &Value| pool["quantity"].as_u64().unwrap_or(1);
        let wanted = match pools {
            Some(pools) => pools.iter().map(of_pool).sum(),
            None => staying.len() as u64,
        };
        let ready = condition(cluster, "Ready");
        // What was asked for has gone all the way: to the cluster's controller, and on to the control plane's.
        let seen =
            observed(cluster) && control_plane.is_none_or(|one| observed(one) && follows(one, cluster));
        let message = [condition(cluster, "Updated"), ready].into_iter().flatten().find_map(words);
        let done = seen
            && ready.is_some_and(|found| found["status"] == "True")
            && message.is_none()
            && machines.len() as u64 == wanted
            && steps.iter().all(|step| *step == wanted);
        Progress { wanted, steps, message: message.unwrap_or_default(), done }
    }

    fn line(&self) -> String {
        let steps = STEPS.iter().zip(self.steps).map(|(name, done)| format!("{name} {done}/{}", self.wanted));
        let message = if self.message.is_empty() { String::new() } else { format!("  {}", self.message) };
        format!("{}{message}", steps.collect::<Vec<_>>().join("  "))
    }
}

/// Whether its controller has seen an object as it is now.
fn observed(object: &Value) -> bool {
    object["status"]["observedGeneration"].as_i64() >= object["metadata"]["generation"].as_i64()
}

/// Whether a control plane is ready and has the cluster's version.
fn follows(control_plane: &Value, cluster: &Value) -> bool {
    control_plane["spec"]["kubernetesVersion"] == cluster["spec"]["kubernetesVersion"]
        && condition(control_plane, "Ready").is_some_and(|found| found["status"] == "True")
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|one| one["type"] == kind)
}

/// What a condition that is not true says.
fn words(condition: &Value) -> Option<String> {
    if condition["status"] == "True" {
        return None;
    }
    let text = |field: &str| condition[field].as_str().filter(|text| !text.is_empty());
    Some(text("message").or_else(|| text("reason"))?.replace('\n', " "))
}

/// Shows progress.
pub(crate) trait Show {
    /// What is so now.
    fn show(&mut self, progress: &Progress);
    /// Nothing more comes.
    fn end(&mut self);
}

/// A line for every change.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    last: String,
}

impl Show for Lines {
    fn show(&mut self, progress: &Progress) {
        let line = progress.line();
        if line != self.last {
            eprintln!("{line}");
            self.last = line;
        }
    }

    fn end(&mut self) {}
}

/// Bars on a terminal.
#[derive(Debug)]
pub(crate) struct Bars {
    all: MultiProgress,
    bars: [ProgressBar; 3],
    message: ProgressBar,
}

impl Bars {
    /// On stderr.
    pub(crate) fn new() -> Self {
        let all = MultiProgress::new();
        let style = |template: &str| {
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
        };
        let bar = |name: &'static str| {
            let bar = all.add(ProgressBar::new(0)).with_style(style("{prefix:10} [{bar:30}] {pos}/{len}"));
            bar.set_prefix(name);
            bar
        };
        let bars = STEPS.map(bar);
        let message = all.add(ProgressBar::new_spinner()).with_style(style("{spinner} {wide_msg}"));
        message.enable_steady_tick(std::time::Duration::from_millis(100));
        Bars { all, bars, message }
    }
}

impl Show for Bars {
    fn show(&mut self, progress: &Progress) {
        for (bar, step) in self.bars.iter().zip(progress.steps) {
            bar.set_length(progress.wanted);
            bar.set_position(step);
        }
        self.message.set_message(progress.message.clone());
    }

    fn end(&mut self) {
        self.message.finish_and_clear();
        self.bars.iter().for_each(ProgressBar::abandon);
        let _ = self.all.println("");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn machine(steps: usize) -> Value {
        let (mut metadata, mut status) = (json!({}), json!({}));
        if steps > 0 {
            metadata["labels"] = json!({labels::MACHINE_ID: "x"});
        }
        if steps > 1 {
            status["nodeRef"] = json!({"name": "n"});
        }
        if steps > 2 {
            status["conditions"] = json!([{"type": "NodeReady", "status": "True"}]);
        }
        json!({"metadata": metadata, "status": status})
    }

    fn cluster(generation: i64, ready: &str, message: &str) -> Value {
        json!({"metadata": {"generation": generation}, "spec": {"rkeConfig": {"machinePools": [{"quantity": 2}]}},
            "status": {"observedGeneration": 1, "conditions": [{"type": "Ready", "status": ready, "message": message}]}})
    }

    #[test]
    fn a_cluster_is_done_when_all_of_it_is() {
        let (all, some) = ([machine(3), machine(3)], [machine(3), machine(1)]);
        let of = |cluster: &Value, machines: &[Value]| {
            Progress::of(Some(cluster), None, &machines.iter().collect::<Vec<_>>())
        };
        assert!(of(&cluster(1, "True", ""), &all).done);
        assert!(!of(&cluster(2, "True", ""), &all).done, "the spec was changed since");
        assert!(!of(&cluster(1, "Unknown", "waits"), &all).done);
        let progress = of(&cluster(1, "Unknown", "waits"), &some);
        assert_eq!(progress.line(), "registered 2/2  joined 1/2  ready 1/2  waits");
        let going = [machine(3), machine(3), json!({"metadata": {"deletionTimestamp": "x"}})];
        assert!(!of(&cluster(1, "True", ""), &going).done, "a machine still goes");
    }
}
