//! Acting as somebody else: the `Impersonate-*` headers, the rights they need, and the user they make.

use std::collections::BTreeMap;

use super::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User};
use super::{service_account_groups, split_service_account_user};
use crate::rbac::{Attributes, ResourceTarget, Target};

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA_PREFIX: &str = "impersonate-extra-";

/// Whom a request asks to be taken for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Impersonation {
    user: String,
    groups: Vec<String>,
    uid: String,
    extra: BTreeMap<String, Vec<String>>,
}

/// Groups, a UID or extras were given without a user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("requested [{0}] without impersonating a user")]
pub struct NoUser(String);

impl Impersonation {
    /// What a request's headers ask for, if anything. Names of headers may be in any case.
    pub fn from_headers<'a>(
        headers: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Option<Impersonation>, NoUser> {
        let mut asked = Impersonation::default();
        let (mut users, mut uids) = (Vec::new(), Vec::new());
        for (name, value) in headers {
            let name = name.to_ascii_lowercase();
            match name.as_str() {
                USER => users.push(value),
                UID => uids.push(value),
                GROUP => asked.groups.push(value.into()),
                other => {
                    let Some(key) = other.strip_prefix(EXTRA_PREFIX) else { continue };
                    asked.extra.entry(unescape(key)).or_default().push(value.into());
                }
            }
        }
        // Of a header that may be there once, the first counts.
        asked.user = users.first().copied().unwrap_or_default().into();
        asked.uid = uids.first().copied().unwrap_or_default().into();
        match (asked.user.is_empty(), asked == Impersonation::default()) {
            (_, true) => Ok(None),
            (true, false) => Err(NoUser(asked.references())),
            (false, false) => Ok(Some(asked)),
        }
    }

    /// Whether this header is one of impersonation, and so not for those behind it.
    pub fn is_header(name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        [USER, GROUP, UID].contains(&name.as_str()) || name.starts_with(EXTRA_PREFIX)
    }

    /// What the real user has to be allowed, each of it.
    pub fn checks<'a>(&'a self, real: &'a User) -> Vec<Attributes<'a>> {
        let core = |resource, namespace, name| ResourceTarget {
            resource,
            namespace,
            name,
            ..ResourceTarget::default()
        };
        let authentication = |resource, subresource, name| ResourceTarget {
            group: "authentication.k8s.io",
            resource,
            subresource,
            name,
            ..ResourceTarget::default()
        };
        let mut targets = vec![match split_service_account_user(&self.user) {
            Some((namespace, name)) => core("serviceaccounts", namespace, name),
            None => core("users", "", &self.user),
        }];
        targets.extend(self.groups.iter().map(|group| core("groups", "", group)));
        for (key, values) in &self.extra {
            targets.extend(values.iter().map(|value| authentication("userextras", key, value)));
        }
        if !self.uid.is_empty() {
            targets.push(authentication("uids", "", &self.uid));
        }
        let attributes =
            |target| Attributes { user: real, verb: "impersonate", target: Target::Resource(target) };
        targets.into_iter().map(attributes).collect()
    }

    /// The user that the request is then made by. Groups that are given are all there are; a service account's
    /// come by themselves otherwise.
    pub fn user(&self) -> User {
        let mut groups = match (self.groups.is_empty(), split_service_account_user(&self.user)) {
            (true, Some((namespace, _))) => service_account_groups(namespace),
            _ => self.groups.clone(),
        };
        let has = |group: &str| groups.iter().any(|found| found == group);
        let added = match self.user == ANONYMOUS {
            true => (!has(UNAUTHENTICATED)).then_some(UNAUTHENTICATED),
            false => (!has(AUTHENTICATED) && !has(UNAUTHENTICATED)).then_some(AUTHENTICATED),
        };
        groups.extend(added.map(str::to_owned));
        User { name: self.user.clone(), uid: self.uid.clone(), groups, extra: self.extra.clone() }
    }

    /// What was asked for, as upstream's message has it: object references as Go prints them.
    fn references(&self) -> String {
        let reference = |kind: &str, name: &str, api_version: &str, path: &str| {
            format!("{{{}}}", [kind, "", name, "", api_version, "", path].join(" "))
        };
        let authentication = "authentication.k8s.io/v1";
        let mut all: Vec<String> =
            self.groups.iter().map(|group| reference("Group", group, "", "")).collect();
        for (key, values) in &self.extra {
            all.extend(values.iter().map(|value| reference("UserExtra", value, authentication, key)));
        }
        if !self.uid.is_empty() {
            all.push(reference("UID", &self.uid, authentication, ""));
        }
        all.join(" ")
    }
}

/// A key with its %-escapes resolved; one that is malformed is taken as it stands.
fn unescape(key: &str) -> String {
    let mut bytes = Vec::with_capacity(key.len());
    let mut rest = key.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = tail.split_at_checked(2).filter(|(digits, _)| digits.iter().all(u8::is_ascii_hexdigit));
        let byte = digits.and_then(|(digits, after)| {
            let digits = std::str::from_utf8(digits).ok()?;
            Some((u8::from_str_radix(digits, 16).ok()?, after))
        });
        let Some((byte, after)) = byte else { return key.to_owned() };
        bytes.push(byte);
        rest = after;
    }
    String::from_utf8(bytes).unwrap_or_else(|_| key.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(headers: &[(&'static str, &'static str)]) -> Result<Option<Impersonation>, NoUser> {
        Impersonation::from_headers(headers.iter().copied())
    }

    /// Group, resource, subresource, namespace and name of each check, joined by `|`.
    fn checks(asked: &Impersonation) -> Vec<String> {
        let real = User::default();
        let shown = |attributes: Attributes<'_>| match attributes.target {
            Target::Resource(target) => {
                assert_eq!(attributes.verb, "impersonate");
                [target.group, target.resource, target.subresource, target.namespace, target.name].join("|")
            }
            Target::Path(path) => path.into(),
        };
        asked.checks(&real).into_iter().map(shown).collect()
    }

    #[test]
    fn each_header_needs_a_right() {
        let all = asked(&[
            ("Impersonate-Extra-Example.com%2fScopes", "view"),
            ("impersonate-group", "g2"),
            ("Impersonate-Group", "g1"),
            ("Impersonate-User", "ann"),
            ("Impersonate-User", "ignored"),
            ("Impersonate-Uid", "7"),
            ("Impersonate-Extra-Example.com%2fscopes", "edit"),
            ("Accept", "*/*"),
        ]);
        let all = all.unwrap().unwrap();
        let authentication = "authentication.k8s.io";
        assert_eq!(
            checks(&all),
            [
                "|users|||ann".to_owned(),
                "|groups|||g2".to_owned(),
                "|groups|||g1".to_owned(),
                format!("{authentication}|userextras|example.com/scopes||view"),
                format!("{authentication}|userextras|example.com/scopes||edit"),
                format!("{authentication}|uids|||7"),
            ]
        );
        let user = all.user();
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("ann", "7"));
        assert_eq!(user.extra["example.com/scopes"], ["view", "edit"]);
        let account = asked(&[("Impersonate-User", "system:serviceaccount:n:a")]).unwrap().unwrap();
        assert_eq!(checks(&account), ["|serviceaccounts||n|a"]);
    }

    #[test]
    fn groups_follow_from_the_user_unless_they_are_given() {
        let account = "system:serviceaccount:n:a";
        let cases: [(&'static str, &[&'static str], &[&str]); 8] = [
            ("ann", &[], &["system:authenticated"]),
            ("ann", &["g"], &["g", "system:authenticated"]),
            ("ann", &["system:authenticated", "g"], &["system:authenticated", "g"]),
            ("ann", &["system:unauthenticated"], &["system:unauthenticated"]),
            (account, &[], &["system:serviceaccounts", "system:serviceaccounts:n", "system:authenticated"]),
            (account, &["g"], &["g", "system:authenticated"]),
            ("system:anonymous", &[], &["system:unauthenticated"]),
            (
                "system:anonymous",
                &["system:authenticated"],
                &["system:authenticated", "system:unauthenticated"],
            ),
        ];
        for (user, groups, expected) in cases {
            let mut headers = vec![("Impersonate-User", user)];
            headers.extend(groups.iter().map(|group| ("Impersonate-Group", *group)));
            assert_eq!(asked(&headers).unwrap().unwrap().user().groups, expected, "{user} {groups:?}");
        }
    }

    #[test]
    fn nothing_is_done_without_a_user() {
        assert_eq!(asked(&[("Accept", "*/*")]), Ok(None));
        assert_eq!(asked(&[("Impersonate-User", "")]), Ok(None));
        let cases = [
            (("Impersonate-Group", "g"), "requested [{Group  g    }] without impersonating a user"),
            (
                ("Impersonate-Uid", "7"),
                "requested [{UID  7  authentication.k8s.io/v1  }] without impersonating a user",
            ),
            (
                ("Impersonate-Extra-Key%zz", "v"),
                "requested [{UserExtra  v  authentication.k8s.io/v1  key%zz}] without impersonating a user",
            ),
        ];
        for (header, message) in cases {
            assert_eq!(asked(&[header]).unwrap_err().to_string(), message);
            assert!(Impersonation::is_header(header.0));
        }
        assert!(!Impersonation::is_header("authorization"));
    }
}
