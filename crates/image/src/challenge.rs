//! What a registry asks for when it refuses: the `WWW-Authenticate` header.

use std::collections::BTreeMap;

/// How to prove who we are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Challenge {
    /// By name and password in every request.
    Basic,
    /// By a token that somebody else hands out.
    Bearer {
        /// The URL to get it from.
        realm: String,
        /// For this service.
        service: Option<String>,
        /// For these actions.
        scope: Option<String>,
    },
}

impl Challenge {
    /// The one to answer of those in some headers: a token rather than a password. Others are not for us.
    pub(crate) fn choose<'a>(headers: impl Iterator<Item = &'a str>) -> Option<Self> {
        let all: Vec<(String, BTreeMap<String, String>)> = headers.flat_map(parse).collect();
        let bearer = all.iter().find_map(|(scheme, parameters)| {
            let get = |name: &str| parameters.get(name).cloned();
            let realm = get("realm").filter(|_| scheme == "bearer")?;
            Some(Challenge::Bearer { realm, service: get("service"), scope: get("scope") })
        });
        bearer.or_else(|| all.iter().any(|(scheme, _)| scheme == "basic").then_some(Challenge::Basic))
    }
}

/// Schemes, in lower case, with their parameters.
fn parse(header: &str) -> Vec<(String, BTreeMap<String, String>)> {
    let mut challenges: Vec<(String, BTreeMap<String, String>)> = Vec::new();
    let mut rest = header;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let end = rest.find([' ', '\t', ',', '=']).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        if word.is_empty() {
            return challenges;
        }
        match after.trim_start().strip_prefix('=') {
            Some(after) => {
                let (value, after) = value(after.trim_start());
                if let Some((_, parameters)) = challenges.last_mut() {
                    parameters.insert(word.to_lowercase(), value);
                }
                rest = after;
            }
            None => {
                challenges.push((word.to_lowercase(), BTreeMap::new()));
                rest = after;
            }
        }
    }
}

/// A parameter's value, perhaps quoted, and what follows it.
fn value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let (value, rest) = text.split_at(text.find([',', ' ']).unwrap_or(text.len()));
        return (value.to_owned(), rest);
    };
    let (mut value, mut escaped) = (String::new(), false);
    for (index, character) in quoted.char_indices() {
        match character {
            _ if escaped => {
                value.push(character);
                escaped = false;
            }
            '\\' => escaped = true,
            '"' => return (value, &quoted[index + 1..]),
            _ => value.push(character),
        }
    }
    (value, "")
}

/// Percent-encodes a value for a query.
pub(crate) fn encoded(value: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/:".contains(&byte);
    value.bytes().fold(String::new(), |mut text, byte| {
        if plain(byte) {
            text.push(byte.into());
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bearer(realm: &str, service: Option<&str>, scope: Option<&str>) -> Option<Challenge> {
        let own = |text: Option<&str>| text.map(str::to_owned);
        Some(Challenge::Bearer { realm: realm.into(), service: own(service), scope: own(scope) })
    }

    #[test]
    fn challenges_are_understood() {
        let hub = "Bearer realm=\"https://auth.docker.io/token\",service=\"registry.docker.io\",scope=\"repository:a/b:pull,push\"";
        for (headers, expected) in [
            (vec!["Basic realm=\"x\""], Some(Challenge::Basic)),
            (vec!["basic"], Some(Challenge::Basic)),
            (
                vec![hub],
                bearer(
                    "https://auth.docker.io/token",
                    Some("registry.docker.io"),
                    Some("repository:a/b:pull,push"),
                ),
            ),
            (vec!["BEARER Realm=http://t/x , service = s"], bearer("http://t/x", Some("s"), None)),
            (vec!["Basic realm=\"a \\\"b\\\", c\", Bearer realm=\"r\""], bearer("r", None, None)),
            (vec!["Basic realm=x", "Bearer realm=r"], bearer("r", None, None)),
            (vec!["Bearer service=\"no realm\""], None),
            (vec!["Negotiate", ""], None),
            (vec!["Bearer realm=\"unclosed"], bearer("unclosed", None, None)),
            (vec!["=,=\"", ",,,"], None),
        ] {
            assert_eq!(Challenge::choose(headers.iter().copied()), expected, "{headers:?}");
        }
    }

    #[test]
    fn queries_are_encoded() {
        assert_eq!(encoded("repository:a/b:pull"), "repository:a/b:pull");
        assert_eq!(encoded("a b&c=ä#"), "a%20b%26c%3D%C3%A4%23");
    }
}
