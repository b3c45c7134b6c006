//! Who asks: users, the names of service accounts, and acting as somebody else.

pub mod impersonation;

use std::collections::BTreeMap;

use crate::name;

/// The user of requests without credentials.
pub const ANONYMOUS: &str = "system:anonymous";
/// The group of everybody with credentials.
pub const AUTHENTICATED: &str = "system:authenticated";
/// The group of everybody without.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The group that may do everything, whatever the roles say.
pub const MASTERS: &str = "system:masters";
/// The group of all service accounts.
pub const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";

const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// Who makes a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// Unique among the active users.
    pub name: String,
    /// Unique among all users there ever were, if known.
    pub uid: String,
    /// What the user is a member of, in the order the authenticator gave them.
    pub groups: Vec<String>,
    /// What else the authenticator knows.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// Somebody without credentials.
    pub fn anonymous() -> Self {
        User { name: ANONYMOUS.into(), groups: vec![UNAUTHENTICATED.into()], ..User::default() }
    }

    /// The same user with the group that credentials give.
    #[must_use]
    pub fn authenticated(mut self) -> Self {
        if !self.is_in(AUTHENTICATED) && !self.is_in(UNAUTHENTICATED) {
            self.groups.push(AUTHENTICATED.into());
        }
        self
    }

    /// Whether the user is a member.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|found| found == group)
    }
}

/// What a token of a service account says about who holds it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceAccount {
    /// Of the account.
    pub namespace: String,
    /// Of the account.
    pub name: String,
    /// Of the account.
    pub uid: String,
    /// Name and UID of the Pod that the token is bound to.
    pub pod: Option<(String, String)>,
    /// Name, and UID if known, of the Node that the token is bound to.
    pub node: Option<(String, Option<String>)>,
    /// Of the token.
    pub credential_id: Option<String>,
}

impl ServiceAccount {
    /// The user that the account is, without the group of all authenticated users.
    pub fn user(&self) -> User {
        let mut extra = BTreeMap::new();
        let mut set = |key: &str, value: &str| {
            extra.insert(format!("authentication.kubernetes.io/{key}"), vec![value.to_owned()]);
        };
        if let Some((name, uid)) = &self.pod {
            set("pod-name", name);
            set("pod-uid", uid);
        }
        if let Some((name, uid)) = &self.node {
            set("node-name", name);
            uid.iter().for_each(|uid| set("node-uid", uid));
        }
        self.credential_id.iter().for_each(|id| set("credential-id", id));
        User {
            name: service_account_user(&self.namespace, &self.name),
            uid: self.uid.clone(),
            groups: service_account_groups(&self.namespace),
            extra,
        }
    }
}

/// The user name of a service account.
pub fn service_account_user(namespace: &str, name: &str) -> String {
    format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}")
}

/// The groups of every service account of a namespace.
pub fn service_account_groups(namespace: &str) -> Vec<String> {
    vec![SERVICE_ACCOUNTS.into(), format!("{SERVICE_ACCOUNTS}:{namespace}")]
}

/// Namespace and name of the service account that has this user name, if it is one's.
pub fn split_service_account_user(user: &str) -> Option<(&str, &str)> {
    let (namespace, account) = user.strip_prefix(SERVICE_ACCOUNT_PREFIX)?.split_once(':')?;
    let named = name::dns_label(namespace).is_empty() && name::dns_subdomain(account).is_empty();
    named.then_some((namespace, account))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_service_accounts_come_apart_again() {
        let long = "a".repeat(64);
        let cases = [
            ("system:serviceaccount:n:a".to_owned(), Some(("n", "a"))),
            ("system:serviceaccount:n:a.b".to_owned(), Some(("n", "a.b"))),
            (format!("system:serviceaccount:n:{long}"), Some(("n", long.as_str()))),
            (format!("system:serviceaccount:{long}:a"), None),
            ("system:serviceaccount:n:a:b".to_owned(), None),
            ("system:serviceaccount:n:".to_owned(), None),
            ("system:serviceaccount::a".to_owned(), None),
            ("system:serviceaccount:n.m:a".to_owned(), None),
            ("system:serviceaccount:n:A".to_owned(), None),
            ("system:serviceaccount:-n:a".to_owned(), None),
            ("n:a".to_owned(), None),
        ];
        for (user, parts) in cases {
            assert_eq!(split_service_account_user(&user), parts, "{user}");
        }
        assert_eq!(service_account_user("n", "a"), "system:serviceaccount:n:a");
    }

    #[test]
    fn a_token_says_what_it_is_bound_to() {
        let account = ServiceAccount {
            namespace: "n".into(),
            name: "a".into(),
            uid: "1".into(),
            pod: Some(("p".into(), "2".into())),
            node: Some(("w".into(), None)),
            credential_id: Some("JTI=3".into()),
        };
        let user = account.user().authenticated();
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("system:serviceaccount:n:a", "1"));
        let groups = ["system:serviceaccounts", "system:serviceaccounts:n", "system:authenticated"];
        assert_eq!(user.groups, groups);
        let extra: Vec<(&str, &str)> =
            user.extra.iter().map(|(key, values)| (key.as_str(), values[0].as_str())).collect();
        assert_eq!(
            extra,
            [
                ("authentication.kubernetes.io/credential-id", "JTI=3"),
                ("authentication.kubernetes.io/node-name", "w"),
                ("authentication.kubernetes.io/pod-name", "p"),
                ("authentication.kubernetes.io/pod-uid", "2"),
            ]
        );
    }

    #[test]
    fn everybody_is_in_one_of_two_groups() {
        assert_eq!(User::anonymous().authenticated().groups, [UNAUTHENTICATED]);
        let user = User { name: "u".into(), ..User::default() };
        assert_eq!(user.authenticated().authenticated().groups, [AUTHENTICATED]);
    }
}
