//! `herdsman logs MACHINE`: what a machine's agent has reported of its last plan.

use anyhow::bail;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kit::KindId;
use plan::output::Outputs;
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
        output::print(&render(&plan["data"])?)
    })
}

/// What was reported, instruction by instruction; what failed comes last.
fn render(data: &Value) -> anyhow::Result<String> {
    let mut text = String::new();
    for (key, title) in [(plan::secret::APPLIED_OUTPUT, "applied"), (plan::secret::FAILED_OUTPUT, "failed")] {
        let Some(bytes) = data[key].as_str().and_then(|value| STANDARD.decode(value).ok()) else { continue };
        let outputs: Outputs = match bytes.is_empty() {
            true => Outputs::new(),
            false => plan::output::decode(&bytes)?,
        };
        for (name, output) in outputs {
            text.push_str(&format!("==> {title}: {name}\n{}\n", String::from_utf8_lossy(&output).trim_end()));
        }
    }
    match text.is_empty() {
        true => Ok("the agent has reported nothing yet\n".into()),
        false => Ok(text),
    }
}
