//! Following one Secret: list, then watch, again and again.
//!
//! Each watch begins with a list, also after one that ended well: a server that was restored from a backup may
//! take a revision from before for one that is still to come, and say nothing for a long time.

use std::time::Duration;

use bytes::BytesMut;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::Value;
use tokio::sync::watch;

use crate::client::{self, Client};
use crate::machine::Machine;
use crate::object::{self, Object};
use crate::retry::Retry;

/// For how many seconds the server is asked to keep a watch, at least: up to a minute more is drawn.
const WATCH: u32 = 240;
/// How much longer than asked a watch may last.
const GRACE: Duration = Duration::from_secs(30);
/// A watch that ends sooner did not go well.
const SHORT: Duration = Duration::from_secs(1);
/// The longest event.
const LARGEST: usize = 8 << 20;

/// What is known about the Secret.
#[derive(Clone, Debug, PartialEq)]
pub enum News {
    /// Nothing has been heard yet.
    Nothing,
    /// It is like this.
    Is(Object),
    /// There is none.
    Gone,
}

/// Why following has to begin again.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Client(#[from] client::Error),
    #[error(transparent)]
    Object(#[from] object::Error),
    #[error("the server ends the watch: {0}")]
    Ended(String),
    #[error("not an event: {0}")]
    Event(String),
}

/// Where a Secret is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    namespace: String,
    name: String,
}

impl Place {
    /// A Secret of this name in this namespace; none if these cannot be names.
    pub fn new(namespace: &str, name: &str) -> Option<Self> {
        let fits = |name: &str| {
            let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
            !name.is_empty() && name.len() <= 253 && name != "." && name != ".." && name.bytes().all(allowed)
        };
        let place = || Place { namespace: namespace.to_owned(), name: name.to_owned() };
        (fits(namespace) && fits(name)).then(place)
    }

    /// The path of the Secret itself.
    pub fn path(&self) -> String {
        format!("/api/v1/namespaces/{}/secrets/{}", self.namespace, self.name)
    }

    fn list_path(&self) -> String {
        format!("/api/v1/namespaces/{}/secrets?fieldSelector=metadata.name%3D{}", self.namespace, self.name)
    }
}

/// Tells what becomes of the Secret, for ever.
pub async fn follow(client: &Client, place: &Place, machine: &Machine, news: &watch::Sender<News>) {
    let mut retry = Retry::default();
    loop {
        let began = machine.clock.monotonic();
        let result = once(client, place, WATCH + machine.random(60), news).await;
        if machine.clock.monotonic().since(began) >= SHORT {
            retry.reset();
            if result.is_ok() {
                continue;
            }
        }
        let error = result.err().unwrap_or_else(|| Error::Ended("at once".into()));
        let pause = retry.pause(|bound| machine.random(bound));
        tracing::warn!(error = %crate::chain(&error), retry_in = ?pause, "cannot follow the plan Secret");
        tokio::time::sleep(pause).await;
    }
}

/// One list and one watch.
async fn once(client: &Client, place: &Place, seconds: u32, news: &watch::Sender<News>) -> Result<(), Error> {
    let mut list = client.get(&place.list_path()).await?;
    let version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
    let now = match list["items"].as_array_mut().and_then(Vec::pop) {
        Some(item) => News::Is(Object::read(item)?),
        None => News::Gone,
    };
    tell(news, now);
    let path = format!(
        "{}&watch=true&allowWatchBookmarks=true&resourceVersion={version}&timeoutSeconds={seconds}",
        place.list_path()
    );
    let (body, _sender) = client.stream(&path).await?;
    let limit = Duration::from_secs(u64::from(seconds)) + GRACE;
    // Behind a proxy a dead server shows in nothing but silence.
    let silent = Err(Error::Ended("it is silent".into()));
    tokio::time::timeout(limit, events(body, news)).await.unwrap_or(silent)
}

fn tell(news: &watch::Sender<News>, now: News) {
    news.send_if_modified(|before| {
        let new = *before != now;
        *before = now;
        new
    });
}

/// Reads events until the server ends them.
async fn events(mut body: Incoming, news: &watch::Sender<News>) -> Result<(), Error> {
    let mut buffer = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(client::Error::from)?;
        let Some(bytes) = frame.data_ref() else { continue };
        let searched = buffer.len();
        buffer.extend_from_slice(bytes);
        let mut from = searched;
        while let Some(end) = buffer[from..].iter().position(|byte| *byte == b'\n') {
            let line = buffer.split_to(from + end + 1);
            from = 0;
            event(&line, news)?;
        }
        if buffer.len() > LARGEST {
            return Err(Error::Event("it is too long".into()));
        }
        if buffer.is_empty() {
            // A large event is rare: do not hold its memory.
            buffer = BytesMut::new();
        }
    }
    Ok(())
}

fn event(line: &[u8], news: &watch::Sender<News>) -> Result<(), Error> {
    if line.trim_ascii().is_empty() {
        return Ok(());
    }
    let mut event: Value = serde_json::from_slice(line).map_err(|error| Error::Event(error.to_string()))?;
    let object = event["object"].take();
    match event["type"].as_str() {
        Some("ADDED" | "MODIFIED") => tell(news, News::Is(Object::read(object)?)),
        Some("DELETED") => tell(news, News::Gone),
        Some("BOOKMARK") => {}
        Some("ERROR") => return Err(Error::Ended(object["message"].as_str().unwrap_or_default().to_owned())),
        other => return Err(Error::Event(format!("type {other:?}"))),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_into_paths_as_they_are() {
        let place = Place::new("fleet-default", "m-plan").unwrap();
        assert_eq!(place.path(), "/api/v1/namespaces/fleet-default/secrets/m-plan");
        for (namespace, name) in [("", "a"), ("a", ""), ("a/b", "c"), ("a", "b?c"), ("a", ".."), ("a", "b c")]
        {
            assert!(Place::new(namespace, name).is_none(), "{namespace:?} {name:?}");
        }
    }

    #[test]
    fn events_one_by_one() {
        let object = r#"{"metadata":{"uid":"u","resourceVersion":"1"}}"#;
        let (news, heard) = watch::channel(News::Nothing);
        let hear =
            |kind: &str| event(format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n").as_bytes(), &news);
        hear("ADDED").unwrap();
        assert!(matches!(&*heard.borrow(), News::Is(object) if object.uid() == "u"));
        hear("BOOKMARK").unwrap();
        event(b"\n", &news).unwrap();
        assert!(matches!(&*heard.borrow(), News::Is(_)));
        hear("DELETED").unwrap();
        assert_eq!(*heard.borrow(), News::Gone);
        assert!(hear("ERROR").is_err() && hear("OTHER").is_err() && event(b"x", &news).is_err());
    }
}
