//! A pool of machines in one word: NAME:NUMBER:ROLES.

use std::str::FromStr;

use serde_json::{Value, json};

use super::kinds::nearest;

/// The words for roles, and the fields that they set.
const ROLES: [(&str, &[&str]); 6] = [
    ("etcd", &["etcdRole"]),
    ("control-plane", &["controlPlaneRole"]),
    ("controlplane", &["controlPlaneRole"]),
    ("worker", &["workerRole"]),
    ("server", &["etcdRole", "controlPlaneRole"]),
    ("all", &["etcdRole", "controlPlaneRole", "workerRole"]),
];

/// A pool to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pool {
    pub(crate) name: String,
    number: u32,
    fields: Vec<&'static str>,
}

impl FromStr for Pool {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.splitn(3, ':');
        let (Some(name), Some(number), Some(roles)) = (parts.next(), parts.next(), parts.next()) else {
            return Err("a pool is NAME:NUMBER:ROLES, such as servers:3:etcd,control-plane".into());
        };
        if name.is_empty() {
            return Err("a pool has a name: NAME:NUMBER:ROLES".into());
        }
        let number = number.parse().map_err(|_| format!("NUMBER of NAME:NUMBER:ROLES is not {number:?}"))?;
        let mut fields = Vec::new();
        for role in roles.split(',') {
            fields.extend(of_role(role)?);
        }
        Ok(Pool { name: name.into(), number, fields })
    }
}

fn of_role(role: &str) -> Result<&'static [&'static str], String> {
    if let Some((_, fields)) = ROLES.iter().find(|(word, _)| *word == role) {
        return Ok(fields);
    }
    let known = ROLES.map(|(word, _)| word);
    let near = nearest(role, known.into_iter());
    let hint = near.map(|near| format!("; did you mean {near:?}?")).unwrap_or_default();
    Err(format!("there is no role {role:?}{hint} (roles: etcd, control-plane, worker, server, all)"))
}

impl Pool {
    /// As it stands in a Cluster.
    pub(crate) fn document(&self, kind: &str, config: &str) -> Value {
        let mut pool = json!({
            "name": self.name, "quantity": self.number,
            "machineConfigRef": {"kind": kind, "name": config},
        });
        for field in &self.fields {
            pool[*field] = true.into();
        }
        pool
    }
}
