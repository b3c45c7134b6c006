//! Watches: events out of a stream of bytes.

use std::time::Duration;

use anyhow::{Context, Result};
use kubeapi::proto;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::call::{LIMITS, PROTOBUF};
use super::matching::differences;
use crate::client::Streaming;

/// How long an event that is expected may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// The length before each event of a protobuf stream.
const FRAME_HEAD: usize = 4;

/// Reads as many events as there are patterns. How they differ.
pub(super) async fn read(stream: &mut Streaming, patterns: &[Value], ends: bool) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for (index, pattern) in patterns.iter().enumerate() {
        let Ok(event) = timeout(PATIENCE, next(stream)).await else {
            lines.push(format!("event {index}: none came, not {pattern}"));
            return Ok(lines);
        };
        let event = event?;
        let found = differences(pattern, event.as_ref());
        lines.extend(found.into_iter().map(|line| format!("event {index}: {line}")));
        if !lines.is_empty() {
            lines.push(format!("event {index} is {}", event.unwrap_or_default()));
            return Ok(lines);
        }
    }
    if ends {
        match timeout(PATIENCE, next(stream)).await {
            Err(_) => lines.push("the stream does not end".into()),
            Ok(Ok(Some(event))) => lines.push(format!("one event more: {event}")),
            Ok(_) => {}
        }
    }
    Ok(lines)
}

async fn next(stream: &mut Streaming) -> Result<Option<Value>> {
    let content_type = stream.headers.get("content-type").and_then(|value| value.to_str().ok());
    if content_type.is_some_and(|content_type| content_type.starts_with(PROTOBUF)) {
        let Some(frame) = stream.next(whole_frame).await? else { return Ok(None) };
        let (event, object) = proto::decode_watch_event(&frame[FRAME_HEAD..], LIMITS)?;
        return Ok(Some(json!({"type": event, "object": object})));
    }
    let line =
        stream.next(|received| received.iter().position(|&byte| byte == b'\n').map(|end| end + 1)).await?;
    line.map(|line| serde_json::from_slice(&line).context("an event is no JSON")).transpose()
}

fn whole_frame(received: &[u8]) -> Option<usize> {
    let (frame, _) = proto::split_watch_frame(received, LIMITS).ok()??;
    Some(FRAME_HEAD + frame.len())
}
