//! What the config of a distribution's process says, read as the real one reads it: `config.yaml`, then the files of
//! `config.yaml.d` in order; a later value replaces an earlier one, a key that ends with `+` adds to it.

use serde_json::{Map, Value};

use super::Runtime;
use crate::machine::Machine;

/// What the config says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Config(Map<String, Value>);

impl Config {
    /// Reads the files of a machine.
    ///
    /// # Errors
    /// The file that cannot be read, and why.
    pub(crate) fn read(machine: &Machine, runtime: Runtime) -> Result<Self, String> {
        let base = format!("/etc/rancher/{runtime}/config.yaml");
        let directory = format!("{base}.d");
        let entries = std::fs::read_dir(machine.root.locate(&directory)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.retain(|name| name.ends_with(".yaml") || name.ends_with(".yml"));
        names.sort();
        let mut config = Config::default();
        for path in std::iter::once(base).chain(names.iter().map(|name| format!("{directory}/{name}"))) {
            if let Some(text) = machine.read(&path) {
                config.merge(&text).map_err(|error| format!("failed to read {path}: {error}"))?;
            }
        }
        Ok(config)
    }

    fn merge(&mut self, text: &str) -> Result<(), String> {
        if text.trim().is_empty() {
            return Ok(());
        }
        let read: Map<String, Value> = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
        for (key, value) in read {
            match key.strip_suffix('+') {
                None => self.0.insert(key, value),
                Some(key) => {
                    let mut list = list(self.0.get(key));
                    list.extend(self::list(Some(&value)));
                    self.0.insert(key.to_owned(), list.into())
                }
            };
        }
        Ok(())
    }

    /// One value as text; empty if it is not there.
    pub(crate) fn text(&self, key: &str) -> &str {
        self.0.get(key).and_then(Value::as_str).unwrap_or_default()
    }

    /// Whether something is switched on.
    pub(crate) fn is(&self, key: &str) -> bool {
        match self.0.get(key) {
            Some(Value::Bool(set)) => *set,
            Some(Value::String(text)) => text == "true",
            _ => false,
        }
    }

    /// All values of a key; commas separate values as well.
    pub(crate) fn values(&self, key: &str) -> Vec<String> {
        let all = list(self.0.get(key));
        all.iter()
            .flat_map(|value| value.split(','))
            .map(str::trim)
            .filter(|value| !value.is_empty())
            .map(str::to_owned)
            .collect()
    }

    /// An argument of a component, such as `provider-id` in `kubelet-arg`; the last one counts.
    pub(crate) fn argument(&self, component: &str, name: &str) -> Option<String> {
        let all = list(self.0.get(component));
        let mut pairs = all.iter().filter_map(|text| text.trim_start_matches("--").split_once('='));
        pairs.rfind(|(found, _)| *found == name).map(|(_, value)| value.to_owned())
    }

    /// Where the process keeps its data.
    pub(crate) fn data_dir(&self, runtime: Runtime) -> String {
        match self.text("data-dir") {
            "" => format!("/var/lib/rancher/{runtime}"),
            directory => directory.to_owned(),
        }
    }
}

fn list(value: Option<&Value>) -> Vec<String> {
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    };
    match value {
        Some(Value::Array(list)) => list.iter().filter_map(text).collect(),
        Some(value) => text(value).into_iter().collect(),
        None => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_files_replace_and_add() {
        let mut config = Config::default();
        config.merge("token: a\nnode-label: [x=1]\ncluster-init: true\n").unwrap();
        config
            .merge("{\"token\": \"b\", \"node-label+\": [\"y=2\"], \"kubelet-arg\": [\"provider-id=p\"]}")
            .unwrap();
        config.merge("").unwrap();
        assert_eq!(config.text("token"), "b");
        assert!(config.is("cluster-init"));
        assert_eq!(config.values("node-label"), ["x=1", "y=2"]);
        assert_eq!(config.argument("kubelet-arg", "provider-id").as_deref(), Some("p"));
        assert!(config.merge("- 1").is_err());
    }
}
