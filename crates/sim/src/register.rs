//! What the installer of a bootstrap script does on a machine: finds the server, checks its authority, registers, and
//! leaves the agent its files.

use std::sync::Arc;
use std::time::Duration;

use api::catalogue::headers;
use http::{HeaderMap, HeaderName, HeaderValue, Uri, header};

use crate::bootstrap::{self, Registration};
use crate::ground;
use crate::machine::Machine;
use crate::systemd::AGENT;
use crate::upstream::{self, Upstream};

/// Between two tries, as the installer's.
const PAUSE: Duration = Duration::from_secs(5);
/// So many times the server may say no, and so many times nothing, as the installer's.
const REFUSALS: u32 = 60;
const TRIES: u32 = 4500;
const CONFIG_DIR: &str = "/etc/rancher/agent";
const VAR_DIR: &str = "/var/lib/rancher/agent";

/// Why a machine did not register.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Script(#[from] bootstrap::Error),
    #[error("cannot use the server: {0}")]
    Server(String),
    #[error("cannot register: {0}")]
    Refused(String),
    #[error("cannot write {path}")]
    Write { path: String, source: std::io::Error },
}

/// Whether the machine has registered.
pub(crate) fn is_done(machine: &Machine) -> bool {
    machine.root.locate(unit_file()).exists()
}

fn unit_file() -> String {
    format!("/etc/systemd/system/{AGENT}.service")
}

/// Does what the script's installer would.
pub(crate) async fn run(machine: &Arc<Machine>, script: &str) -> Result<(), Error> {
    let registration = Registration::parse(script)?;
    let server: Uri = registration.server.parse().map_err(|_| Error::Server(registration.server.clone()))?;
    let upstream = find_server(machine, &server, &registration.ca_checksum).await?;
    let id = identity(machine, &registration)?;
    let headers = introduction(&registration, &id)?;
    let connection =
        insist(machine, &upstream, "/v3/connect/agent", &headers).await.map_err(Error::Refused)?;
    put_in_place(machine, &registration, &String::from_utf8_lossy(&connection))?;
    machine.say("registered");
    Ok(())
}

/// The way to the server, whose authority has the right checksum.
async fn find_server(machine: &Machine, server: &Uri, checksum: &str) -> Result<Upstream, Error> {
    let ground = &machine.ground;
    let mut tries = 0;
    let upstream = loop {
        let way = upstream::verified(&ground.network, &ground.trusts, machine.address, server, checksum);
        match way.await {
            Ok(upstream) => break upstream,
            Err(upstream::Unverified::Wrong(why)) => return Err(Error::Server(why)),
            Err(upstream::Unverified::NoAnswer(why)) => {
                tries += 1;
                if tries >= TRIES {
                    return Err(Error::Server(why));
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    };
    insist(machine, &upstream, "/healthz", &HeaderMap::new()).await.map_err(Error::Server)?;
    Ok(upstream)
}

/// Asks until the answer is 200. Gives its body.
async fn insist(
    machine: &Machine,
    upstream: &Upstream,
    path: &str,
    headers: &HeaderMap,
) -> Result<Vec<u8>, String> {
    let (mut refusals, mut said) = (0, String::new());
    for _ in 0..TRIES {
        let (why, pause) = match upstream.get(path, headers.clone()).await {
            Ok((200, _, body)) => return Ok(body),
            Ok((status, headers, body)) => {
                if (400..500).contains(&status) && ![408, 429].contains(&status) {
                    refusals += 1;
                }
                let body = String::from_utf8_lossy(&body[..body.len().min(200)]).trim().to_owned();
                (format!("status {status}: {body}"), retry_after(&headers))
            }
            Err(why) => (why, None),
        };
        if refusals >= REFUSALS {
            return Err(why);
        }
        if why != said {
            machine.say(format!("{path}: {why}"));
            said = why;
        }
        tokio::time::sleep(pause.unwrap_or(PAUSE)).await;
    }
    Err(said)
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(header::RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// The machine's id, which it makes up once.
fn identity(machine: &Machine, registration: &Registration) -> Result<String, Error> {
    if !registration.id.is_empty() {
        return Ok(registration.id.clone());
    }
    let path = format!("{CONFIG_DIR}/cattle-id");
    if let Some(id) = machine.read(&path) {
        return Ok(id.trim().to_owned());
    }
    let mut chance = machine.ground.chance.of(&format!("{} id", machine.name));
    let id = ground::hex(&mut chance, 63);
    write(machine, &path, &format!("{id}\n"))?;
    Ok(id)
}

fn introduction(registration: &Registration, id: &str) -> Result<HeaderMap, Error> {
    let mut all = HeaderMap::new();
    let mut set = |name: &str, value: &str| -> Result<(), Error> {
        let wrong = || Error::Refused(format!("{name} cannot be sent: {value:?}"));
        let header = HeaderName::try_from(name).map_err(|_| wrong())?;
        all.insert(header, HeaderValue::try_from(value).map_err(|_| wrong())?);
        Ok(())
    };
    let flag = |set: bool| if set { "true" } else { "false" };
    set("Authorization", &format!("Bearer {}", registration.token))?;
    set(headers::CATTLE_ID, id)?;
    set(headers::CATTLE_ROLE_ETCD, flag(registration.etcd))?;
    set(headers::CATTLE_ROLE_CONTROL_PLANE, flag(registration.control_plane))?;
    set(headers::CATTLE_ROLE_WORKER, flag(registration.worker))?;
    set(headers::CATTLE_NODE_NAME, &registration.node_name)?;
    set(headers::CATTLE_ADDRESS, &registration.address)?;
    set(headers::CATTLE_INTERNAL_ADDRESS, &registration.internal_address)?;
    set(headers::CATTLE_LABELS, &registration.labels)?;
    set(headers::CATTLE_TAINTS, &registration.taints)?;
    Ok(all)
}

fn put_in_place(machine: &Machine, registration: &Registration, connection: &str) -> Result<(), Error> {
    let var = if registration.var_dir.is_empty() { VAR_DIR } else { &registration.var_dir };
    let info = format!("{var}/rancher2_connection_info.json");
    write(machine, &info, connection)?;
    let config = format!(
        "workDirectory: {var}/work\nappliedPlanDirectory: {var}/applied\nremoteEnabled: true\n\
         localEnabled: false\nlocalPlanDirectory: {var}/plans\ninterlockDirectory: {var}/interlock\n\
         preserveWorkDirectory: false\nconnectionInfoFile: {info}\n"
    );
    write(machine, &format!("{CONFIG_DIR}/config.yaml"), &config)?;
    let environment = registration.environment.iter().map(|(name, value)| format!("{name}={value}\n"));
    write(machine, &format!("/etc/systemd/system/{AGENT}.env"), &environment.collect::<String>())?;
    // The last one: with it the machine has registered.
    write(machine, &unit_file(), "[Service]\nType=simple\nRestart=always\nRestartSec=5s\n")
}

fn write(machine: &Machine, path: &str, content: &str) -> Result<(), Error> {
    machine.write(path, content).map_err(|source| Error::Write { path: path.to_owned(), source })
}
