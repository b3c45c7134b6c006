//! The driver `sim`: machines that live in this process.

use machine::FlagValue;
use machine::{Driver, Failure, Flag, Order, Output, Server, Working};
use sim::{CreateOptions, Machines};

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
