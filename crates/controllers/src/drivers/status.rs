//! What a NodeDriver says of itself.

use api::catalogue::conditions::{ACTIVE, DOWNLOADED, INACTIVE, INSTALLED};
use api::management::v3::{NodeDriver, NodeDriverStatus};
use provisioning::status::{Finding, set};

use super::context::Error;

/// How far a driver is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Nobody wants it.
    Inactive,
    /// Its program is not there.
    NotInstalled(String),
    /// Its program is there, its kinds are not.
    NotServed(String),
    /// It can be used.
    Active {
        /// Version of the program that has it.
        version: String,
    },
}

impl Stage {
    pub(super) fn of(error: &Error) -> Self {
        match error {
            Error::Source(_) | Error::NoName => Stage::NotInstalled(error.to_string()),
            _ => Stage::NotServed(error.to_string()),
        }
    }
}

/// The status of a driver that is so far.
pub(super) fn of(driver: &NodeDriver, stage: &Stage, now: &str) -> NodeDriverStatus {
    let mut status = driver.status.clone().unwrap_or_default();
    let no = |reason: &str, message: &str| Finding {
        status: "False".into(),
        reason: reason.into(),
        message: message.into(),
    };
    let findings = match stage {
        Stage::Inactive => vec![(ACTIVE, no("Inactive", "")), (INACTIVE, Finding::yes())],
        Stage::NotInstalled(words) => vec![
            (DOWNLOADED, no("Error", words)),
            (INSTALLED, no("Error", words)),
            (ACTIVE, no("NotInstalled", words)),
            (INACTIVE, no("", "")),
        ],
        Stage::NotServed(words) => vec![
            (DOWNLOADED, Finding::yes()),
            (INSTALLED, Finding::yes()),
            (ACTIVE, no("Error", words)),
            (INACTIVE, no("", "")),
        ],
        Stage::Active { version } => {
            status.applied_url = driver.spec.url.clone();
            status.applied_checksum = driver.spec.checksum.clone();
            status.applied_docker_machine_version = version.clone();
            vec![
                (DOWNLOADED, Finding::yes()),
                (INSTALLED, Finding::yes()),
                (ACTIVE, Finding::yes()),
                (INACTIVE, no("", "")),
            ]
        }
    };
    for (type_, finding) in findings {
        set(&mut status.conditions, type_, finding, now);
    }
    status
}

#[cfg(test)]
mod tests {
    use api::GenericCondition;

    use super::*;

    fn says(status: &NodeDriverStatus, type_: &str) -> String {
        GenericCondition::find(&status.conditions, type_).map(|one| one.status.clone()).unwrap_or_default()
    }

    #[test]
    fn a_driver_says_how_far_it_is() {
        let mut driver = NodeDriver::default();
        driver.spec.url = "https://x/driver".into();
        let stage = Stage::NotInstalled("no answer".into());
        driver.status = Some(of(&driver, &stage, "t1"));
        let status = driver.status.clone().unwrap();
        assert_eq!((says(&status, DOWNLOADED), says(&status, ACTIVE)), ("False".into(), "False".into()));
        assert_eq!(of(&driver, &stage, "t2"), status, "nothing new is no change");
        let status = of(&driver, &Stage::Active { version: "v1".into() }, "t3");
        assert_eq!((says(&status, ACTIVE), says(&status, INACTIVE)), ("True".into(), "False".into()));
        assert_eq!(status.applied_url, "https://x/driver");
        driver.status = Some(status);
        let status = of(&driver, &Stage::Inactive, "t4");
        assert_eq!((says(&status, ACTIVE), says(&status, INACTIVE)), ("False".into(), "True".into()));
        assert_eq!(says(&status, INSTALLED), "True", "it is still there");
    }
}
