//! Bootstrap data for native providers: a cloud-config with the install script and the user's own part.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use plan::gzip;
use serde_json::{Map, Value, json};

/// Native providers render instance data into the text; the second line says what it is.
const HEADER: &str = "## template: jinja\n#cloud-config\n";

/// Where the script lies on the server.
const PATH: &str = "/usr/local/custom_script/install.sh";

/// Why user data cannot be merged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not YAML.
    #[error("userdata.inlineUserdata is not YAML: {0}")]
    Unreadable(String),
    /// YAML, but not a map.
    #[error("userdata.inlineUserdata must be a cloud-config: a map such as `runcmd: [..]`, not {0}")]
    NotAMap(&'static str),
    /// A part that has to be a list is none.
    #[error("userdata.inlineUserdata: {0} must be a list")]
    NotAList(&'static str),
    /// A document that cannot be written.
    #[error("userdata.inlineUserdata cannot be written back: {0}")]
    Unwritable(String),
}

/// The cloud-config that puts the script on the server and runs it before anything of the user's.
///
/// # Errors
/// If the user data is no cloud-config.
pub fn merge(userdata: &str, script: &str) -> Result<String, Error> {
    let mut config = parse(userdata)?;
    let file = json!({
        // Clouds limit the size of user data.
        "content": STANDARD.encode(gzip::pack(script.as_bytes())),
        "encoding": "gzip+b64",
        "path": PATH,
        "permissions": "0600",
    });
    put_first(&mut config, "write_files", file)?;
    put_first(&mut config, "runcmd", json!(format!("sh {PATH}")))?;
    let body = serde_saphyr::to_string(&Value::Object(config))
        .map_err(|error| Error::Unwritable(error.to_string()))?;
    Ok(format!("{HEADER}{body}"))
}

/// The user's part. Admission asks the same question.
///
/// # Errors
/// If it is no cloud-config.
pub fn parse(userdata: &str) -> Result<Map<String, Value>, Error> {
    // cloud-init reads YAML 1.1, where 0600 is octal.
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    let parsed: Value = match userdata.trim().is_empty() {
        true => Value::Null,
        false => serde_saphyr::from_str_with_options(userdata, options)
            .map_err(|error| Error::Unreadable(first_line(&error.to_string())))?,
    };
    let config = match parsed {
        Value::Null => Map::new(),
        Value::Object(config) => config,
        Value::Array(_) => return Err(Error::NotAMap("a list")),
        _ => return Err(Error::NotAMap("a single value")),
    };
    for part in ["write_files", "runcmd"] {
        if config.get(part).is_some_and(|value| !value.is_array() && !value.is_null()) {
            return Err(Error::NotAList(part));
        }
    }
    Ok(config)
}

fn put_first(config: &mut Map<String, Value>, part: &'static str, item: Value) -> Result<(), Error> {
    let list = config.entry(part).or_insert_with(|| json!([]));
    if list.is_null() {
        *list = json!([]);
    }
    list.as_array_mut().ok_or(Error::NotAList(part))?.insert(0, item);
    Ok(())
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(userdata: &str) -> Value {
        let text = merge(userdata, "#!/bin/sh\necho hi\n").unwrap();
        assert!(text.starts_with("## template: jinja\n#cloud-config\n"), "{text}");
        serde_saphyr::from_str(&text).unwrap()
    }

    #[test]
    fn the_script_comes_first() {
        let plain = merged("");
        assert_eq!(plain["runcmd"], json!(["sh /usr/local/custom_script/install.sh"]));
        assert_eq!(plain["write_files"][0]["permissions"], "0600", "a text, not an octal number");
        let content = STANDARD.decode(plain["write_files"][0]["content"].as_str().unwrap()).unwrap();
        assert_eq!(gzip::unpack(&content).unwrap(), b"#!/bin/sh\necho hi\n");

        let both = merged(
            "#cloud-config\npackages: [nfs-common]\nruncmd:\n- echo user\n- [sh, -c, x]\nwrite_files:\n- path: /a\n  permissions: 0600\n",
        );
        assert_eq!(both["packages"], json!(["nfs-common"]));
        let first = "sh /usr/local/custom_script/install.sh";
        assert_eq!(both["runcmd"], json!([first, "echo user", ["sh", "-c", "x"]]));
        assert_eq!(both["write_files"][1], json!({"path": "/a", "permissions": 0o600}));
        assert_eq!(merged("runcmd:\nwrite_files: ~\n")["runcmd"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn values_keep_their_meaning() {
        let odd = merged(
            "a: 'yes'\nb: yes\nc: '0644'\nd: \"1:20\"\ne: |\n  two\n  lines\nf: '{{ v1.local_hostname }}'\n",
        );
        assert_eq!(odd["a"], "yes");
        assert_eq!(odd["b"], true);
        assert_eq!(odd["c"], "0644");
        assert_eq!(odd["d"], "1:20");
        assert_eq!(odd["e"], "two\nlines\n");
        assert_eq!(odd["f"], "{{ v1.local_hostname }}");
    }

    #[test]
    fn what_is_no_cloud_config_is_refused_with_a_reason() {
        for (userdata, words) in [
            ("- a", "not a list"),
            ("just text", "not a single value"),
            ("a: [", "is not YAML"),
            ("runcmd: echo", "runcmd must be a list"),
            ("write_files: {}", "write_files must be a list"),
        ] {
            let error = merge(userdata, "").unwrap_err().to_string();
            assert!(error.contains(words), "{userdata}: {error}");
        }
    }
}
