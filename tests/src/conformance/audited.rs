//! What the audit log says of a request.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use clock::{Deadline, SystemClock};
use serde_json::Value;
use tokio::time::sleep;

use super::matching::differences;

/// How long an event may take to reach the log.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);

/// How the last event of a request differs from a pattern.
pub(super) async fn audited(log: &Path, id: &str, pattern: &Value) -> Result<Vec<String>> {
    let deadline = Deadline::after(&SystemClock, PATIENCE);
    loop {
        let text = std::fs::read(log).unwrap_or_default();
        if let Some(event) = last_event(&text, id) {
            return Ok(differences(pattern, Some(&event))
                .into_iter()
                .map(|line| format!("audit {line}"))
                .collect());
        }
        if deadline.passed(&SystemClock) {
            return Ok(vec![format!("the audit log says nothing of {id}")]);
        }
        sleep(POLL).await;
    }
}

/// The event that tells that a request is over.
fn last_event(log: &[u8], id: &str) -> Option<Value> {
    let lines = log.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
    let mut own = lines.filter(|line| line.windows(id.len()).any(|window| window == id.as_bytes()));
    own.find_map(|line| {
        let event: Value = serde_json::from_slice(line).ok()?;
        (event["auditID"] == id && event["stage"] == "ResponseComplete").then_some(event)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_stage_of_the_request_counts() {
        let log = b"{\"auditID\":\"b\",\"stage\":\"ResponseComplete\"}\n{\"auditID\":\"a\",\"stage\":\"ResponseStarted\"}\n{\"auditID\":\"a\",\"stage\":\"ResponseComplete\",\"verb\":\"get\"}\n{\"auditID\":\"c\",\"st";
        assert_eq!(last_event(log, "a").unwrap()["verb"], "get");
        assert!(last_event(log, "c").is_none());
    }
}
