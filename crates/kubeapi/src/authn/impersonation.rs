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
