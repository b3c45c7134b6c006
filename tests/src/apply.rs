//! Random applies, updates and patches by several managers: the same on two servers.

pub mod compare;
pub mod draw;
pub mod kinds;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::client::{Request, Session};
use draw::Draw;
use kinds::Kind;

const MANAGERS: [&str; 3] = ["alice", "bob", "kubectl"];
const JSON: &str = "application/json";
const APPLY: &str = "application/apply-patch+yaml";

/// How an object is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// A configuration is applied.
    Apply {
        /// Over the heads of others.
        force: bool,
    },
    /// The object is replaced, or created.
    Put,
    /// By a merge patch.
    Merge,
    /// By a merge patch that knows the keys of lists.
    Strategic,
    /// By a JSON patch that sets what the body says, field by field.
    Operations,
}

/// Which part of an object is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The object itself.
    Whole,
    /// Its status.
    Status,
    /// How many there are to be.
    Scale,
}

/// A write, the same for both servers but for what an object says of itself.
#[derive(Clone, Debug)]
pub struct Step {
    /// How.
    pub how: How,
    /// What.
    pub part: Part,
    /// Group and version.
    pub version: &'static str,
    /// Who writes.
    pub manager: &'static str,
    /// What is said: everything of the object but its name.
    pub body: Value,
    /// Whether a replacement keeps the fields that it does not name.
    pub keeps: bool,
}

/// A random write of an object of a kind; of one that is not there yet if it is to be created.
pub fn step(kind: &Kind, draw: &mut Draw, exists: bool) -> Step {
    let part = match draw.below(8) {
        0..2 if exists && kind.has_status => Part::Status,
        2 if exists && kind.has_scale => Part::Scale,
        _ => Part::Whole,
    };
    let how = match draw.below(10) {
        _ if !exists && !draw.one_in(4) => How::Apply { force: false },
        _ if !exists => How::Put,
        0..5 => How::Apply { force: draw.one_in(3) },
        5 | 6 => How::Put,
        7 => How::Operations,
        8 if kind.is_builtin() => How::Strategic,
        _ => How::Merge,
    };
    let mut body = match part {
        Part::Whole => (kind.content)(draw),
        Part::Status => json!({"status": (kind.status)(draw)}),
        Part::Scale => json!({"spec": {"replicas": draw.below(4)}}),
    };
    let labels = draw.words(&["l1", "l2"], 3);
    if labels != json!({}) && part != Part::Scale {
        body["metadata"]["labels"] = labels;
    }
    let version = draw.of(kind.versions);
    Step { how, part, version, manager: draw.of(&MANAGERS), body, keeps: !draw.one_in(3) }
}

/// An answer: its code and body.
pub type Answer = (u16, Value);

/// The objects of a kind, on one server.
#[derive(Debug)]
pub struct Objects<'a> {
    session: &'a Session,
    kind: &'a Kind,
}

impl<'a> Objects<'a> {
    /// Those of a kind that a session can write.
    pub fn new(session: &'a Session, kind: &'a Kind) -> Self {
        Objects { session, kind }
    }

    /// Sends a request with a JSON body.
    pub async fn ask(&self, method: &str, path: &str, content_type: &str, body: &Value) -> Result<Answer> {
        let request = Request {
            method: method.into(),
            path: path.into(),
            headers: vec![("content-type".into(), content_type.into())],
            body: if body.is_null() { String::new() } else { body.to_string() }.into(),
            as_administrator: true,
            old: false,
        };
        let answer = self.session.send(&request).await?;
        let body = serde_json::from_slice(&answer.body)
            .with_context(|| String::from_utf8_lossy(&answer.body).into_owned())?;
        Ok((answer.status, body))
    }

    /// The object of a name, if it is there.
    pub async fn get(&self, version: &str, name: &str) -> Result<Answer> {
        self.ask("GET", &format!("{}/{name}", self.kind.path(version)), JSON, &Value::Null).await
    }

    /// Deletes the object of a name, if it is there.
    pub async fn delete(&self, name: &str) -> Result<Answer> {
        let all = self.kind.path(self.kind.versions[0]);
        self.ask("DELETE", &format!("{all}/{name}?propagationPolicy=Background"), JSON, &Value::Null).await
    }

    /// Takes a step with the object of a name.
    pub async fn take(&self, step: &Step, name: &str) -> Result<Answer> {
        let all = self.kind.path(step.version);
        let part = match step.part {
            Part::Whole => "",
            Part::Status => "/status",
            Part::Scale => "/scale",
        };
        let live = match self.get(step.version, &format!("{name}{part}")).await? {
            (200, live) => Some(live),
            _ => None,
        };
        let one = format!("{all}/{name}{part}?fieldManager={}", step.manager);
        let patch = |kind: &str| format!("application/{kind}-patch+json");
        match (step.how, live) {
            (How::Apply { force }, _) => {
                let config = self.named(step, name);
                self.ask("PATCH", &format!("{one}&force={force}"), APPLY, &config).await
            }
            (How::Merge, _) => self.ask("PATCH", &one, &patch("merge"), &step.body).await,
            (How::Strategic, _) => self.ask("PATCH", &one, &patch("strategic-merge"), &step.body).await,
            (How::Operations, _) => self.ask("PATCH", &one, &patch("json"), &operations(&step.body)).await,
            (How::Put, None) => {
                let all = format!("{all}?fieldManager={}", step.manager);
                self.ask("POST", &all, JSON, &self.named(step, name)).await
            }
            (How::Put, Some(live)) => {
                let mut new = replacement(step, self.named(step, name), &live);
                if !self.kind.is_quiet {
                    // Whoever writes it too must not get in between.
                    new["metadata"]["resourceVersion"].take();
                }
                self.ask("PUT", &one, JSON, &new).await
            }
        }
    }

    /// What a step says, with what it is and which.
    fn named(&self, step: &Step, name: &str) -> Value {
        let (version, kind) = match step.part {
            Part::Scale => ("autoscaling/v1", "Scale"),
            _ => (step.version, self.kind.kind),
        };
        let mut body = step.body.clone();
        body["apiVersion"] = json!(version);
        body["kind"] = json!(kind);
        body["metadata"]["name"] = json!(name);
        body
    }
}

/// A replacement of what is there: of its revision, and with the part of it that the step does not write.
fn replacement(step: &Step, mut body: Value, live: &Value) -> Value {
    body["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
    let other = if step.part == Part::Status { "spec" } else { "status" };
    if !live[other].is_null() {
        body[other] = live[other].clone();
    }
    for part in ["spec", "data"].into_iter().filter(|_| step.keeps && step.part == Part::Whole) {
        if let (Some(said), Some(there)) = (body[part].as_object().cloned(), live[part].as_object()) {
            let both = there.clone().into_iter().chain(said).collect::<serde_json::Map<_, _>>();
            body[part] = Value::Object(both);
        }
    }
    if let Some(fields) = body.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    body
}

/// A JSON patch that sets the fields of spec, status and data, and the labels.
fn operations(body: &Value) -> Value {
    let set = |path: String, value: &Value| json!({"op": "add", "path": path, "value": value});
    let fields = ["spec", "status", "data"].into_iter().flat_map(|part| {
        let fields = body[part].as_object().into_iter().flatten();
        fields.map(move |(name, value)| set(format!("/{part}/{name}"), value))
    });
    let labels = &body["metadata"]["labels"];
    let labels = (!labels.is_null()).then(|| set("/metadata/labels".to_owned(), labels));
    fields.chain(labels).collect()
}
