//! Patches: changes of an object that a client describes.

pub mod json;
pub mod merge;
pub mod strategic;

use serde_json::Value;

use crate::Status;
use crate::status::Details;

/// Why a patch cannot be applied.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// It is not a patch at all, or has a directive that makes no sense.
    #[error("{0}")]
    Malformed(String),
    /// It has more operations than a server wants to do.
    #[error("The allowed maximum operations in a JSON patch is {most}, got {0}", most = json::MOST_OPERATIONS)]
    TooManyOperations(usize),
    /// It does not fit the object. Clients are not told why, as upstream does not: this is for logs.
    #[error("{0}")]
    DoesNotApply(String),
}

/// The answer to a request with such a patch.
impl From<Error> for Status {
    fn from(error: Error) -> Self {
        match error {
            Error::Malformed(why) => Status::bad_request(why),
            Error::TooManyOperations(_) => Status::too_large(error.to_string()),
            Error::DoesNotApply(_) => Status {
                code: 422,
                reason: "Invalid".into(),
                message: "the server rejected our request due to an error in our request".into(),
                details: Some(Details::default()),
                ..Status::bad_request("")
            },
        }
    }
}

/// What kind of JSON a value is, in the words of Go's decoder.
fn json_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
