//! The string formats that kube-apiserver checks. Any other name is ignored, as it does.

use std::net::Ipv6Addr;
use std::sync::LazyLock;

use regex::Regex;

/// A known format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    BsonObjectId,
    Uri,
    Email,
    Hostname,
    Ipv4,
    Ipv6,
    Cidr,
    Mac,
    Uuid,
    Uuid3,
    Uuid4,
    Uuid5,
    Isbn,
    Isbn10,
    Isbn13,
    CreditCard,
    Ssn,
    HexColor,
    RgbColor,
    Byte,
    Password,
    Date,
    Duration,
    DateTime,
    ShortName,
    LongName,
}

/// Names as messages show them, without the dashes that do not count.
const NAMES: [(&str, Format); 26] = [
    ("bsonobjectid", Format::BsonObjectId),
    ("uri", Format::Uri),
    ("email", Format::Email),
    ("hostname", Format::Hostname),
    ("ipv4", Format::Ipv4),
    ("ipv6", Format::Ipv6),
    ("cidr", Format::Cidr),
    ("mac", Format::Mac),
    ("uuid", Format::Uuid),
    ("uuid3", Format::Uuid3),
    ("uuid4", Format::Uuid4),
    ("uuid5", Format::Uuid5),
    ("isbn", Format::Isbn),
    ("isbn10", Format::Isbn10),
    ("isbn13", Format::Isbn13),
    ("creditcard", Format::CreditCard),
    ("ssn", Format::Ssn),
    ("hexcolor", Format::HexColor),
    ("rgbcolor", Format::RgbColor),
    ("byte", Format::Byte),
    ("password", Format::Password),
    ("date", Format::Date),
    ("duration", Format::Duration),
    ("datetime", Format::DateTime),
    ("k8sshortname", Format::ShortName),
    ("k8slongname", Format::LongName),
];

impl Format {
    /// The format of this name; `None` if the server does not check it.
    pub(crate) fn parse(name: &str) -> Option<Format> {
        let normal = name.replace('-', "");
        NAMES.iter().find(|(known, _)| *known == normal).map(|(_, format)| *format)
    }

    /// The name in an error message.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Format::DateTime => "date-time",
            Format::ShortName => "k8s-short-name",
            Format::LongName => "k8s-long-name",
            other => NAMES.iter().find(|(_, format)| *format == other).map_or("", |(name, _)| name),
        }
    }

    /// Whether `text` has this format.
    pub(crate) fn accepts(self, text: &str) -> bool {
        match self {
            Format::BsonObjectId => text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit()),
            Format::Uri => is_request_uri(text),
            Format::Email => is_email(text),
            Format::Hostname => is_hostname(text),
            Format::Ipv4 => is_ipv4(text),
            Format::Ipv6 => text.contains(':') && text.parse::<Ipv6Addr>().is_ok(),
            Format::Cidr => is_cidr(text),
            Format::Mac => is_mac(text),
            Format::Uuid => UUID.is_match(text),
            Format::Uuid3 => UUID3.is_match(text),
            Format::Uuid4 => UUID4.is_match(text),
            Format::Uuid5 => UUID5.is_match(text),
            Format::Isbn => is_isbn10(text) || is_isbn13(text),
            Format::Isbn10 => is_isbn10(text),
            Format::Isbn13 => is_isbn13(text),
            Format::CreditCard => is_credit_card(text),
            Format::Ssn => text.len() == 11 && SSN.is_match(text),
            Format::HexColor => HEX_COLOR.is_match(text),
            Format::RgbColor => RGB_COLOR.is_match(text),
            Format::Byte => BASE64.is_match(text),
            Format::Password => true,
            Format::Date => is_date(text),
            Format::Duration => is_duration(text),
            Format::DateTime => is_date_time(text),
            Format::ShortName => text.len() <= 63 && SHORT_NAME.is_match(text),
            Format::LongName => text.len() <= 253 && LONG_NAME.is_match(text),
        }
    }
}

fn fixed(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the patterns of this module are fixed, and every one is used by its tests")
}

static UUID: LazyLock<Regex> =
    LazyLock::new(|| fixed("(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$"));
static UUID3: LazyLock<Regex> =
    LazyLock::new(|| fixed("(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$"));
static UUID4: LazyLock<Regex> =
    LazyLock::new(|| fixed("(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$"));
static UUID5: LazyLock<Regex> =
    LazyLock::new(|| fixed("(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$"));
static SSN: LazyLock<Regex> = LazyLock::new(|| fixed("^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$"));
static HEX_COLOR: LazyLock<Regex> = LazyLock::new(|| fixed("^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$"));
static RGB_COLOR: LazyLock<Regex> = LazyLock::new(|| {
    let part = r"[ \t]*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])[ \t]*";
    fixed(&format!(r"^rgb\({part},{part},{part}\)$"))
});
static BASE64: LazyLock<Regex> = LazyLock::new(|| {
    fixed("^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$")
});
static CREDIT_CARD: LazyLock<Regex> = LazyLock::new(|| {
    fixed(concat!(
        "^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}",
        "|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11})$"
    ))
});
static HOSTNAME: LazyLock<Regex> = LazyLock::new(|| {
    let any = r"a-zA-Z0-9\p{S}\p{L}";
    fixed(&format!(
        r"^([{any}]((-?[{any}]{{0,62}})?)|([{any}](([{any}\-]{{0,61}}[{any}])?)(\.)){{1,}}([a-zA-Z\p{{L}}]){{2,63}})$"
    ))
});
static CLOCK: LazyLock<Regex> =
    LazyLock::new(|| fixed("^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$"));
static DURATION_PART: LazyLock<Regex> = LazyLock::new(|| fixed(r"([0-9]+)[\t\n\f\r ]*([A-Za-zµ]+)"));
static GO_DURATION: LazyLock<Regex> =
    LazyLock::new(|| fixed(r"^[+-]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$"));
static SHORT_NAME: LazyLock<Regex> = LazyLock::new(|| fixed("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"));
static LONG_NAME: LazyLock<Regex> =
    LazyLock::new(|| fixed(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"));

fn is_hostname(text: &str) -> bool {
    text.len() <= 255 && text.split('.').all(|label| label.len() <= 63) && HOSTNAME.is_match(text)
}

/// Leading zeros are fine, as they were for old versions of Go. An IPv6 address with an IPv4 tail counts, too.
fn is_ipv4(text: &str) -> bool {
    plain_ipv4(text) || (text.contains('.') && text.parse::<Ipv6Addr>().is_ok())
}

fn plain_ipv4(text: &str) -> bool {
    let octets: Vec<&str> = text.split('.').collect();
    octets.len() == 4
        && octets.iter().all(|octet| {
            let digits = octet.trim_start_matches('0');
            !octet.is_empty() && octet.bytes().all(|byte| byte.is_ascii_digit()) && digits.len() <= 3 && {
                digits.is_empty() || digits.parse::<u16>().is_ok_and(|number| number <= 255)
            }
        })
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let bits = match (plain_ipv4(address), address.parse::<Ipv6Addr>().is_ok()) {
        (true, _) => 32,
        (_, true) => 128,
        _ => return false,
    };
    length.bytes().all(|byte| byte.is_ascii_digit())
        && length.parse::<u32>().is_ok_and(|length| length <= bits)
}

fn is_mac(text: &str) -> bool {
    let groups = |separator: char, digits: usize, counts: [usize; 3]| {
        let parts: Vec<&str> = text.split(separator).collect();
        let hex = |part: &&str| part.len() == digits && part.bytes().all(|byte| byte.is_ascii_hexdigit());
        counts.contains(&parts.len()) && parts.iter().all(hex)
    };
    groups(':', 2, [6, 8, 20]) || groups('-', 2, [6, 8, 20]) || groups('.', 4, [3, 4, 10])
}

fn without(text: &str, dropped: fn(char) -> bool) -> String {
    text.chars().filter(|c| !dropped(*c)).collect()
}

fn is_isbn10(text: &str) -> bool {
    let text = without(text, |c| c.is_ascii_whitespace() || c == '-');
    let digit = |(index, c): (usize, char)| match c {
        'X' if index == 9 => Some(10),
        c => c.to_digit(10),
    };
    let digits: Option<Vec<u32>> = text.chars().enumerate().map(digit).collect();
    digits.is_some_and(|digits| {
        digits.len() == 10
            && digits.iter().zip(1..).map(|(digit, weight)| digit * weight).sum::<u32>() % 11 == 0
    })
}

fn is_isbn13(text: &str) -> bool {
    let text = without(text, |c| c.is_ascii_whitespace() || c == '-');
    let digits: Option<Vec<u32>> = text.chars().map(|c| c.to_digit(10)).collect();
    digits.is_some_and(|digits| {
        let weights = [1, 3].into_iter().cycle();
        digits.len() == 13
            && digits.iter().zip(weights).map(|(digit, weight)| digit * weight).sum::<u32>() % 10 == 0
    })
}

fn is_credit_card(text: &str) -> bool {
    let digits = without(text, |c| !c.is_ascii_digit());
    let doubled = |(index, digit): (usize, u32)| match index % 2 {
        0 => digit,
        _ if digit >= 5 => digit * 2 - 9,
        _ => digit * 2,
    };
    let sum: u32 = digits.chars().rev().filter_map(|c| c.to_digit(10)).enumerate().map(doubled).sum();
    CREDIT_CARD.is_match(&digits) && sum.is_multiple_of(10)
}

fn is_date(text: &str) -> bool {
    let shape = text.len() == 10
        && text.bytes().enumerate().all(|(index, byte)| match index {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    shape && text.parse::<jiff::civil::Date>().is_ok()
}

fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    is_date(date)
        && CLOCK
            .captures(time)
            .is_some_and(|clock| &clock[1] <= "23" && &clock[2] <= "59" && &clock[3] <= "59")
}

/// `1h30m`, and what Scala writes: `3 days`.
fn is_duration(text: &str) -> bool {
    const UNITS: [&[&str]; 8] = [
        &["ns", "nano"],
        &["us", "µs", "micro"],
        &["ms", "milli"],
        &["s", "sec"],
        &["m", "min"],
        &["h", "hr", "hour"],
        &["d", "day"],
        &["w", "wk", "week"],
    ];
    let known = |unit: &str| {
        UNITS
            .iter()
            .any(|names| names.contains(&unit) || names.last().is_some_and(|long| unit.starts_with(long)))
    };
    GO_DURATION.is_match(text)
        || DURATION_PART.captures_iter(text).any(|part| known(part[2].to_lowercase().as_str()))
}

/// An absolute URI or an absolute path, as an HTTP request may have it.
fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) || !good_percents(text) {
        return false;
    }
    if text == "*" || text.starts_with('/') {
        return true;
    }
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let scheme_ok = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    let host_ok = rest.strip_prefix("//").is_none_or(|rest| {
        let authority = rest.split(['/', '?']).next().unwrap_or_default();
        good_authority(authority)
    });
    scheme_ok && host_ok
}

fn good_percents(text: &str) -> bool {
    let path = text.split('?').next().unwrap_or_default();
    path.split('%')
        .skip(1)
        .all(|after| after.len() >= 2 && after.as_bytes().iter().take(2).all(|byte| byte.is_ascii_hexdigit()))
}

fn good_authority(authority: &str) -> bool {
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let port = match host.strip_prefix('[') {
        Some(v6) => match v6.split_once(']') {
            Some((_, port)) => port,
            None => return false,
        },
        None => host.split_once(':').map_or("", |(name, _)| &host[name.len()..]),
    };
    let port_ok = port.strip_prefix(':').unwrap_or(port).bytes().all(|byte| byte.is_ascii_digit());
    port_ok && !host.contains([' ', '<', '>', '"', '\\', '^', '`', '{', '}', '|'])
}

/// An address alone or behind a name in angle brackets: the everyday part of RFC 5322.
fn is_email(text: &str) -> bool {
    let text = text.trim();
    let address = match text.strip_suffix('>') {
        Some(inner) => match inner.rsplit_once('<') {
            Some((_, address)) => address,
            None => return false,
        },
        None => text,
    };
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let atom = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c) || !c.is_ascii();
    let dotted = |text: &str| text.split('.').all(|part| !part.is_empty() && part.chars().all(atom));
    let quoted = local.len() >= 2 && local.starts_with('"') && local.ends_with('"');
    (quoted || dotted(local)) && (dotted(domain) || (domain.starts_with('[') && domain.ends_with(']')))
}

#[cfg(test)]
mod tests;
