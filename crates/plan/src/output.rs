//! What instructions wrote, as it travels in the Secret: gzip over a JSON map.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::document::Extra;
use crate::gojson::{self, Base64, null_default};
use crate::gzip;

/// Output of one-time instructions by name.
pub type Outputs = BTreeMap<String, Vec<u8>>;

/// Output of periodic instructions by name.
pub type PeriodicOutputs = BTreeMap<String, PeriodicOutput>;

/// Why a value could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The outer layer.
    #[error(transparent)]
    Gzip(#[from] gzip::Error),
    /// The inner layer.
    #[error(transparent)]
    Json(#[from] gojson::Error),
}

/// The last run of a periodic instruction. All keys are always written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PeriodicOutput {
    /// The instruction's name again.
    #[serde(deserialize_with = "null_default")]
    pub name: String,
    /// Standard output.
    #[serde(with = "bytes")]
    pub stdout: Vec<u8>,
    /// Standard error; empty unless the plan asks for it.
    #[serde(with = "bytes")]
    pub stderr: Vec<u8>,
    /// -1 if it did not start or a signal ended it.
    #[serde(rename = "exitCode", deserialize_with = "null_default")]
    pub exit_code: i64,
    /// [`crate::gotime`], or empty.
    #[serde(rename = "lastSuccessfulRunTime", deserialize_with = "null_default")]
    pub last_successful_run_time: String,
    /// In a row.
    #[serde(deserialize_with = "null_default")]
    pub failures: i64,
    /// [`crate::gotime`], or empty.
    #[serde(rename = "lastFailedRunTime", deserialize_with = "null_default")]
    pub last_failed_run_time: String,
    /// Fields that we do not know.
    #[serde(flatten)]
    pub extra: Extra,
}

mod bytes {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use super::Base64;

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        Base64(bytes.to_vec()).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        Ok(Base64::deserialize(deserializer)?.0)
    }
}

/// Reads `applied-output` or `failed-output`; nothing is no output.
pub fn decode(value: &[u8]) -> Result<Outputs, Error> {
    if value.is_empty() {
        return Ok(Outputs::new());
    }
    let map: Option<BTreeMap<String, Base64>> = gojson::from_slice(&gzip::unpack(value)?)?;
    Ok(map.unwrap_or_default().into_iter().map(|(name, bytes)| (name, bytes.0)).collect())
}

/// Writes `applied-output` or `failed-output`.
pub fn encode(outputs: &Outputs) -> Vec<u8> {
    let map: BTreeMap<&str, Base64> =
        outputs.iter().map(|(name, bytes)| (name.as_str(), Base64(bytes.clone()))).collect();
    gzip::pack(&gojson::to_vec(&map))
}

/// Reads `applied-periodic-output`; nothing is no output.
pub fn decode_periodic(value: &[u8]) -> Result<PeriodicOutputs, Error> {
    if value.is_empty() {
        return Ok(PeriodicOutputs::new());
    }
    let map: Option<PeriodicOutputs> = gojson::from_slice(&gzip::unpack(value)?)?;
    Ok(map.unwrap_or_default())
}

/// Writes `applied-periodic-output`.
pub fn encode_periodic(outputs: &PeriodicOutputs) -> Vec<u8> {
    gzip::pack(&gojson::to_vec(outputs))
}
