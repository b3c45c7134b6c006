//! Label selectors of our kinds.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::SelectorExt as _;

/// A selector that has been read.
#[derive(Clone, Debug)]
pub(crate) struct Selector(kube::core::Selector);

impl Selector {
    /// Reads a selector.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn read(selector: &LabelSelector) -> Result<Self, String> {
        let read = selector.clone().try_into();
        read.map(Selector).map_err(|error: kube::core::ParseExpressionError| error.to_string())
    }

    /// Whether it takes an object with these labels.
    pub(crate) fn takes(&self, labels: Option<&BTreeMap<String, String>>) -> bool {
        match labels {
            Some(labels) => self.0.matches(labels),
            None => self.0.matches(&BTreeMap::new()),
        }
    }

    /// Whether it takes everything.
    pub(crate) fn takes_all(&self) -> bool {
        self.0.selects_all()
    }

    /// As the scale subresource has it.
    pub(crate) fn text(&self) -> String {
        self.0.to_string()
    }
}
