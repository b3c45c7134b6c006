//! What administrators set: `management.cattle.io` Settings.

use std::sync::Arc;

use api::management::v3::Setting;
use kit::{Cache, Key};

use crate::objects::Objects;

/// The Settings of the server, as they are now.
#[derive(Clone, Debug)]
pub(crate) struct Settings(Arc<Cache>);

impl Settings {
    pub(crate) fn new(objects: &Objects) -> Self {
        Settings(objects.of::<Setting>())
    }

    pub(crate) fn cache(&self) -> &Arc<Cache> {
        &self.0
    }

    /// The value in force; empty if there is none.
    pub(crate) fn text(&self, name: &str) -> String {
        let found = self.0.get(&Key::new("", name));
        let found = found.and_then(|object| object.view::<Setting>().ok());
        found.map(|setting| setting.effective().trim().to_owned()).unwrap_or_default()
    }

    /// The value in force as a number, a duration or whatever else can be read; what cannot be read counts as not set.
    pub(crate) fn parsed<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        self.text(name).parse().ok()
    }
}
