//! ConversionReviews: what a conversion webhook is asked, and what it answers.

use std::time::Duration;

use serde_json::{Value, json};

use crate::registry::ConversionWebhook;
use crate::webhook::{self, Caller};

/// How long a conversion may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Versions of ConversionReview that are understood.
const KNOWN: [&str; 2] = ["v1beta1", "v1"];

/// Why a webhook did not convert.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// It understands no version of ConversionReview that is known here.
    #[error("no supported conversion review versions")]
    NoVersion,
    /// The call failed.
    #[error(transparent)]
    Call(#[from] webhook::Error),
    /// The answer is none to what was asked, or says that it could not be done.
    #[error("{0}")]
    Answer(String),
}

/// Asks a webhook for the objects in the version `to`.
pub(super) async fn ask(
    caller: &Caller,
    webhook: &ConversionWebhook,
    objects: &[Value],
    to: &str,
    uid: &str,
) -> Result<Vec<Value>, Error> {
    let version = webhook.review_versions.iter().find(|one| KNOWN.contains(&one.as_str()));
    let version = version.ok_or(Error::NoVersion)?;
    let question = json!({
        "kind": "ConversionReview",
        "apiVersion": format!("apiextensions.k8s.io/{version}"),
        "request": {"uid": uid, "desiredAPIVersion": to, "objects": objects},
    });
    let answer = caller.call(&webhook.client, &question, TIMEOUT).await?;
    read(answer, version, uid).map_err(Error::Answer)
}

/// The converted objects in an answer. The older version of the review promises less.
fn read(mut answer: Value, version: &str, uid: &str) -> Result<Vec<Value>, String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if version == "v1" {
        let (group, kind) = (text(&answer["apiVersion"]), text(&answer["kind"]));
        if (group.as_str(), kind.as_str()) != ("apiextensions.k8s.io/v1", "ConversionReview") {
            return Err(format!(
                "expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got {group}, Kind={kind}"
            ));
        }
    }
    let Some(response) = answer.get_mut("response").filter(|response| response.is_object()) else {
        return Err("no response provided".into());
    };
    if version == "v1" && response["uid"] != uid {
        return Err(format!("expected response.uid={uid:?}, got {:?}", text(&response["uid"])));
    }
    let (status, message) = (text(&response["result"]["status"]), text(&response["result"]["message"]));
    match response.get_mut("convertedObjects").map(Value::take).unwrap_or_default() {
        _ if status != "Success" && !message.is_empty() => Err(message),
        _ if status != "Success" => Err(format!("response.result.status was '{status}', not 'Success'")),
        Value::Array(objects) => Ok(objects),
        _ => Ok(Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_checked() {
        let answer = |version: &str, response: Value| json!({"kind": "ConversionReview", "apiVersion": format!("apiextensions.k8s.io/{version}"), "response": response});
        let good = json!({"uid": "u", "result": {"status": "Success"}, "convertedObjects": [{"a": 1}]});
        let other_uid = json!({"uid": "v", "result": {"status": "Success"}});
        let failed = json!({"uid": "u", "result": {"status": "Failure", "message": "no"}});
        let odd = json!({"uid": "u", "result": {"status": "Odd"}});
        let no = |why: &str| Err(why.to_owned());
        for (version, answer, wanted) in [
            ("v1", answer("v1", good.clone()), Ok(vec![json!({"a": 1})])),
            ("v1beta1", answer("", good.clone()), Ok(vec![json!({"a": 1})])),
            (
                "v1",
                answer("v1beta1", good),
                no(
                    "expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got apiextensions.k8s.io/v1beta1, Kind=ConversionReview",
                ),
            ),
            ("v1", answer("v1", Value::Null), no("no response provided")),
            ("v1beta1", answer("v1", json!([1])), no("no response provided")),
            ("v1beta1", json!("not a review"), no("no response provided")),
            ("v1", answer("v1", other_uid.clone()), no("expected response.uid=\"u\", got \"v\"")),
            ("v1beta1", answer("v1", other_uid), Ok(vec![])),
            ("v1", answer("v1", failed), no("no")),
            ("v1", answer("v1", odd), no("response.result.status was 'Odd', not 'Success'")),
        ] {
            assert_eq!(read(answer.clone(), version, "u"), wanted, "{version} {answer}");
        }
    }
}
