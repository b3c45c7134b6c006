//! A management server as far as node agents see one: our API server with plan Secrets in it, and the planner's hand on
//! them. It blocks: async tests have no use for it.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use clock::{Clock, Deadline, Monotonic, SystemClock};
use peers::process::{Process, stop_all};
use plan::PlanSecret;
use plan::document::{Document, Plan};
use plan::orchestrator::{self, Annotations, Status, Terms, Update};
use plan::secret::{Changes, Data};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::client::{Request, Server, Session};
use crate::kubeconfig::Kubeconfig;
use crate::target;

const NAMESPACE: &str = "fleet-default";
/// How long anything that is waited for may take: machines are slow, and there are many.
const PATIENCE: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_millis(50);
/// How often a write meets somebody else's before it is given up.
const CONFLICTS: u32 = 20;
/// How long the server gets to end on its own.
const GRACE: Duration = Duration::from_secs(10);

/// A running server. It ends with this value.
#[derive(Debug)]
pub struct PlanServer {
    runtime: Runtime,
    directory: TempDir,
    listen: SocketAddr,
    starts: u32,
    process: Vec<Process>,
    session: Session,
    authority: String,
}

/// A plan Secret as the server has it.
#[derive(Clone, Debug)]
pub struct Stored {
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`: the same as long as nobody has written.
    pub version: String,
    /// Its data.
    pub data: Data,
    /// Its annotations.
    pub annotations: Annotations,
}

/// A write of the planner.
#[derive(Clone, Debug)]
pub struct Delivered {
    /// When it was sent.
    pub sent: Monotonic,
    /// The resource version that it gave the Secret.
    pub version: String,
}

impl Stored {
    /// Its keys, read.
    pub fn secret(&self) -> PlanSecret {
        PlanSecret::read(&self.data)
    }

    /// What the planner makes of it.
    pub fn status(&self) -> Status {
        orchestrator::status(&self.secret(), &self.annotations)
    }

    fn read(object: &Value) -> Result<Self> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let decode = |(key, value): (&String, &Value)| -> Result<_> {
            Ok((key.clone(), BASE64_STANDARD.decode(text(value))?))
        };
        let entries = |field: &Value| field.as_object().cloned().unwrap_or_default();
        let metadata = &object["metadata"];
        Ok(Stored {
            uid: text(&metadata["uid"]),
            version: text(&metadata["resourceVersion"]),
            data: entries(&object["data"]).iter().map(decode).collect::<Result<_>>()?,
            annotations: entries(&metadata["annotations"])
                .iter()
                .map(|(k, v)| (k.clone(), text(v)))
                .collect(),
        })
    }
}

impl PlanServer {
    /// Starts one that listens on an address of this machine.
    pub fn start(address: IpAddr) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let directory = TempDir::with_prefix("herdsman-plans-")?;
        let (process, config) = launch(&directory, SocketAddr::new(address, 0), 0)?;
        let listen = config.server.trim_start_matches("https://").parse().context("no address in the URL")?;
        let session = Session::new(Server::new(&config)?);
        let process = vec![process];
        Ok(PlanServer {
            runtime,
            directory,
            listen,
            starts: 1,
            process,
            session,
            authority: config.authority,
        })
    }

    /// Ends the server; what it knows stays.
    pub fn stop(&mut self) {
        stop_all(&mut self.process, GRACE);
    }

    /// Starts it again, at the same address.
    pub fn start_again(&mut self) -> Result<()> {
        let (process, config) = launch(&self.directory, self.listen, self.starts)?;
        self.starts += 1;
        self.process.push(process);
        self.session = Session::new(Server::new(&config)?);
        Ok(())
    }

    /// Makes an empty plan Secret and a ServiceAccount that may read and update just that. Gives the connection info
    /// of its agent, as `/v3/connect/agent` does.
    pub fn enrol(&self, name: &str) -> Result<String> {
        let of = |api: &str| format!("{api}/namespaces/{NAMESPACE}");
        let (core, rbac) = (of("/api/v1"), of("/apis/rbac.authorization.k8s.io/v1"));
        let metadata = json!({"name": name});
        self.create(name, &Data::new())?;
        self.ask("POST", &format!("{core}/serviceaccounts"), &json!({"metadata": metadata}))?;
        let rule = json!({
            "apiGroups": [""], "resources": ["secrets"], "resourceNames": [name],
            "verbs": ["get", "list", "watch", "update"],
        });
        self.ask("POST", &format!("{rbac}/roles"), &json!({"metadata": metadata, "rules": [rule]}))?;
        let binding = json!({
            "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}],
        });
        self.ask("POST", &format!("{rbac}/rolebindings"), &binding)?;
        let request = json!({"spec": {"expirationSeconds": 86_400}});
        let token = self.ask("POST", &format!("{core}/serviceaccounts/{name}/token"), &request)?;
        let token = token["status"]["token"].as_str().context("no token")?;
        let info = json!({"kubeConfig": self.kubeconfig(token), "namespace": NAMESPACE, "secretName": name});
        Ok(info.to_string())
    }

    fn kubeconfig(&self, token: &str) -> String {
        let authority = BASE64_STANDARD.encode(&self.authority);
        let server = format!("https://{}", self.listen);
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "agent",
            "clusters": [{"name": "agent", "cluster": {"server": server, "certificate-authority-data": authority}}],
            "users": [{"name": "agent", "user": {"token": token}}],
            "contexts": [{"name": "agent", "context": {"cluster": "agent", "user": "agent"}}],
        });
        config.to_string()
    }

    /// The Secret as it is.
    pub fn stored(&self, name: &str) -> Result<Stored> {
        Stored::read(&self.ask("GET", &path(name), &Value::Null)?)
    }

    /// Makes a plan Secret.
    pub fn create(&self, name: &str, data: &Data) -> Result<()> {
        let data: serde_json::Map<_, _> =
            data.iter().map(|(key, value)| (key.clone(), BASE64_STANDARD.encode(value).into())).collect();
        let body = json!({"metadata": {"name": name}, "type": "rke.cattle.io/machine-plan", "data": data});
        self.ask("POST", &path(""), &body).map(drop)
    }

    /// Removes a plan Secret.
    pub fn delete(&self, name: &str) -> Result<()> {
        self.ask("DELETE", &path(name), &Value::Null).map(drop)
    }

    /// Delivers a plan as the planner does.
    pub fn deliver(&self, name: &str, plan: Plan, terms: Terms) -> Result<Delivered> {
        let document = Document::encode(plan);
        let delivered = self.write(name, |stored| {
            Ok(orchestrator::deliver(&stored.data, &document, terms, SystemClock.now())?)
        })?;
        delivered.context("the plan is there already")
    }

    /// Does what the planner does after the agent has written.
    pub fn upkeep(&self, name: &str) -> Result<()> {
        self.write(name, |stored| {
            Ok(orchestrator::upkeep(&stored.data, &stored.annotations, SystemClock.now()))
        })?;
        Ok(())
    }

    /// Changes keys, for what no planner of ours would do.
    pub fn change(&self, name: &str, changes: &Changes) -> Result<()> {
        self.write(name, |_| Ok(Update { data: changes.clone(), ..Update::default() }))?;
        Ok(())
    }

    fn write(&self, name: &str, decide: impl Fn(&Stored) -> Result<Update>) -> Result<Option<Delivered>> {
        for _ in 0..CONFLICTS {
            let mut object = self.ask("GET", &path(name), &Value::Null)?;
            let update = decide(&Stored::read(&object)?)?;
            if update.is_empty() {
                return Ok(None);
            }
            put(&mut object, &update);
            let sent = SystemClock.monotonic();
            let (code, answer) = self.request("PUT", &path(name), &object)?;
            match code {
                409 => {}
                200 => return Ok(Some(Delivered { sent, version: Stored::read(&answer)?.version })),
                _ => bail!("{code} {answer}"),
            }
        }
        bail!("Secret {name} changes all the time")
    }

    /// Waits until the Secret is as wanted.
    pub fn until(&self, name: &str, what: &str, mut wanted: impl FnMut(&Stored) -> bool) -> Result<Stored> {
        let deadline = Deadline::after(&SystemClock, PATIENCE);
        loop {
            let stored = self.stored(name)?;
            if wanted(&stored) {
                return Ok(stored);
            }
            ensure!(!deadline.passed(&SystemClock), "not {what} after {} s: {stored:?}", PATIENCE.as_secs());
            std::thread::sleep(POLL);
        }
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Value> {
        let (code, answer) = self.request(method, path, body)?;
        ensure!((200..300).contains(&code), "{method} {path}: {code} {answer}");
        Ok(answer)
    }

    fn request(&self, method: &str, path: &str, body: &Value) -> Result<(u16, Value)> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = Request {
            method: method.to_owned(),
            path: path.to_owned(),
            headers: vec![("content-type".into(), "application/json".into())],
            body: body.into(),
            as_administrator: true,
            old: false,
        };
        let answer = self.runtime.block_on(self.session.send(&request))?;
        Ok((answer.status, serde_json::from_slice(&answer.body).unwrap_or_default()))
    }
}

impl Drop for PlanServer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Waits for something other than a Secret.
pub fn until(what: &str, mut reached: impl FnMut() -> bool) -> Result<()> {
    let deadline = Deadline::after(&SystemClock, PATIENCE);
    while !reached() {
        ensure!(!deadline.passed(&SystemClock), "not {what} after {} s", PATIENCE.as_secs());
        std::thread::sleep(POLL);
    }
    Ok(())
}

fn path(name: &str) -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/secrets/{name}").trim_end_matches('/').to_owned()
}

fn put(object: &mut Value, update: &Update) {
    for (key, value) in &update.data {
        match value {
            Some(value) => object["data"][*key] = BASE64_STANDARD.encode(value).into(),
            None => {
                object["data"].as_object_mut().and_then(|data| data.remove(*key));
            }
        }
    }
    for (key, value) in &update.annotations {
        object["metadata"]["annotations"][*key] = value.clone().into();
    }
}

/// Starts the server on the data of the directory, with a log of its own.
fn launch(directory: &TempDir, listen: SocketAddr, start: u32) -> Result<(Process, Kubeconfig)> {
    let logs = directory.path().join(format!("start-{start}"));
    std::fs::create_dir(&logs)?;
    let (process, kubeconfig) =
        target::launch_herdsman(&directory.path().join("data"), &listen.to_string(), &[], &logs)?;
    Ok((process, Kubeconfig::read(&kubeconfig)?))
}
