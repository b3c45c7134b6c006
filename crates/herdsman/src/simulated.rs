//! The driver `sim`: machines that live in this process, and what their users do to them.

use std::sync::Arc;

use api::names;
use kit::{Caches, Change, KindId, Object};
use machine::FlagValue;
use machine::{Driver, Failure, Flag, Order, Output, Server, Working};
use sim::{CreateOptions, Machines, World};
use tokio::sync::mpsc;

/// Annotation of a SimMachine: `off` pulls the plug of its server. It has power again when the annotation says anything
/// else, or nothing.
const POWER: &str = "sim.herdsman.io/power";

/// The driver's name.
pub(crate) const NAME: &str = "sim";

/// Makes machines of a simulated world.
#[derive(Debug)]
pub(crate) struct Simulated(pub(crate) Machines);

impl Driver for Simulated {
    fn name(&self) -> &str {
        NAME
    }

    fn flags(&self) -> Vec<Flag> {
        let number = |name: &str, usage: &str, value| Flag {
            name: name.into(),
            usage: usage.into(),
            value: FlagValue::Number(value),
        };
        vec![
            number("sim-cpus", "Processors of the machine", 2),
            number("sim-memory", "Memory of the machine, in MiB", 4096),
        ]
    }

    fn create<'a>(&'a self, order: &'a Order, output: &'a Output) -> Working<'a, Server> {
        Box::pin(async move {
            let failed = |error: sim::Error| Failure::Failed(error.to_string());
            // What is left of an earlier try has run who knows what.
            self.0.remove(&order.name).await.map_err(failed)?;
            let usual = CreateOptions::default();
            let options = CreateOptions {
                cpus: order.arguments.number("cpus")?.unwrap_or(usual.cpus),
                memory_mib: order.arguments.number("memory")?.unwrap_or(usual.memory_mib),
                script: Some(order.bootstrap.clone()),
                hostname: Some(order.hostname.clone()),
                ..usual
            };
            let made = self.0.create(&order.name, options).await.map_err(failed)?;
            output.say(format!("{} has address {}", order.name, made.internal));
            Ok(Server { id: order.name.clone(), address: made.internal.to_string(), ..Server::default() })
        })
    }

    fn remove<'a>(&'a self, order: &'a Order, output: &'a Output) -> Working<'a, ()> {
        Box::pin(async move {
            self.0.remove(&order.name).await.map_err(|error| Failure::Failed(error.to_string()))?;
            output.say(format!("{} is gone", order.name));
            Ok(())
        })
    }
}

/// Does to machines what annotations of their SimMachines say, for ever.
pub(crate) async fn follow(caches: &Caches, world: &World) {
    let (tell, mut told) = mpsc::unbounded_channel();
    let Some(driver) = api::machine::Driver::named("sim") else { return };
    let served = driver.machine_resource();
    let kind = KindId::new(&served.group, &served.version, &served.kind, &served.plural);
    caches.of(&kind).listen("sim-power", || {
        Arc::new(move |change| {
            if let Some(plugged) = plugged(change) {
                let name = names::instance(names::InfraMachine(change.object().name()));
                let _ = tell.send((name, plugged));
            }
        })
    });
    while let Some((name, plugged)) = told.recv().await {
        let outcome = if plugged { world.power_on(&name) } else { world.crash(&name).await };
        if let Err(error) = outcome {
            tracing::warn!(machine = name, %error, "the annotation {POWER} has no effect");
        }
    }
}

/// What a change says of a machine's power: nothing, or whether it has any from now on.
fn plugged(change: &Change) -> Option<bool> {
    let is_off = |object: &Arc<Object>| object.annotation(POWER) == Some("off");
    let before = change.before.as_ref().is_some_and(is_off);
    let after = is_off(change.after.as_ref()?);
    (before != after).then_some(!after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_change_of_the_annotation_counts() {
        let object = |power: &str| {
            let document = serde_json::json!({
                "apiVersion": "v1", "kind": "SimMachine",
                "metadata": {"name": "m", "namespace": "n", "annotations": {POWER: power}},
            });
            Some(Arc::new(Object::from_document(document).unwrap()))
        };
        for (before, after, says) in [
            (None, object(""), None),
            (None, object("off"), Some(false)),
            (object("off"), object("off"), None),
            (object("off"), object("on"), Some(true)),
            (object("off"), None, None),
        ] {
            assert_eq!(plugged(&Change { before, after }), says);
        }
    }
}
