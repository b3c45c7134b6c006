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
            // What is left of an earlier try has run who knows what. A machine of this name that is another's stays.
            self.0.remove_if(&order.name, |owner| owner == order.owner).await.map_err(failed)?;
            let usual = CreateOptions::default();
            let options = CreateOptions {
                cpus: order.arguments.number("cpus")?.unwrap_or(usual.cpus),
                memory_mib: order.arguments.number("memory")?.unwrap_or(usual.memory_mib),
                script: Some(order.bootstrap.clone()),
                hostname: Some(order.hostname.clone()),
                owner: order.owner.clone(),
                ..usual
            };
            let made = self.0.create(&order.name, options).await.map_err(failed)?;
            output.say(format!("{} has address {}", order.name, made.internal));
            Ok(Server { id: order.name.clone(), address: made.internal.to_string(), ..Server::default() })
        })
    }

    fn remove<'a>(&'a self, order: &'a Order, output: &'a Output) -> Working<'a, ()> {
        Box::pin(async move {
            match self.0.remove_if(&order.name, |owner| is_of(owner, &order.owner)).await {
                Ok(()) => output.say(format!("{} is gone", order.name)),
                Err(error @ sim::Error::Owned(_)) => output.say(format!("{error}: it stays")),
                Err(error) => return Err(Failure::Failed(error.to_string())),
            }
            Ok(())
        })
    }
}

/// Whether a machine that was made for `owner` is that of `object`, both as `namespace/name/uid`. Versions before this one noted no owner.
fn is_of(owner: &str, object: &str) -> bool {
    owner.is_empty() || owner == object
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
                let object = change.object();
                let name = names::instance(names::InfraMachine(object.name()));
                let object = format!("{}/{}/{}", object.namespace(), object.name(), object.uid());
                let _ = tell.send((name, object, plugged));
            }
        })
    });
    while let Some((name, object, plugged)) = told.recv().await {
        if world.machines().owner(&name).is_some_and(|owner| !is_of(&owner, &object)) {
            tracing::warn!(machine = name, object, "the machine is another object's: {POWER} has no effect");
            continue;
        }
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

    #[tokio::test]
    async fn a_machine_of_another_s_name_takes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let clock: Arc<dyn clock::Clock> = Arc::new(clock::SystemClock);
        let world = World::open(sim::Settings::new(directory.path().to_owned(), 1, clock)).await.unwrap();
        let driver = Simulated(world.machines());
        let order = |owner: &str| Order {
            name: "m".into(),
            hostname: "m".into(),
            owner: owner.into(),
            bootstrap: "#!/bin/sh".into(),
            ..Order::default()
        };
        let (ours, theirs) = (order("a/m/1"), order("b/m/2"));
        driver.create(&ours, &Output::none()).await.unwrap();
        assert!(
            driver.create(&theirs, &Output::none()).await.unwrap_err().to_string().contains("another object")
        );
        driver.remove(&theirs, &Output::none()).await.unwrap();
        assert_eq!(world.machines().owner("m").as_deref(), Some("a/m/1"), "it stays");
        driver.create(&ours, &Output::none()).await.unwrap();
        driver.remove(&ours, &Output::none()).await.unwrap();
        assert_eq!(world.machines().owner("m"), None);
        // One that an older version made goes with its machine.
        world.machines().create("m", CreateOptions::default()).await.unwrap();
        driver.remove(&ours, &Output::none()).await.unwrap();
        assert_eq!(world.machines().owner("m"), None);
        world.stop().await;
    }

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
