//! Where everything is kept if nobody says where.

use std::path::{Path, PathBuf};

/// The variable that says where.
pub(crate) const VARIABLE: &str = "HERDSMAN_DATA_DIR";
/// The administrator's kubeconfig in a data directory.
pub(crate) const ADMIN: &str = "admin.kubeconfig";

/// The directory of this user: the system's for root, else one in the user's home.
pub(crate) fn default() -> PathBuf {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    choose(rustix::process::geteuid().is_root(), variable)
}

fn choose(root: bool, variable: impl Fn(&str) -> Option<String>) -> PathBuf {
    if let Some(said) = variable(VARIABLE) {
        return said.into();
    }
    if root {
        return "/var/lib/herdsman".into();
    }
    let home = || variable("HOME").map_or_else(|| PathBuf::from("."), PathBuf::from);
    variable("XDG_DATA_HOME").map_or_else(|| home().join(".local/share"), PathBuf::from).join("herdsman")
}

/// The same directory by a path that leads there from everywhere: it is told to users.
pub(crate) fn absolute(directory: PathBuf) -> PathBuf {
    std::path::absolute(&directory).unwrap_or(directory)
}

/// The administrator's kubeconfig in a data directory.
pub(crate) fn admin_kubeconfig(directory: &Path) -> PathBuf {
    directory.join(ADMIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_is_the_systems_and_a_variable_says_otherwise() {
        let home = |name: &str| (name == "HOME").then(|| "/home/u".to_owned());
        assert_eq!(choose(true, home), Path::new("/var/lib/herdsman"));
        assert_eq!(choose(false, home), Path::new("/home/u/.local/share/herdsman"));
        let said = |name: &str| (name == VARIABLE).then(|| "/d".to_owned());
        assert_eq!(choose(true, said), Path::new("/d"));
    }
}
