//! Our own end, where commands and other programs find it: the settings `server-url` and `cacerts`, as Rancher has them. What is
//! written is their default; a value that somebody sets stays.

use std::sync::Arc;

use api::catalogue::settings;
use kit::{Key, Turn};
use serde_json::json;

use super::context::Context;
use super::known::{Known, kinds};
use crate::ServerInfo;

/// Writes what differs. Nobody depends on it: what fails is told, and tried again with the next change.
pub(crate) async fn publish(context: &Arc<Context>) {
    let ServerInfo { url, ca_certificates } = context.server.borrow().clone();
    for (name, text) in [(settings::SERVER_URL, url), (settings::CA_CERTS, ca_certificates)] {
        let (cache, turn) = (&context.server_settings, Turn::default());
        let written = match cache.get(&Key::new("", name)) {
            _ if text.is_empty() => Ok(()),
            Some(found) if found.document()["default"] == text.as_str() => Ok(()),
            Some(found) => context.writer.patch(&turn, cache, &found.key(), json!({"default": text})).await,
            None => {
                let setting = json!({"metadata": {"name": name}, "value": "", "default": text});
                context.writer.create(&turn, cache, setting).await.map(drop)
            }
        };
        if let Err(error) = written {
            tracing::debug!(%error, name, "a setting was not written");
        }
    }
}

/// Our own end, as the settings have it. Unknown parts are empty.
pub fn server_info(known: &dyn Known) -> ServerInfo {
    let text = |name: &str| {
        let found = known.get(&kinds::settings(), &Key::new("", name));
        let document = found.map(|object| object.document().clone()).unwrap_or_default();
        document["default"].as_str().unwrap_or_default().to_owned()
    };
    ServerInfo { url: text(settings::SERVER_URL), ca_certificates: text(settings::CA_CERTS) }
}
