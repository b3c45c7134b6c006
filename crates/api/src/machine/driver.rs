use kube::core::ApiResource;

/// API group of machine configs, which users write.
pub const CONFIG_GROUP: &str = "rke-machine-config.cattle.io";
/// API group of machines and machine templates, which are made from them.
pub const GROUP: &str = "rke-machine.cattle.io";
/// Version of both groups.
pub const VERSION: &str = "v1";

const CONFIG: &str = "Config";
const MACHINE: &str = "Machine";
const TEMPLATE: &str = "MachineTemplate";

/// A node driver, from which its kinds are named: `amazonec2` has `Amazonec2Config`, `Amazonec2MachineTemplate` and
/// `Amazonec2Machine`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Driver {
    /// What the kinds begin with; the first letter is large.
    stem: String,
}

impl Driver {
    /// The driver of that name.
    pub fn named(name: &str) -> Option<Self> {
        let mut letters = name.chars();
        let first = letters.next()?;
        Some(Driver { stem: first.to_ascii_uppercase().to_string() + letters.as_str() })
    }

    /// The driver whose machine configs are of this kind.
    pub fn of_config_kind(kind: &str) -> Option<Self> {
        Driver::named(kind.strip_suffix(CONFIG)?)
    }

    /// The driver whose machines are of this kind. `CustomMachine` is no driver's.
    pub fn of_machine_kind(kind: &str) -> Option<Self> {
        Driver::named(kind.strip_suffix(MACHINE)?).filter(|driver| driver.stem != "Custom")
    }

    /// The driver whose machine templates are of this kind.
    pub fn of_template_kind(kind: &str) -> Option<Self> {
        Driver::named(kind.strip_suffix(TEMPLATE)?)
    }

    /// The driver's own name, as on rancher-machine's command line.
    pub fn name(&self) -> String {
        self.stem.to_lowercase()
    }

    /// Kind of what users write.
    pub fn config_kind(&self) -> String {
        format!("{}{CONFIG}", self.stem)
    }

    /// Kind of what a MachineDeployment clones from.
    pub fn template_kind(&self) -> String {
        format!("{}{TEMPLATE}", self.stem)
    }

    /// Kind of what stands for one server.
    pub fn machine_kind(&self) -> String {
        format!("{}{MACHINE}", self.stem)
    }

    /// Name of the DynamicSchema with the driver's fields.
    pub fn schema_name(&self) -> String {
        self.config_kind().to_lowercase()
    }

    /// Name of the DynamicSchema with the fields of the driver's credential.
    pub fn credential_schema_name(&self) -> String {
        format!("{}credentialconfig", self.name())
    }

    /// Whether the driver can make Windows servers.
    pub fn makes_windows(&self) -> bool {
        self.name() == "vmwarevsphere"
    }

    /// How the API serves the driver's configs.
    pub fn config_resource(&self) -> ApiResource {
        resource(CONFIG_GROUP, self.config_kind())
    }

    /// How the API serves the driver's templates.
    pub fn template_resource(&self) -> ApiResource {
        resource(GROUP, self.template_kind())
    }

    /// How the API serves the driver's machines.
    pub fn machine_resource(&self) -> ApiResource {
        resource(GROUP, self.machine_kind())
    }
}

fn resource(group: &str, kind: String) -> ApiResource {
    ApiResource {
        group: group.into(),
        version: VERSION.into(),
        api_version: format!("{group}/{VERSION}"),
        plural: plural(&kind),
        kind,
    }
}

/// Every kind here ends in a word whose plural takes an s.
pub(super) fn plural(kind: &str) -> String {
    format!("{}s", kind.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_kind_leads_to_the_others() {
        let driver = Driver::of_config_kind("Amazonec2Config").unwrap();
        assert_eq!(driver.name(), "amazonec2");
        assert_eq!(driver.template_kind(), "Amazonec2MachineTemplate");
        assert_eq!(driver.machine_kind(), "Amazonec2Machine");
        assert_eq!(driver.schema_name(), "amazonec2config");
        assert_eq!(driver.credential_schema_name(), "amazonec2credentialconfig");
        assert_eq!(Driver::of_machine_kind("Amazonec2Machine"), Some(driver.clone()));
        assert_eq!(Driver::of_template_kind("Amazonec2MachineTemplate"), Some(driver.clone()));
        assert_eq!(driver.machine_resource().plural, "amazonec2machines");
        assert_eq!(driver.template_resource().api_version, "rke-machine.cattle.io/v1");
        assert_eq!(driver.config_resource().api_version, "rke-machine-config.cattle.io/v1");
    }

    #[test]
    fn other_kinds_are_no_drivers() {
        assert_eq!(Driver::of_machine_kind("CustomMachine"), None);
        assert_eq!(Driver::of_machine_kind("Machine"), None);
        assert_eq!(Driver::of_machine_kind("Amazonec2MachineTemplate"), None);
        assert_eq!(Driver::of_config_kind("Config"), None);
        assert_eq!(Driver::of_config_kind("VSphereMachineTemplate"), None);
        assert_eq!(Driver::named(""), None);
    }
}
