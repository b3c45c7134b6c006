//! Whether the server is well: `/healthz`, `/livez` and `/readyz`, each check also on its own.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use ::http::Response;
use kubeapi::request::Query;

use super::response::text;
use super::{Api, Body};

/// How long the store may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Something that has to be well before the server is ready.
pub struct Check {
    name: String,
    run: Box<dyn Fn() -> Result<(), String> + Send + Sync>,
}

impl Check {
    /// A check, and what it is called. What it says is shown only to who asks for this check.
    pub fn new(
        name: impl Into<String>,
        run: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        Check { name: name.into(), run: Box::new(run) }
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Check").field(&self.name).finish()
    }
}

/// What was checked, and what came out.
type Outcome<'a> = (&'a str, Result<(), String>);

impl Api {
    /// The answer of a health endpoint, if the path is one.
    pub(super) async fn health(&self, path: &str, query: &Query) -> Option<Response<Body>> {
        let (endpoint, one) = path.strip_prefix('/')?.split_once('/').unwrap_or((path.get(1..)?, ""));
        if !matches!(endpoint, "healthz" | "livez" | "readyz") {
            return None;
        }
        if path.ends_with('/') {
            return None;
        }
        let outcomes = self.check(endpoint).await;
        if one.is_empty() {
            let (code, report) = report(endpoint, &outcomes, query);
            return Some(text(code, report));
        }
        let (_, outcome) = outcomes.into_iter().find(|(name, _)| *name == one)?;
        Some(match outcome {
            Ok(()) => text(200, "ok"),
            Err(why) => text(500, format!("internal server error: {why}\n")),
        })
    }

    /// Liveness is what a restart could mend; readiness also asks whether requests are welcome.
    async fn check(&self, endpoint: &str) -> Vec<Outcome<'_>> {
        let mut outcomes = vec![("ping", Ok(())), ("log", Ok(())), ("store", self.check_store().await)];
        if endpoint != "livez" {
            outcomes.extend(self.0.checks.iter().map(|check| (check.name.as_str(), (check.run)())));
        }
        if endpoint == "readyz" {
            let closing = *self.0.closing.borrow();
            let shutdown = if closing { Err("process is shutting down".into()) } else { Ok(()) };
            outcomes.push(("shutdown", shutdown));
        }
        outcomes
    }

    /// Asks the store's writer for something that changes nothing.
    async fn check_store(&self) -> Result<(), String> {
        let store = self.0.server.store();
        let answer = store.compact(store.view().floor());
        match tokio::time::timeout(PATIENCE, answer).await {
            Ok(answer) => answer.map_err(|error| error.to_string()),
            Err(_) => Err(format!("no answer within {} s", PATIENCE.as_secs())),
        }
    }
}

/// Code and text of an endpoint's answer, in upstream's layout: every check if one failed or if asked for.
fn report(endpoint: &str, outcomes: &[Outcome<'_>], query: &Query) -> (u16, String) {
    let mut unknown: BTreeSet<&str> = query.all("exclude").iter().map(String::as_str).collect();
    let excluded = unknown.clone();
    let (mut lines, mut failed) = (String::new(), false);
    for (name, outcome) in outcomes {
        lines += &match outcome {
            _ if excluded.contains(name) => format!("[+]{name} excluded: ok\n"),
            Ok(()) => format!("[+]{name} ok\n"),
            Err(why) => {
                failed = true;
                tracing::warn!(check = name, why, "a health check failed");
                format!("[-]{name} failed: reason withheld\n")
            }
        };
        unknown.remove(name);
    }
    if !unknown.is_empty() {
        let names: Vec<String> = unknown.iter().map(|name| format!("{name:?}")).collect();
        let names = names.join(",");
        lines += &format!("warn: some health checks cannot be excluded: no matches for {names}\n");
    }
    match (failed, query.first("verbose")) {
        (true, _) => (500, format!("{lines}{endpoint} check failed\n")),
        (false, None) => (200, "ok".into()),
        (false, Some(_)) => (200, format!("{lines}{endpoint} check passed\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_have_upstreams_layout() {
        let well: [Outcome<'_>; 2] = [("ping", Ok(())), ("store", Ok(()))];
        let ill: [Outcome<'_>; 2] = [("ping", Ok(())), ("store", Err("secret".into()))];
        for (outcomes, query, code, expected) in [
            (&well, "", 200, "ok"),
            (&well, "verbose", 200, "[+]ping ok\n[+]store ok\nreadyz check passed\n"),
            (&ill, "", 500, "[+]ping ok\n[-]store failed: reason withheld\nreadyz check failed\n"),
            (&ill, "exclude=store", 200, "ok"),
            (
                &ill,
                "exclude=store&exclude=x&verbose=1",
                200,
                "[+]ping ok\n[+]store excluded: ok\nwarn: some health checks cannot be excluded: no matches for \"x\"\nreadyz check passed\n",
            ),
        ] {
            assert_eq!(report("readyz", outcomes, &Query::parse(query)), (code, expected.into()), "{query}");
        }
    }
}
