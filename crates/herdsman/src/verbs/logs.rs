//! `herdsman logs MACHINE`: what a machine's agent has reported of its last plan.

use anyhow::bail;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kit::KindId;
use plan::PlanSecret;
use serde_json::Value;

use super::ask::Ask;
use super::kinds;
use super::output;
use super::target::{Target, block_on};

/// What can be said on the command line.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Which machine: NAME or machine/NAME
    machine: String,
    #[command(flatten)]
    target: Target,
}

/// Prints it.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    block_on(async {
        let ask = Ask::new(&arguments.target).await?;
        let name = arguments.machine.strip_prefix("machine/").unwrap_or(&arguments.machine);
        let machine = ask.object(kinds::find("machine")?, name).await?;
        let bootstrap = machine["spec"]["bootstrap"]["configRef"]["name"].as_str().unwrap_or_default();
        let secrets = KindId::new("", "v1", "Secret", "secrets");
        let plan = ask.find(&secrets, &api::names::plan_secret(api::names::Bootstrap(bootstrap))).await?;
        let Some(plan) = plan else { bail!("machine {name:?} has no plan yet, so nothing was reported") };
        output::print(&render(&plan["data"]))
    })
}

/// What was reported: how the plan went, how the machine is, then instruction by instruction; what failed comes last.
fn render(data: &Value) -> String {
    let bytes = |value: &Value| STANDARD.decode(value.as_str().unwrap_or_default()).unwrap_or_default();
    let fields = data.as_object().into_iter().flatten();
    let secret = PlanSecret::read(&fields.map(|(key, value)| (key.clone(), bytes(value))).collect());
    let mut text = format!("plan {}\n", state(&secret));
    for (name, probe) in secret.probe_statuses.get().into_iter().flatten() {
        text += &format!("probe {name} {}\n", if probe.healthy { "healthy" } else { "unhealthy" });
    }
    let mut section = |title: String, output: &[u8]| {
        let output = String::from_utf8_lossy(output);
        text += &format!("==> {title}\n{}\n", output.trim_end());
    };
    for (name, output) in secret.applied_output.get().into_iter().flatten() {
        section(format!("applied: {name}"), output);
    }
    for (name, run) in secret.periodic_output.get().into_iter().flatten() {
        section(format!("periodic: {name}, exit code {}", run.exit_code), &run.stdout);
    }
    for (name, output) in secret.failed_output.get().into_iter().flatten() {
        section(format!("failed: {name}"), output);
    }
    text
}

/// How the plan went.
fn state(secret: &PlanSecret) -> String {
    let applied = secret.checksum.is_some() && secret.applied_checksum.get() == secret.checksum.as_ref();
    let failures = secret.failure_count.get().copied().filter(|count| *count > 0);
    let word = match (&secret.state, secret.checksum) {
        (_, None) => "not there yet",
        (Some(state), _) => state.as_str(),
        (None, _) if applied => "succeeded",
        (None, _) if failures.is_some() => "failed",
        (None, _) => "pending",
    };
    let when = secret.last_apply_time.get().map(|time| format!(", last run at {time}")).unwrap_or_default();
    let failures = failures.map(|count| format!(", failed {count} times")).unwrap_or_default();
    format!("{word}{when}{failures}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_an_agent_reported_is_told() {
        let encode = |text: &str| STANDARD.encode(text);
        let data = json!({
            "plan": encode("{}"), "plan-state": encode("failed"), "failure-count": encode("2"),
            "probe-statuses": encode(r#"{"kubelet":{"healthy":true},"etcd":{}}"#),
        });
        assert_eq!(
            render(&data),
            "plan failed, failed 2 times\nprobe etcd unhealthy\nprobe kubelet healthy\n"
        );
        assert_eq!(render(&json!({})), "plan not there yet\n");
    }
}
