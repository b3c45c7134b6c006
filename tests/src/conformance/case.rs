//! The tables as data.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error as _};
use serde_json::{Map, Value};

use crate::target::Kind;

/// Cases on one theme: one file.
#[derive(Debug)]
pub struct Theme {
    /// The file's name without its ending.
    pub file: String,
    /// What the theme is, in one line.
    pub title: String,
    /// Its cases.
    pub cases: Vec<Case>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    title: String,
    cases: Vec<Case>,
}

/// A few requests in a row. Each case has its own names, so that all run side by side.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// What it shows.
    pub case: String,
    /// Its requests.
    pub steps: Vec<Step>,
}

/// A request and what has to come back.
#[derive(Debug)]
pub struct Step {
    /// The request.
    pub call: Call,
    /// What has to come back.
    pub expect: Expect,
    /// What comes back from our server instead, and why.
    pub differs: Option<Differs>,
}

/// A difference that stays.
#[derive(Debug)]
pub struct Differs {
    /// Why.
    pub reason: String,
    /// What comes back from our server.
    pub expect: Expect,
}

/// A request.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Call {
    /// Method and path; or `READ` and the name of an open stream.
    #[serde(rename = "do")]
    pub request: String,
    /// A JSON body.
    pub body: Option<Value>,
    /// A body as it is.
    pub raw: Option<String>,
    /// Spaces after the body.
    #[serde(default)]
    pub pad: usize,
    /// The body's content type; JSON unless given. Protobuf makes the JSON body one.
    #[serde(rename = "type")]
    pub content_type: Option<String>,
    /// What is accepted in return; JSON unless given.
    pub accept: Option<String>,
    /// More headers.
    #[serde(default)]
    pub headers: BTreeMap<String, Headers>,
    /// Who asks: `admin`, `anonymous`, `token:..`, or `user:..` with `groups:..` for an impersonated one.
    #[serde(rename = "as")]
    pub identity: Option<String>,
    /// Over HTTP/1.1.
    #[serde(default)]
    pub http1: bool,
    /// So many times, with `{i}` counting from 0.
    pub repeat: Option<usize>,
    /// Again and again until the expectation is met.
    #[serde(default)]
    pub eventually: bool,
    /// Keeps the answer's stream open under this name.
    pub open: Option<String>,
}

/// One value or several of the same header.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Headers {
    /// One.
    One(String),
    /// Several.
    Many(Vec<String>),
}

/// What has to come back. What is not given is not looked at.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Expect {
    /// The status code; success unless given.
    pub code: Option<u16>,
    /// A Status' reason.
    pub reason: Option<String>,
    /// A Status' message, a pattern.
    pub message: Option<String>,
    /// A pattern for the body.
    #[serde(rename = "is")]
    pub body: Option<Value>,
    /// Patterns for places in the body.
    #[serde(default)]
    pub at: BTreeMap<String, Value>,
    /// A pattern for the body's text.
    pub text: Option<String>,
    /// Patterns for headers.
    #[serde(default)]
    pub sends: BTreeMap<String, String>,
    /// All texts of `Warning` headers.
    pub warnings: Option<Vec<String>>,
    /// A pattern for what the audit log says when the request is over.
    pub audit: Option<Value>,
    /// All events of a watch until now, as patterns.
    pub events: Option<Vec<Value>>,
    /// Whether the stream ends after them.
    #[serde(default)]
    pub ends: bool,
    /// Names for values in the body (`base64:..` decodes), or in headers (`header:..`).
    #[serde(default)]
    pub capture: BTreeMap<String, String>,
}

/// The keys of [`Expect`].
const EXPECTATIONS: [&str; 12] = [
    "code", "reason", "message", "is", "at", "text", "sends", "warnings", "audit", "events", "ends",
    "capture",
];

impl Step {
    /// What has to come back from this server.
    pub fn expectation(&self, kind: Kind) -> &Expect {
        match (&self.differs, kind) {
            (Some(differs), Kind::Herdsman) => &differs.expect,
            _ => &self.expect,
        }
    }
}

impl<'de> Deserialize<'de> for Step {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut call = Map::deserialize(deserializer)?;
        let differs = call.remove("differs").map(differs).transpose().map_err(D::Error::custom)?;
        let expect = part(expectations(&mut call)).map_err(D::Error::custom)?;
        Ok(Step { call: part(call).map_err(D::Error::custom)?, expect, differs })
    }
}

fn differs(value: Value) -> Result<Differs, String> {
    let Value::Object(mut differs) = value else { return Err("differs is not a map".into()) };
    let reason = differs.remove("reason").and_then(|reason| reason.as_str().map(str::to_owned));
    // `reason` is why; the reason of a Status goes in `is`.
    Ok(Differs { reason: reason.ok_or("differs without a reason")?, expect: part(differs)? })
}

fn expectations(step: &mut Map<String, Value>) -> Map<String, Value> {
    EXPECTATIONS.iter().filter_map(|key| step.remove(*key).map(|value| ((*key).to_owned(), value))).collect()
}

fn part<T: DeserializeOwned>(map: Map<String, Value>) -> Result<T, String> {
    serde_json::from_value(Value::Object(map)).map_err(|error| error.to_string())
}

impl fmt::Display for Theme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.title)
    }
}

/// All tables, by file name.
pub fn all() -> Result<Vec<Theme>> {
    let directory = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/conformance"));
    let mut files = Vec::new();
    for entry in fs::read_dir(&directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            files.push(path);
        }
    }
    files.sort();
    files.into_iter().map(theme).collect()
}

fn theme(path: PathBuf) -> Result<Theme> {
    let name = path.file_stem().and_then(|stem| stem.to_str()).context("a file without a name")?.to_owned();
    let text = fs::read_to_string(&path)?;
    let file: File = serde_saphyr::from_str(&text).with_context(|| path.display().to_string())?;
    ensure!(!file.cases.is_empty(), "{} has no cases", path.display());
    Ok(Theme { file: name, title: file.title, cases: file.cases })
}
