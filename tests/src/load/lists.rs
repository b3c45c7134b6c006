//! Large lists.

use anyhow::{Context, Result, ensure};
use clock::{Clock, SystemClock};
use serde_json::Value;

use super::contestant::{get, good};
use crate::client::{Server, Session};

/// Lists all objects of a path in one answer, and gives the milliseconds until its last byte.
pub(super) async fn list(server: &Server, path: &str) -> Result<f64> {
    let session = Session::new(server.clone());
    good(&session.send(&get("/version")).await?)?;
    let begin = SystemClock.monotonic();
    let answer = session.send(&get(path)).await?;
    let took = SystemClock.monotonic().since(begin);
    good(&answer)?;
    Ok(took.as_secs_f64() * 1000.0)
}

/// Finds out whether there are as many objects of ours as there should be.
pub(super) async fn count(server: &Server, path: &str, wanted: usize) -> Result<()> {
    let answer = Session::new(server.clone()).send(&get(&format!("{path}?labelSelector=app=load"))).await?;
    let list: Value = serde_json::from_slice(&answer.body)?;
    let found = list["items"].as_array().context("no list")?.len();
    ensure!(found == wanted, "{found} objects in {path}, not {wanted}");
    Ok(())
}
