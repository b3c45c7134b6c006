//! Many clients that create objects as fast as they are let.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Result;
use clock::{Clock, SystemClock};
use tokio::task::JoinSet;

use super::contestant::{get, good, request};
use super::objects::{Kind, Objects};
use crate::client::{Server, Session};

/// How many at the same time, each with a connection of its own.
const CLIENTS: usize = 32;

/// Creates the objects of a range, and gives how many a second that were.
pub(super) async fn create(
    server: &Server,
    objects: &Arc<Objects>,
    kind: Kind,
    namespace: &str,
    range: std::ops::Range<usize>,
) -> Result<f64> {
    let mut sessions = Vec::new();
    for _ in 0..CLIENTS {
        let session = Session::new(server.clone());
        good(&session.send(&get("/version")).await?)?;
        sessions.push(session);
    }
    let next = Arc::new(AtomicUsize::new(range.start));
    let begin = SystemClock.monotonic();
    let mut clients = JoinSet::new();
    for session in sessions {
        let (next, objects, path, end) = (next.clone(), objects.clone(), kind.path(namespace), range.end);
        clients.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= end {
                    return Ok(());
                }
                let body = objects.make(kind, &format!("o-{number:06}"), number);
                good(&session.send(&request("POST", &path, body)).await?)?;
            }
        });
    }
    while let Some(client) = clients.join_next().await {
        let done: Result<()> = client?;
        done?;
    }
    Ok(range.len() as f64 / SystemClock.monotonic().since(begin).as_secs_f64())
}
