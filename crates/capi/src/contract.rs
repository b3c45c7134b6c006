//! What the core reads of providers' objects. The same question is answered at different places of an object in the
//! two contracts; which one a kind keeps is said by labels on its CRD, never by its API version.

use api::capi::v1beta2::{APIEndpoint, FailureDomain, MachineAddress, StatusVersion};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// How a provider's kind talks to the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Contract {
    /// Up to Cluster API 1.10, and still most providers.
    V1Beta1,
    /// Since Cluster API 1.11.
    V1Beta2,
}

impl Contract {
    /// The contract of this name, as CRD labels have it.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "v1beta1" => Some(Contract::V1Beta1),
            "v1beta2" => Some(Contract::V1Beta2),
            _ => None,
        }
    }
}

/// A provider's object says something of another type than the contract has it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {name}: {path} is not what the contract says: {problem}")]
pub struct Breach {
    /// Kind of the object.
    pub kind: String,
    /// Name of the object.
    pub name: String,
    /// Path of the field.
    pub path: String,
    /// What is wrong with it.
    pub problem: String,
}

/// A provider's object and the contract it keeps.
#[derive(Clone, Copy, Debug)]
pub struct External<'a> {
    /// How it is to be read.
    pub contract: Contract,
    /// The object.
    pub object: &'a Value,
}

/// Machines of a control plane, as its provider counts them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Replicas {
    /// How many there should be.
    pub desired: Option<i32>,
    /// How many there are.
    pub current: Option<i32>,
    /// How many are ready.
    pub ready: Option<i32>,
    /// How many are available.
    pub available: Option<i32>,
    /// How many are as the spec says.
    pub up_to_date: Option<i32>,
    /// Kubernetes versions that they run.
    pub versions: Vec<StatusVersion>,
}

impl<'a> External<'a> {
    /// Infrastructure (of a cluster or a machine): whether it is there.
    ///
    /// # Errors
    /// If the field is no boolean.
    pub fn provisioned(self) -> Result<bool, Breach> {
        self.flag("status.ready", "status.initialization.provisioned")
    }

    /// Bootstrap config: whether its Secret is there.
    ///
    /// # Errors
    /// If the field is no boolean.
    pub fn data_secret_created(self) -> Result<bool, Breach> {
        self.flag("status.ready", "status.initialization.dataSecretCreated")
    }

    /// Control plane: whether it has answered once.
    ///
    /// # Errors
    /// If the field is no boolean.
    pub fn initialized(self) -> Result<bool, Breach> {
        self.flag("status.initialized", "status.initialization.controlPlaneInitialized")
    }

    /// Where [`External::provisioned`] looks, for messages.
    pub fn provisioned_path(self) -> &'static str {
        match self.contract {
            Contract::V1Beta1 => "status.ready",
            Contract::V1Beta2 => "status.initialization.provisioned",
        }
    }

    /// Where [`External::data_secret_created`] looks, for messages.
    pub fn data_secret_created_path(self) -> &'static str {
        match self.contract {
            Contract::V1Beta1 => "status.ready",
            Contract::V1Beta2 => "status.initialization.dataSecretCreated",
        }
    }

    /// Bootstrap config: name of its Secret; empty while there is none.
    ///
    /// # Errors
    /// If the field is no text.
    pub fn data_secret_name(self) -> Result<String, Breach> {
        self.read("status.dataSecretName").map(Option::unwrap_or_default)
    }

    /// Infrastructure machine: the server's name; empty while there is none.
    ///
    /// # Errors
    /// If the field is no text.
    pub fn provider_id(self) -> Result<String, Breach> {
        self.read("spec.providerID").map(Option::unwrap_or_default)
    }

    /// Where the cluster's API is reached, if the object knows.
    ///
    /// # Errors
    /// If the field has another shape.
    pub fn endpoint(self) -> Result<Option<APIEndpoint>, Breach> {
        Ok(self.read::<APIEndpoint>("spec.controlPlaneEndpoint")?.filter(APIEndpoint::is_valid))
    }

    /// Infrastructure machine: its addresses.
    ///
    /// # Errors
    /// If the field has another shape.
    pub fn addresses(self) -> Result<Vec<MachineAddress>, Breach> {
        self.read("status.addresses").map(Option::unwrap_or_default)
    }

    /// Infrastructure machine: where it was asked to be, by providers of contract v1beta1.
    ///
    /// # Errors
    /// If the field is no text.
    pub fn requested_failure_domain(self) -> Result<Option<String>, Breach> {
        match self.contract {
            Contract::V1Beta1 => self.text("spec.failureDomain"),
            Contract::V1Beta2 => Ok(None),
        }
    }

    /// Infrastructure machine: where it is.
    ///
    /// # Errors
    /// If the field is no text.
    pub fn failure_domain(self) -> Result<Option<String>, Breach> {
        self.text("status.failureDomain")
    }

    /// Infrastructure machine: whether the server may be taken away at any time.
    ///
    /// # Errors
    /// If the field is no boolean.
    pub fn interruptible(self) -> Result<bool, Breach> {
        self.flag("status.interruptible", "status.interruptible")
    }

    /// Infrastructure cluster: its failure domains, by name.
    ///
    /// # Errors
    /// If the field has another shape.
    pub fn failure_domains(self) -> Result<Vec<FailureDomain>, Breach> {
        let path = "status.failureDomains";
        let Some(value) = self.at(path) else { return Ok(Vec::new()) };
        let mut domains: Vec<FailureDomain> = match self.contract {
            Contract::V1Beta2 => self.parse(path, value)?,
            Contract::V1Beta1 => {
                let map: std::collections::BTreeMap<String, FailureDomain> = self.parse(path, value)?;
                map.into_iter().map(|(name, domain)| FailureDomain { name, ..domain }).collect()
            }
        };
        domains.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(domains)
    }

    /// Control plane: its machines, counted.
    ///
    /// # Errors
    /// If a counter is no number.
    pub fn replicas(self) -> Result<Replicas, Breach> {
        let desired: Option<i32> = self.read("spec.replicas")?;
        let (available, up_to_date) = match self.contract {
            Contract::V1Beta2 => {
                (self.read("status.availableReplicas")?, self.read("status.upToDateReplicas")?)
            }
            Contract::V1Beta1 => {
                let missing: Option<i32> = self.read("status.unavailableReplicas")?;
                let available = desired.zip(missing).map(|(desired, missing)| (desired - missing).max(0));
                (available, self.read("status.updatedReplicas")?)
            }
        };
        Ok(Replicas {
            desired,
            current: self.read("status.replicas")?,
            ready: self.read("status.readyReplicas")?,
            available,
            up_to_date,
            versions: self.versions()?,
        })
    }

    /// Control plane: the Kubernetes version asked for.
    ///
    /// # Errors
    /// If the field is no text.
    pub fn version(self) -> Result<Option<String>, Breach> {
        self.text("spec.version")
    }

    /// Control plane: the Kubernetes versions in use; empty before the first one runs.
    ///
    /// # Errors
    /// If a field has another shape.
    pub fn versions(self) -> Result<Vec<StatusVersion>, Breach> {
        let listed: Option<Vec<StatusVersion>> = self.read("status.versions")?;
        if let Some(listed) = listed.filter(|listed| !listed.is_empty()) {
            return Ok(listed);
        }
        let one = self.text("status.version")?;
        Ok(one.into_iter().map(|version| StatusVersion { version, replicas: None }).collect())
    }

    /// Control plane: whether somebody else runs it, on no Machines.
    ///
    /// # Errors
    /// If the field is no boolean.
    pub fn externally_managed(self) -> Result<bool, Breach> {
        self.flag("status.externalManagedControlPlane", "status.externalManagedControlPlane")
    }

    /// A failure that the provider reports, for old readers: reason and message.
    pub fn failure(self) -> (Option<String>, Option<String>) {
        let text = |path| self.text(path).ok().flatten();
        (text("status.failureReason"), text("status.failureMessage"))
    }

    /// Whether it is being deleted.
    pub fn deleting(self) -> bool {
        self.object.pointer("/metadata/deletionTimestamp").is_some_and(|time| !time.is_null())
    }

    /// Its kind.
    pub fn kind(self) -> &'a str {
        self.object["kind"].as_str().unwrap_or_default()
    }

    fn flag(self, v1beta1: &str, v1beta2: &str) -> Result<bool, Breach> {
        let path = match self.contract {
            Contract::V1Beta1 => v1beta1,
            Contract::V1Beta2 => v1beta2,
        };
        self.read(path).map(Option::unwrap_or_default)
    }

    fn text(self, path: &str) -> Result<Option<String>, Breach> {
        Ok(self.read::<String>(path)?.filter(|text| !text.is_empty()))
    }

    fn read<T: DeserializeOwned>(self, path: &str) -> Result<Option<T>, Breach> {
        self.at(path).map(|value| self.parse(path, value)).transpose()
    }

    fn at(self, path: &str) -> Option<&'a Value> {
        path.split('.')
            .try_fold(self.object, |value, field| value.get(field))
            .filter(|value| !value.is_null())
    }

    fn parse<T: DeserializeOwned>(self, path: &str, value: &Value) -> Result<T, Breach> {
        T::deserialize(value).map_err(|problem| Breach {
            kind: self.kind().into(),
            name: self.object["metadata"]["name"].as_str().unwrap_or_default().into(),
            path: path.into(),
            problem: problem.to_string(),
        })
    }
}

#[cfg(test)]
mod tests {
    use Contract::{V1Beta1, V1Beta2};
    use serde_json::json;

    use super::*;

    fn read(contract: Contract, object: &Value) -> External<'_> {
        External { contract, object }
    }

    #[test]
    fn each_contract_has_its_own_places() {
        let old = json!({"status": {"ready": true, "initialized": true}});
        let new = json!({"status": {"initialization": {
            "provisioned": true, "dataSecretCreated": true, "controlPlaneInitialized": true
        }}});
        for (contract, object, expected) in
            [(V1Beta1, &old, true), (V1Beta1, &new, false), (V1Beta2, &new, true), (V1Beta2, &old, false)]
        {
            let object = read(contract, object);
            assert_eq!(object.provisioned(), Ok(expected));
            assert_eq!(object.data_secret_created(), Ok(expected));
            assert_eq!(object.initialized(), Ok(expected));
        }
    }

    #[test]
    fn failure_domains_are_a_map_or_a_list() {
        let old = json!({"status": {"failureDomains": {"b": {"controlPlane": true}, "a": {"attributes": {"x": "y"}}}}});
        let new = json!({"status": {"failureDomains": [{"name": "b", "controlPlane": true}, {"name": "a", "attributes": {"x": "y"}}]}});
        let found = read(V1Beta1, &old).failure_domains().unwrap();
        assert_eq!(found, read(V1Beta2, &new).failure_domains().unwrap());
        assert_eq!(found.iter().map(|domain| domain.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert!(read(V1Beta1, &new).failure_domains().is_err());
        assert_eq!(read(V1Beta2, &json!({})).failure_domains(), Ok(Vec::new()));
    }

    #[test]
    fn replicas_are_counted_in_two_ways() {
        let old = json!({"spec": {"replicas": 3}, "status": {
            "replicas": 4, "readyReplicas": 2, "updatedReplicas": 1, "unavailableReplicas": 5, "version": "v1.34.1"
        }});
        let new = json!({"spec": {"replicas": 3}, "status": {
            "replicas": 4, "readyReplicas": 2, "upToDateReplicas": 1, "availableReplicas": 0,
            "versions": [{"version": "v1.34.1"}]
        }});
        let found = read(V1Beta1, &old).replicas().unwrap();
        assert_eq!(found.available, Some(0), "never below zero");
        assert_eq!(found, read(V1Beta2, &new).replicas().unwrap());
        assert_eq!(read(V1Beta2, &json!({})).replicas(), Ok(Replicas::default()));
    }

    #[test]
    fn half_an_endpoint_is_none() {
        let object = |endpoint: Value| json!({"spec": {"controlPlaneEndpoint": endpoint}});
        assert_eq!(read(V1Beta2, &object(json!({"host": "", "port": 0}))).endpoint(), Ok(None));
        assert_eq!(read(V1Beta2, &object(json!({"host": "h"}))).endpoint(), Ok(None));
        let whole = read(V1Beta2, &object(json!({"host": "h", "port": 6443}))).endpoint().unwrap();
        assert_eq!(whole.unwrap().to_string(), "h:6443");
    }

    #[test]
    fn only_old_providers_ask_for_a_failure_domain() {
        let object = json!({"spec": {"failureDomain": "a"}, "status": {"failureDomain": "b"}});
        assert_eq!(read(V1Beta1, &object).requested_failure_domain(), Ok(Some("a".into())));
        assert_eq!(read(V1Beta2, &object).requested_failure_domain(), Ok(None));
        assert_eq!(read(V1Beta2, &object).failure_domain(), Ok(Some("b".into())));
    }

    #[test]
    fn a_breach_names_the_field() {
        let object = json!({"kind": "FooMachine", "metadata": {"name": "m"}, "status": {"ready": "yes"}});
        let breach = read(V1Beta1, &object).provisioned().unwrap_err();
        assert!(breach.to_string().starts_with("FooMachine m: status.ready is not"), "{breach}");
    }
}
