//! The position file beside a local plan (`x.pos` for `x.plan`): what became of it.

use serde::{Deserialize, Serialize};

use crate::document::{Checksum, Document, Extra};
use crate::gojson::{self, Base64, is_empty, null_default};
use crate::output::{self, Outputs, PeriodicOutputs};
use crate::probe::ProbeStatuses;

/// Why a position file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not JSON, or of another shape.
    #[error(transparent)]
    Json(#[from] gojson::Error),
    /// One of the outputs in it.
    #[error("output in the position file")]
    Output(#[from] output::Error),
}

/// What became of a local plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Position {
    /// Checksum of the plan that was run last, however it ended.
    pub applied: Option<Checksum>,
    /// Output of its one-time instructions.
    pub output: Outputs,
    /// Health.
    pub probe_statuses: ProbeStatuses,
    /// Output of the periodic instructions.
    pub periodic_output: PeriodicOutputs,
    /// Fields that we do not know.
    pub extra: Extra,
}

/// The file's JSON.
#[derive(Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Wire {
    #[serde(skip_serializing_if = "is_empty", deserialize_with = "null_default")]
    applied_checksum: String,
    #[serde(skip_serializing_if = "is_empty", deserialize_with = "null_default")]
    output: Base64,
    #[serde(skip_serializing_if = "is_empty", deserialize_with = "null_default")]
    probe_status: ProbeStatuses,
    #[serde(skip_serializing_if = "is_empty", deserialize_with = "null_default")]
    periodic_output: Base64,
    #[serde(flatten)]
    extra: Extra,
}

impl Position {
    /// Reads a file; an empty one is that of a plan that was never run, as is a checksum that is none.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        if bytes.is_empty() {
            return Ok(Position::default());
        }
        let wire: Wire = gojson::from_slice::<Option<Wire>>(bytes)?.unwrap_or_default();
        Ok(Position {
            applied: wire.applied_checksum.parse().ok(),
            output: output::decode(&wire.output.0)?,
            probe_statuses: wire.probe_status,
            periodic_output: output::decode_periodic(&wire.periodic_output.0)?,
            extra: wire.extra,
        })
    }

    /// The file's bytes; what is empty is left out.
    pub fn encode(&self) -> Vec<u8> {
        let packed =
            |empty: bool, pack: &dyn Fn() -> Vec<u8>| Base64(if empty { Vec::new() } else { pack() });
        gojson::to_vec(&Wire {
            applied_checksum: self.applied.map(|sum| sum.to_string()).unwrap_or_default(),
            output: packed(self.output.is_empty(), &|| output::encode(&self.output)),
            probe_status: self.probe_statuses.clone(),
            periodic_output: packed(self.periodic_output.is_empty(), &|| {
                output::encode_periodic(&self.periodic_output)
            }),
            extra: self.extra.clone(),
        })
    }

    /// Whether the plan has to be run. A start of the agent does not force it.
    pub fn needs_apply(&self, plan: &Document) -> bool {
        self.applied != Some(plan.checksum())
    }
}
