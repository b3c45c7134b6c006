//! The registration token of a cluster: where its value lives, when it gives way to a new one, and the commands that
//! carry it.

use std::collections::BTreeMap;

use api::Kind as _;
use api::catalogue::secrets::{keys, types};
use api::management::v3::{ClusterRegistrationToken, ClusterRegistrationTokenStatus};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::command::{Host, insecure_node_command, node_command, windows_node_command};
use crate::Object;

/// Keys of the Secret beside the token itself. The times stand next to what they speak of, so that whoever looks twice
/// rotates once.
const PREVIOUS: &str = "previousToken";
const EXPIRES: &str = "expiresAt";
const GRACE: &str = "gracePeriodExpiresAt";

/// Shortest lifetime: hosts need time to come up.
const SHORTEST: i64 = 30;
/// Shortest time during which both tokens are good: agents have to hear of the new one.
const SHORTEST_GRACE: i64 = 10;

/// What there is.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The registration token.
    pub token: &'a ClusterRegistrationToken,
    /// Data of its Secret, if there is one.
    pub data: Option<&'a BTreeMap<String, Vec<u8>>>,
    /// A token that nobody has seen.
    pub fresh: &'a str,
    /// Lifetime for tokens that say none, in minutes; 0 is for ever.
    pub lifetime: i64,
    /// How long the token before stays good, for tokens that do not say, in minutes.
    pub grace: i64,
    /// What commands tell a host.
    pub host: Host<'a>,
    /// The time.
    pub now: Timestamp,
}

/// What to write.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The Secret as it should be.
    pub secret: Object,
    /// The token's status.
    pub status: ClusterRegistrationTokenStatus,
    /// When to look again.
    pub wake_at: Option<Timestamp>,
}

/// The Secret of a registration token.
pub fn secret_name(token: &str) -> String {
    format!("crt-token-{token}")
}

/// What to write for a registration token.
pub fn decide(facts: &Facts<'_>) -> Decision {
    let mut data = facts.data.cloned().unwrap_or_default();
    if text(&data, keys::TOKEN).is_empty() {
        let inherited = facts.token.status.as_ref().map(|status| status.token.as_str());
        let token = inherited.filter(|token| !token.is_empty()).unwrap_or(facts.fresh);
        data.insert(keys::TOKEN.into(), token.into());
    }
    let wake_at = rotate(facts, &mut data);
    let status = ClusterRegistrationTokenStatus {
        token: String::new(),
        token_secret_name: secret_name(facts.token.metadata.name.as_deref().unwrap_or_default()),
        expires_at: text(&data, EXPIRES).to_owned(),
        grace_period_expires_at: text(&data, GRACE).to_owned(),
        ..commands(facts)
    };
    Decision { secret: secret(facts.token, data), status, wake_at }
}

/// Moves the token on where it is time, and says when it will be.
fn rotate(facts: &Facts<'_>, data: &mut BTreeMap<String, Vec<u8>>) -> Option<Timestamp> {
    // A promise to the token before is kept, whatever the lifetime is by now.
    if let Some(until) = time(data, GRACE) {
        if facts.now < until {
            return Some(until);
        }
        data.remove(GRACE);
        data.remove(PREVIOUS);
    }
    let lifetime = match facts.token.spec.ttl.unwrap_or(facts.lifetime) {
        minutes if minutes <= 0 => {
            data.remove(EXPIRES);
            return None;
        }
        minutes => minutes.max(SHORTEST),
    };
    let after =
        |minutes: i64| facts.now.saturating_add(SignedDuration::from_mins(minutes)).unwrap_or(facts.now);
    let expires = time(data, EXPIRES);
    if let Some(expires) = expires.filter(|expires| facts.now < *expires) {
        return Some(expires);
    }
    let end = after(lifetime);
    if expires.is_some() {
        let grace = facts.token.spec.grace_period.unwrap_or(facts.grace).max(SHORTEST_GRACE);
        // Tokens must not pile up.
        let grace = if grace < lifetime { grace } else { (lifetime * 4 / 5).max(SHORTEST_GRACE) };
        let before = data.insert(keys::TOKEN.into(), facts.fresh.into()).unwrap_or_default();
        data.insert(PREVIOUS.into(), before);
        data.insert(GRACE.into(), after(grace).to_string().into_bytes());
        data.insert(EXPIRES.into(), end.to_string().into_bytes());
        return Some(after(grace));
    }
    data.insert(EXPIRES.into(), end.to_string().into_bytes());
    Some(end)
}

/// Tokens that open the door, newest first: the present one and, for its grace period, the one before.
pub fn accepted(data: &BTreeMap<String, Vec<u8>>, now: Timestamp) -> Vec<&str> {
    let previous = time(data, GRACE).is_some_and(|until| now < until).then(|| text(data, PREVIOUS));
    [Some(text(data, keys::TOKEN)), previous]
        .into_iter()
        .flatten()
        .filter(|token| !token.is_empty())
        .collect()
}

fn commands(facts: &Facts<'_>) -> ClusterRegistrationTokenStatus {
    let host = facts.host;
    let manifest = format!("{}/v3/import/{{token}}_{}.yaml", host.url, facts.token.spec.cluster_name);
    ClusterRegistrationTokenStatus {
        command: format!("kubectl apply -f {manifest}"),
        insecure_command: format!("curl --insecure -sfL {manifest} | kubectl apply -f -"),
        node_command: node_command(host),
        insecure_node_command: insecure_node_command(host),
        windows_node_command: windows_node_command(host, false),
        insecure_windows_node_command: windows_node_command(host, true),
        manifest_url: manifest,
        ..Default::default()
    }
}

fn secret(token: &ClusterRegistrationToken, data: BTreeMap<String, Vec<u8>>) -> Object {
    let name = token.metadata.name.clone().unwrap_or_default();
    Object::of(&Secret {
        metadata: ObjectMeta {
            name: Some(secret_name(&name)),
            namespace: token.metadata.namespace.clone(),
            owner_references: Some(vec![OwnerReference {
                api_version: format!(
                    "{}/{}",
                    ClusterRegistrationToken::GROUP,
                    ClusterRegistrationToken::VERSION
                ),
                kind: ClusterRegistrationToken::KIND.into(),
                name,
                uid: token.metadata.uid.clone().unwrap_or_default(),
                ..Default::default()
            }]),
            ..Default::default()
        },
        type_: Some(types::OPAQUE.into()),
        data: Some(data.into_iter().map(|(key, value)| (key, ByteString(value))).collect()),
        ..Default::default()
    })
}

fn text<'a>(data: &'a BTreeMap<String, Vec<u8>>, key: &str) -> &'a str {
    data.get(key).and_then(|value| std::str::from_utf8(value).ok()).unwrap_or_default()
}

fn time(data: &BTreeMap<String, Vec<u8>>, key: &str) -> Option<Timestamp> {
    text(data, key).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        format!("2026-01-01T{text}:00Z").parse().unwrap()
    }

    fn token(ttl: Option<i64>) -> ClusterRegistrationToken {
        let mut token = ClusterRegistrationToken::default();
        token.metadata.name = Some("default-token".into());
        token.metadata.namespace = Some("c-m-x".into());
        token.spec.cluster_name = "c-m-x".into();
        token.spec.ttl = ttl;
        token
    }

    fn data_of(decision: &Decision) -> BTreeMap<String, Vec<u8>> {
        let secret: Secret = serde_json::from_value(decision.secret.document().clone()).unwrap();
        secret.data.unwrap().into_iter().map(|(key, value)| (key, value.0)).collect()
    }

    fn look(
        token: &ClusterRegistrationToken,
        data: Option<&BTreeMap<String, Vec<u8>>>,
        fresh: &str,
        now: &str,
    ) -> Decision {
        let host = Host { url: "https://h", ..Default::default() };
        decide(&Facts { token, data, fresh, lifetime: 0, grace: 15, host, now: at(now) })
    }

    #[test]
    fn a_token_lives_in_a_secret_and_commands_do_not_show_it() {
        let one = look(&token(None), None, "t1", "10:00");
        assert_eq!(one.secret.id().to_string(), "Secret c-m-x/crt-token-default-token");
        assert_eq!(data_of(&one)["token"], b"t1");
        assert_eq!(one.wake_at, None, "for ever");
        assert_eq!(one.status.manifest_url, "https://h/v3/import/{token}_c-m-x.yaml");
        assert!(one.status.node_command.contains("--token {token}"));
        assert!(!serde_json::to_string(&one.status).unwrap().contains("t1"));
        let again = look(&token(None), Some(&data_of(&one)), "t2", "11:00");
        assert_eq!(again, one, "nothing changes by looking");
        let mut old = token(None);
        old.status = Some(ClusterRegistrationTokenStatus { token: "inherited".into(), ..Default::default() });
        assert_eq!(data_of(&look(&old, None, "t1", "10:00"))["token"], b"inherited");
    }

    #[test]
    fn tokens_give_way_with_a_grace_period() {
        let token = token(Some(60));
        let first = look(&token, None, "t1", "10:00");
        assert_eq!(first.wake_at, Some(at("11:00")));
        let data = data_of(&first);
        assert_eq!(look(&token, Some(&data), "t2", "10:59"), first);
        let second = look(&token, Some(&data), "t2", "11:00");
        assert_eq!(second.wake_at, Some(at("11:15")));
        let data = data_of(&second);
        assert_eq!(accepted(&data, at("11:14")), ["t2", "t1"]);
        assert_eq!(accepted(&data, at("11:15")), ["t2"], "also before anybody has tidied up");
        assert_eq!(look(&token, Some(&data), "t3", "11:01"), second, "once");
        let tidy = look(&token, Some(&data), "t3", "11:15");
        assert_eq!(tidy.wake_at, Some(at("12:00")));
        assert!(!data_of(&tidy).contains_key("previousToken"));
        assert_eq!(data_of(&tidy)["token"], b"t2");
    }

    #[test]
    fn limits() {
        let short = look(&token(Some(1)), None, "t1", "10:00");
        assert_eq!(short.wake_at, Some(at("10:30")));
        let mut greedy = token(Some(60));
        greedy.spec.grace_period = Some(600);
        let first = look(&greedy, None, "t1", "10:00");
        let second = look(&greedy, Some(&data_of(&first)), "t2", "11:00");
        assert_eq!(second.wake_at, Some(at("11:48")), "four fifths of the lifetime");
    }
}
