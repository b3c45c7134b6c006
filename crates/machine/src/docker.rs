//! The driver `docker`: servers are containers with systemd, on this machine's Docker.
//!
//! For trying things out and for tests: containers share the kernel, and everything that runs in one can leave it. So it is off unless
//! the server's operator enables it, and what reaches into the host is the operator's to set ([`Docker`]), not a field of machines.

mod container;
mod engine;
mod host;

use std::time::Duration;

use engine::{Engine, Error};
pub use host::Host;
use serde_json::Value;

use crate::{Driver, Failure, Flag, FlagValue, Order, Output, Server, Working};

/// Where Docker is, unless something else is said.
pub const HOST: &str = "unix:///var/run/docker.sock";
/// How long a server may take until its services are up.
const UP_WITHIN: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(500);
/// Where the bootstrap script is put, as rancher-machine does.
const SCRIPT: &str = "usr/local/custom_script/install.sh";

/// The driver, with what the operator of the server sets for all containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Docker {
    /// Where Docker is, as `unix:///path/of/a/socket`.
    pub host: String,
    /// Whether containers are privileged, instead of having what systemd needs.
    pub privileged: bool,
    /// Further volumes, as `/on/the/host:/in/the/container[:ro]`.
    pub volumes: Vec<String>,
}

impl Default for Docker {
    fn default() -> Self {
        Docker { host: HOST.to_owned(), privileged: false, volumes: Vec::new() }
    }
}

impl Driver for Docker {
    fn name(&self) -> &str {
        "docker"
    }

    fn flags(&self) -> Vec<Flag> {
        let flag = |name: &str, usage: &str, value| Flag {
            name: format!("docker-{name}"),
            usage: usage.into(),
            value,
        };
        let text = |default: &str| FlagValue::Text(default.into());
        let list = || FlagValue::List(Vec::new());
        vec![
            flag("image", "Image with systemd in it", text("")),
            flag(
                "command",
                "What the container runs; the image's own command if empty",
                text("/lib/systemd/systemd"),
            ),
            flag("network", "Docker network", text("bridge")),
            flag("memory", "Memory in MiB; no limit if 0", FlagValue::Number(0)),
            flag("cpus", "Number of CPUs, such as 1.5; no limit if empty", text("")),
            flag(
                "privileged",
                "Set by the server's operator (--docker-privileged); refused here",
                FlagValue::Switch,
            ),
            flag("volume", "Set by the server's operator (--docker-volume); refused here", list()),
            flag("env", "Variable of systemd's environment, as NAME=value", list()),
            flag("extra-host", "Line of /etc/hosts, as name:address", list()),
            flag("host", "Set by the server's operator (--docker-host); refused here", text(HOST)),
        ]
    }

    fn check<'a>(&'a self, order: &'a Order) -> Working<'a, ()> {
        Box::pin(async move {
            let refused = |error: Error| Failure::Check(error.to_string());
            // What is wrong with the arguments is found before anything is asked.
            container::specification(order, self)?;
            Engine::at(&self.host).map_err(refused)?.ping().await.map_err(refused)
        })
    }

    fn create<'a>(&'a self, order: &'a Order, output: &'a Output) -> Working<'a, Server> {
        Box::pin(create(self, order, output))
    }

    fn remove<'a>(&'a self, order: &'a Order, output: &'a Output) -> Working<'a, ()> {
        Box::pin(async move {
            container::same_host(order, self)?;
            let engine = Engine::at(&self.host).map_err(failed)?;
            let Some(found) = engine.find(&order.name).await.map_err(failed)? else {
                output.say(format!("there is no container {}", order.name));
                return Ok(());
            };
            // By its id: the name may be another's a moment later.
            match found["Id"].as_str().filter(|_| container::is_of(&found, order)) {
                Some(id) => engine.remove(id).await.map(drop).map_err(failed),
                None => {
                    output.say(format!("container {} belongs to another machine: it stays", order.name));
                    Ok(())
                }
            }
        })
    }
}

async fn create(docker: &Docker, order: &Order, output: &Output) -> Result<Server, Failure> {
    let engine = Engine::at(&docker.host).map_err(failed)?;
    let specification = container::specification(order, docker)?;
    let image = order.arguments.text("image").unwrap_or_default();
    if !engine.has_image(image).await.map_err(failed)? {
        output.say(format!("pulling {image}"));
        engine.pull(image).await.map_err(failed)?;
    }
    let id = engine.create(&order.name, &specification).await.map_err(failed)?;
    engine.start(&id).await.map_err(failed)?;
    wait_until_up(&engine, &id, output).await?;
    if !order.bootstrap.is_empty() {
        bootstrap(&engine, &id, order, output).await?;
    }
    let known = engine.inspect(&id).await.map_err(failed)?;
    let (address, ipv6_address) = addresses(&known);
    Ok(Server { id, address, ipv6_address, ..Server::default() })
}

async fn bootstrap(engine: &Engine, id: &str, order: &Order, output: &Output) -> Result<(), Failure> {
    output.say("running the bootstrap script");
    engine.put_file(id, SCRIPT, order.bootstrap.as_bytes()).await.map_err(failed)?;
    let code = engine.exec(id, &["sh", &format!("/{SCRIPT}")], output).await.map_err(failed)?;
    match code {
        0 => Ok(()),
        code => Err(Failure::Failed(format!("the bootstrap script failed with exit code {code}"))),
    }
}

/// Waits until systemd has started everything. A container without systemd is up at once.
async fn wait_until_up(engine: &Engine, id: &str, output: &Output) -> Result<(), Failure> {
    let wait = async {
        loop {
            let (code, state) = engine.ask(id, &["systemctl", "is-system-running"]).await?;
            match state.trim() {
                "running" => return Ok(()),
                "degraded" => {
                    output.say("systemd is degraded: a unit failed");
                    return Ok(());
                }
                _ if code == 126 || code == 127 => {
                    output.say("there is no systemd in the image");
                    return Ok(());
                }
                _ => tokio::time::sleep(POLL).await,
            }
        }
    };
    match tokio::time::timeout(UP_WITHIN, wait).await {
        Ok(done) => done.map_err(failed),
        Err(_) => Err(Failure::Failed(format!("the container is not up after {} s", UP_WITHIN.as_secs()))),
    }
}

/// The address in the first network that has one, and the IPv6 one.
fn addresses(container: &Value) -> (String, String) {
    let networks = container.pointer("/NetworkSettings/Networks").and_then(Value::as_object);
    let find = |field: &str| {
        let all = networks.into_iter().flat_map(|all| all.values());
        let found = all.filter_map(|network| network[field].as_str()).find(|address| !address.is_empty());
        found.unwrap_or_default().to_owned()
    };
    (find("IPAddress"), find("GlobalIPv6Address"))
}

fn failed(error: Error) -> Failure {
    Failure::Failed(error.to_string())
}
