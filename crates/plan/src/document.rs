//! The plan: what a machine shall look like, and what to run on it.
//!
//! Field names, their order and what is left out when empty are Rancher's `NodePlan`, so that the same value has the
//! same bytes, and the same checksum, whoever encodes it. Fields that we do not know are kept, at every depth, and are
//! written behind the ones we know.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::gojson::{self, is_empty, null_default};

/// Fields that this version does not know.
pub type Extra = BTreeMap<String, Value>;

/// What a machine shall look like, and what to run on it.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Plan {
    /// Written (or removed) in this order, before anything runs.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub files: Vec<File>,
    /// Run once, in this order, up to the first that fails.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub instructions: Vec<OneTimeInstruction>,
    /// Run again and again.
    #[serde(
        rename = "periodicInstructions",
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub periodic_instructions: Vec<PeriodicInstruction>,
    /// Why the planner could not make a better one. Agents ignore it.
    #[serde(skip_serializing_if = "is_empty", deserialize_with = "null_default")]
    pub error: String,
    /// What tells whether the machine is well.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_default")]
    pub probes: BTreeMap<String, Probe>,
    /// Fields that we do not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// One file or directory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct File {
    /// Base64; see [`File::decoded`].
    #[serde(skip_serializing_if = "is_empty", deserialize_with = "null_default")]
    pub content: String,
    /// A directory, not a file.
    #[serde(skip_serializing_if = "is_empty", deserialize_with = "null_default")]
    pub directory: bool,
    /// Owner.
    #[serde(skip_serializing_if = "is_empty", deserialize_with = "null_default")]
    pub uid: i64,
    /// Group.
    #[serde(skip_serializing_if = "is_empty", deserialize_with = "null_default")]
    pub gid: i64,
    /// Absolute.
    #[serde(skip_serializing_if = "is_empty", deserialize_with = "null_default")]
    pub path: String,
    /// Octal digits; see [`File::mode`].
    #[serde(skip_serializing_if = "is_empty", deserialize_with = "null_default")]
    pub permissions: String,
    /// `delete` removes; anything else writes.
    #[serde(skip_serializing_if = "is_empty", deserialize_with = "null_default")]
    pub action: String,
    /// For the planner: the content is not part of what decides about restarts. Agents ignore it.
    #[serde(skip_serializing_if = "is_empty", deserialize_with = "null_default")]
    pub dynamic: bool,
    /// For the planner: a change needs no drain. Agents ignore it.
    #[serde(skip_serializing_if = "is_empty", deserialize_with = "null_default")]
    pub minor: bool,
    /// Fields that we do not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Why a file of a plan cannot be written as it says.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The content is not base64.
    #[error("content is not base64")]
    Content(#[from] base64::DecodeError),
    /// The permissions are not an octal number.
    #[error("permissions {0:?} are not an octal number")]
    Permissions(String),
}

impl File {
    /// Whether the file is to be removed.
    pub fn is_delete(&self) -> bool {
        self.action == "delete"
    }

    /// The bytes to write.
    pub fn decoded(&self) -> Result<Vec<u8>, FileError> {
        Ok(gojson::base64_decode(&self.content)?)
    }

    /// The nine permission bits: 0600 for files and 0755 for directories unless the plan says otherwise.
    pub fn mode(&self) -> Result<u32, FileError> {
        match (self.permissions.as_str(), self.directory) {
            ("", true) => Ok(0o755),
            ("", false) => Ok(0o600),
            (text, _) => match i32::from_str_radix(text, 8) {
                Ok(mode) if mode >= 0 => Ok(mode.unsigned_abs() & 0o777),
                _ => Err(FileError::Permissions(text.to_owned())),
            },
        }
    }
}

/// What both kinds of instruction say about the program to run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Instruction {
    /// The key of its output.
    #[serde(skip_serializing_if = "is_empty", deserialize_with = "null_default")]
    pub name: String,
    /// An image whose files are put into the working directory first.
    #[serde(skip_serializing_if = "is_empty", deserialize_with = "null_default")]
    pub image: String,
    /// `NAME=value` entries.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub env: Vec<String>,
    /// Arguments.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub args: Vec<String>,
    /// The program; `run.sh` of the working directory if empty.
    #[serde(skip_serializing_if = "is_empty", deserialize_with = "null_default")]
    pub command: String,
    /// A script to run in place of the command. Go agents up to v0.15.0 do not know it.
    #[serde(skip_serializing_if = "is_empty", deserialize_with = "null_default")]
    pub script: String,
}

/// An instruction that is run when the plan is applied.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OneTimeInstruction {
    /// The program.
    #[serde(flatten)]
    pub common: Instruction,
    /// Report what it writes, under its name.
    #[serde(rename = "saveOutput", skip_serializing_if = "is_empty", deserialize_with = "null_default")]
    pub save_output: bool,
    /// Fields that we do not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// An instruction that is run again and again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PeriodicInstruction {
    /// The program.
    #[serde(flatten)]
    pub common: Instruction,
    /// Seconds from one success to the next run; 0 means 600.
    #[serde(rename = "periodSeconds", skip_serializing_if = "is_empty", deserialize_with = "null_default")]
    pub period_seconds: i64,
    /// Report standard error too.
    #[serde(
        rename = "saveStderrOutput",
        skip_serializing_if = "is_empty",
        deserialize_with = "null_default"
    )]
    pub save_stderr_output: bool,
    /// Fields that we do not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// A question that is asked of the machine every few seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Probe {
    /// Not used: the key in the map counts.
    #[serde(skip_serializing_if = "is_empty", deserialize_with = "null_default")]
    pub name: String,
    /// Seconds from the end of an apply to the first try.
    #[serde(
        rename = "initialDelaySeconds",
        skip_serializing_if = "is_empty",
        deserialize_with = "null_default"
    )]
    pub initial_delay_seconds: i64,
    /// Seconds for one try; see [`crate::probe::timeout`].
    #[serde(rename = "timeoutSeconds", skip_serializing_if = "is_empty", deserialize_with = "null_default")]
    pub timeout_seconds: i64,
    /// Successes in a row that make it healthy; 0 means 1.
    #[serde(
        rename = "successThreshold",
        skip_serializing_if = "is_empty",
        deserialize_with = "null_default"
    )]
    pub success_threshold: i64,
    /// Failures in a row that make it unhealthy; 0 means 3.
    #[serde(
        rename = "failureThreshold",
        skip_serializing_if = "is_empty",
        deserialize_with = "null_default"
    )]
    pub failure_threshold: i64,
    /// The request. Written even when empty, as Go does with a struct.
    #[serde(rename = "httpGet", deserialize_with = "null_default")]
    pub http_get: HttpGet,
    /// Fields that we do not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// The request that a probe makes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HttpGet {
    /// `http` or `https`.
    #[serde(skip_serializing_if = "is_empty", deserialize_with = "null_default")]
    pub url: String,
    /// Do not check the server's certificate, show none.
    #[serde(skip_serializing_if = "is_empty", deserialize_with = "null_default")]
    pub insecure: bool,
    /// File with a client certificate.
    #[serde(rename = "clientCert", skip_serializing_if = "is_empty", deserialize_with = "null_default")]
    pub client_cert: String,
    /// File with its key.
    #[serde(rename = "clientKey", skip_serializing_if = "is_empty", deserialize_with = "null_default")]
    pub client_key: String,
    /// File with roots to trust besides the system's.
    #[serde(rename = "caCert", skip_serializing_if = "is_empty", deserialize_with = "null_default")]
    pub ca_cert: String,
    /// Fields that we do not know.
    #[serde(flatten)]
    pub extra: Extra,
}

impl Plan {
    /// Names under which one-time output is reported.
    pub fn output_names(&self) -> impl Iterator<Item = &str> {
        let saved = self.instructions.iter().filter(|instruction| instruction.save_output);
        saved.map(|instruction| instruction.common.name.as_str()).filter(|name| !name.is_empty())
    }
}

/// Counts, not contents: files and environments hold secrets.
impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan")
            .field("files", &self.files.len())
            .field("instructions", &self.instructions.len())
            .field("periodic_instructions", &self.periodic_instructions.len())
            .field("probes", &self.probes.len())
            .finish_non_exhaustive()
    }
}

/// SHA-256 over the exact bytes of a plan.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Checksum([u8; 32]);

impl Checksum {
    /// The checksum of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Checksum(Sha256::digest(bytes).into())
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Text that is not 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not 64 lower-case hexadecimal digits")]
pub struct NotAChecksum;

impl FromStr for Checksum {
    type Err = NotAChecksum;

    fn from_str(text: &str) -> Result<Self, NotAChecksum> {
        let digits = text.as_bytes();
        if digits.len() != 64 || !digits.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(NotAChecksum);
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| NotAChecksum)?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| NotAChecksum)?;
        }
        Ok(Checksum(bytes))
    }
}

impl Serialize for Checksum {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Checksum {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A plan together with the bytes it was read from (or was encoded to), which are what its checksum is over.
#[derive(Clone, PartialEq)]
pub struct Document {
    plan: Plan,
    bytes: Vec<u8>,
    checksum: Checksum,
}

impl Document {
    /// Reads a plan, and keeps its bytes.
    pub fn parse(bytes: impl Into<Vec<u8>>) -> Result<Self, gojson::Error> {
        let bytes = bytes.into();
        // Go reads `null` into a struct as nothing at all.
        let plan = gojson::from_slice::<Option<Plan>>(&bytes)?.unwrap_or_default();
        Ok(Document { plan, checksum: Checksum::of(&bytes), bytes })
    }

    /// Encodes a plan: equal plans give equal bytes, those that Rancher's planner would write.
    pub fn encode(plan: Plan) -> Self {
        let bytes = gojson::to_vec(&plan);
        Document { plan, checksum: Checksum::of(&bytes), bytes }
    }

    /// What it says.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The exact bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// SHA-256 over the exact bytes.
    pub fn checksum(&self) -> Checksum {
        self.checksum
    }
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Document").field("checksum", &self.checksum).field("plan", &self.plan).finish()
    }
}
