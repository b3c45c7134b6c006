//! Collecting what is wrong, and the checks that many kinds share.

use std::net::IpAddr;

use serde_json::Value;

use crate::{FieldError, Path, name};

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

/// A text in an object; empty if it is not there.
pub(super) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_default()
}

/// A number in an object, if it is there.
pub(super) fn number(object: &Value, field: &str) -> Option<i64> {
    object[field].as_i64()
}

/// The items of a list with their places; none if it is absent.
pub(super) fn items<'a>(
    object: &'a Value,
    field: &str,
    path: &Path,
) -> impl Iterator<Item = (Path, &'a Value)> {
    let path = path.child(field);
    let list = object[field].as_array().into_iter().flatten().enumerate();
    list.map(move |(index, item)| (path.index(index), item))
}

/// The texts of a list.
pub(super) fn texts<'a>(object: &'a Value, field: &str) -> impl Iterator<Item = &'a str> {
    object[field].as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// What is wrong, in the order in which it is found.
#[derive(Debug, Default)]
pub(super) struct Findings(pub(super) Vec<FieldError>);

impl Findings {
    pub(super) fn required(&mut self, path: &Path, why: &str) {
        self.0.push(FieldError::required(path, why));
    }

    pub(super) fn forbidden(&mut self, path: &Path, why: impl Into<String>) {
        self.0.push(FieldError::forbidden(path, why));
    }

    pub(super) fn invalid(&mut self, path: &Path, value: impl Into<Value>, why: impl Into<String>) {
        self.0.push(FieldError::invalid(path, value, why));
    }

    /// A text that breaks rules, each of which is told.
    pub(super) fn each(&mut self, path: &Path, value: &str, broken: Vec<String>) {
        self.0.extend(broken.into_iter().map(|why| FieldError::invalid(path, value, why)));
    }

    /// A text that has to be one of these; upstream has its own order for each.
    pub(super) fn one_of(&mut self, path: &Path, value: &str, known: &[&str]) {
        if !known.contains(&value) {
            self.0.push(FieldError::not_supported(path, value, known.iter().copied()));
        }
    }

    /// As [`Findings::one_of`], where nothing is worse than something wrong.
    pub(super) fn required_one_of(&mut self, path: &Path, value: &str, known: &[&str]) {
        match value.is_empty() {
            true => self.required(path, ""),
            false => self.one_of(path, value, known),
        }
    }

    /// A field that, if it is there, is one of these.
    pub(super) fn optional_one_of(&mut self, object: &Value, field: &str, path: &Path, known: &[&str]) {
        if let Some(value) = object[field].as_str() {
            self.one_of(&path.child(field), value, known);
        }
    }

    /// A number that, if it is there, is not negative.
    pub(super) fn not_negative(&mut self, object: &Value, field: &str, path: &Path) {
        if let Some(value) = number(object, field).filter(|value| *value < 0) {
            self.invalid(&path.child(field), value, "must be greater than or equal to 0");
        }
    }

    /// A number that, if it is there, is an identity of a user or group.
    pub(super) fn identity(&mut self, value: &Value, path: &Path) {
        if value.as_i64().is_some_and(|value| !(0..=i64::from(i32::MAX)).contains(&value)) {
            self.invalid(path, value.clone(), "must be between 0 and 2147483647, inclusive");
        }
    }

    pub(super) fn port(&mut self, value: i64, path: &Path) {
        if !(1..=65_535).contains(&value) {
            self.invalid(path, value, "must be between 1 and 65535, inclusive");
        }
    }

    pub(super) fn port_or_name(&mut self, value: &Value, path: &Path) {
        match value {
            Value::String(text) => self.each(path, text, port_name(text)),
            other => self.port(other.as_i64().unwrap_or(0), path),
        }
    }

    pub(super) fn protocol(&mut self, object: &Value, path: &Path) {
        self.required_one_of(&path.child("protocol"), text(object, "protocol"), &PROTOCOLS);
    }

    pub(super) fn label_key(&mut self, key: &str, path: &Path) {
        self.each(path, key, name::qualified(key));
    }

    pub(super) fn labels(&mut self, labels: &Value, path: &Path) {
        for (key, value) in labels.as_object().into_iter().flatten() {
            self.label_key(key, path);
            let value = value.as_str().unwrap_or_default();
            self.each(path, value, name::label_value(value));
        }
    }

    pub(super) fn selector(&mut self, selector: &Value, path: &Path) {
        self.labels(&selector["matchLabels"], &path.child("matchLabels"));
        for (path, one) in items(selector, "matchExpressions", path) {
            self.requirement(one, &path, &["In", "NotIn"], &["Exists", "DoesNotExist"]);
            for (index, value) in texts(one, "values").enumerate() {
                self.each(&path.child("values").index(index), value, name::label_value(value));
            }
        }
    }

    /// A requirement of a selector: its operator goes with values or without.
    pub(super) fn requirement(&mut self, one: &Value, path: &Path, with: &[&str], without: &[&str]) {
        let (operator, count) = (text(one, "operator"), texts(one, "values").count());
        let values = path.child("values");
        if with.contains(&operator) && count == 0 {
            self.required(&values, "must be specified when `operator` is 'In' or 'NotIn'");
        } else if without.contains(&operator) && count > 0 {
            self.forbidden(&values, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
        } else if !with.contains(&operator) && !without.contains(&operator) {
            self.invalid(&path.child("operator"), operator, "not a valid selector operator");
        }
        self.label_key(text(one, "key"), &path.child("key"));
    }

    /// A number or a percentage that, if it is there, is not negative.
    pub(super) fn amount(&mut self, object: &Value, field: &str, path: &Path) {
        match &object[field] {
            Value::String(text) if percent(&object[field]).is_none() => {
                let why = name::pattern_error(
                    "a valid percent string must be a numeric string followed by an ending '%'",
                    "[0-9]+%",
                    &["1%", "93%"],
                );
                self.invalid(&path.child(field), text.as_str(), why);
            }
            _ => self.not_negative(object, field, path),
        }
    }

    pub(super) fn at_most_all(&mut self, object: &Value, field: &str, path: &Path) {
        if percent(&object[field]).is_some_and(|percent| percent > 100) {
            self.invalid(&path.child(field), object[field].clone(), "must not be greater than 100%");
        }
    }

    /// A field that may not change.
    pub(super) fn unchanged(&mut self, new: &Value, old: &Value, path: &Path) {
        if new != old {
            self.invalid(path, new.clone(), "field is immutable");
        }
    }

    pub(super) fn address(&mut self, address: &str, path: &Path) -> bool {
        let right = address.parse::<IpAddr>().is_ok();
        if !right {
            self.invalid(path, address, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
        }
        right
    }

    /// An address that others can reach.
    pub(super) fn public_address(&mut self, address: &str, path: &Path) {
        let Ok(parsed) = address.parse::<IpAddr>() else {
            return self.invalid(path, address, "must be a valid IP address");
        };
        let (local, multicast) = match parsed {
            IpAddr::V4(v4) => (v4.is_link_local(), v4.octets()[..3] == [224, 0, 0]),
            IpAddr::V6(v6) => (v6.is_unicast_link_local(), v6.segments()[0] & 0xff0f == 0xff02),
        };
        if parsed.is_unspecified() {
            self.invalid(path, address, format!("may not be unspecified ({address})"));
        }
        if parsed.is_loopback() {
            self.invalid(path, address, "may not be in the loopback range (127.0.0.0/8, ::1/128)");
        }
        if local {
            self.invalid(path, address, "may not be in the link-local range (169.254.0.0/16, fe80::/10)");
        }
        if multicast {
            let why = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)";
            self.invalid(path, address, why);
        }
    }

    pub(super) fn network(&mut self, network: &str, path: &Path) {
        let right = network.split_once('/').is_some_and(|(address, length)| {
            let most = if address.contains(':') { 128 } else { 32 };
            address.parse::<IpAddr>().is_ok() && length.parse::<u8>().is_ok_and(|length| length <= most)
        });
        if !right {
            self.invalid(path, network, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)");
        }
    }
}

/// The number of a percentage.
pub(super) fn percent(value: &Value) -> Option<u64> {
    let digits = value.as_str()?.strip_suffix('%')?;
    let right = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    right.then(|| digits.parse().unwrap_or(u64::MAX))
}

/// Whether a number or percentage is nothing.
pub(super) fn is_nothing(value: &Value) -> bool {
    match value {
        Value::String(_) => percent(value).unwrap_or(0) == 0,
        other => other.as_i64().unwrap_or(0) == 0,
    }
}

/// What is wrong with the name of a port.
pub(super) fn port_name(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let mut check = |wrong: bool, why: &str| {
        if wrong {
            errors.push(why.to_owned());
        }
    };
    let known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    check(text.len() > 15, "must be no more than 15 characters");
    check(
        text.is_empty() || !text.bytes().all(known),
        "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
    );
    check(!text.bytes().any(|byte| byte.is_ascii_lowercase()), "must contain at least one letter (a-z)");
    check(text.contains("--"), "must not contain consecutive hyphens");
    check(text.starts_with('-') || text.ends_with('-'), "must not begin or end with a hyphen");
    errors
}
