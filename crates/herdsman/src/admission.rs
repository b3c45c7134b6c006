//! Admission of Cluster API's kinds inside the process, where no webhook has to run.

use std::sync::Arc;

use api::conversion;
use apiserver::server::{Admission, Attributes, Operation, Verdict};
use capi::admission;
use kubeapi::{GroupKind, Status};
use serde_json::Value;

use crate::converter::OurKinds;

/// The version that rules are written for.
const HUB: &str = "cluster.x-k8s.io/v1beta2";

/// Fills in and judges the kinds of Cluster API, in whatever version they are written.
pub(crate) struct ClusterApi {
    kinds: Arc<OurKinds>,
}

impl ClusterApi {
    /// With a way to convert between versions.
    pub(crate) fn new(kinds: Arc<OurKinds>) -> Self {
        ClusterApi { kinds }
    }

    fn concerns(about: &Attributes<'_>) -> bool {
        about.kind.group == admission::GROUP
            && admission::KINDS.contains(&about.kind.kind.as_str())
            && about.subresource.is_empty()
            && about.operation != Operation::Delete
    }

    fn up(&self, object: &Value) -> Result<Value, Status> {
        conversion::convert(object.clone(), HUB, &*self.kinds)
            .map_err(|error| Status::bad_request(error.to_string()))
    }

    fn fill_in(&self, about: &Attributes<'_>, object: &mut Value) -> Result<(), Status> {
        let old = about.old.map(|old| self.up(old)).transpose()?;
        let before = self.up(object)?;
        let mut after = before.clone();
        admission::fill_in(&about.kind.kind, &mut after, old.as_ref());
        if after != before {
            let version = object["apiVersion"].as_str().unwrap_or(HUB).to_owned();
            *object = conversion::convert(after, &version, &*self.kinds)
                .map_err(|error| Status::bad_request(error.to_string()))?;
        }
        Ok(())
    }

    fn judge(&self, about: &Attributes<'_>, object: &Value) -> Result<(), Status> {
        let old = about.old.map(|old| self.up(old)).transpose()?;
        let problems = admission::problems(&about.kind.kind, &self.up(object)?, old.as_ref());
        if problems.is_empty() {
            return Ok(());
        }
        let kind = GroupKind { group: about.kind.group.clone(), kind: about.kind.kind.clone() };
        let name = object["metadata"]["name"].as_str().unwrap_or(about.name);
        Err(Status::invalid(&kind, name, &problems))
    }
}

impl Admission for ClusterApi {
    fn mutate<'a>(&'a self, about: Attributes<'a>, object: &'a mut Value) -> Verdict<'a> {
        let verdict = match Self::concerns(&about) {
            true => self.fill_in(&about, object),
            false => Ok(()),
        };
        Box::pin(std::future::ready(verdict.map(|()| Vec::new())))
    }

    fn validate<'a>(&'a self, about: Attributes<'a>, object: Option<&'a Value>) -> Verdict<'a> {
        let verdict = match object.filter(|_| Self::concerns(&about)) {
            Some(object) => self.judge(&about, object),
            None => Ok(()),
        };
        Box::pin(std::future::ready(verdict.map(|()| Vec::new())))
    }
}
