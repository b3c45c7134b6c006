//! Small scripts of plans, told by what they say.

use crate::executor::Said;
use crate::machine::Machine;

/// `sh -c <text>`.
pub(super) fn run(machine: &Machine, text: &str) -> Said {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words.as_slice() {
        ["cat", path] => match machine.read(path) {
            Some(content) => Said::well(content),
            None => Said::ill(1, format!("cat: {path}: No such file or directory")),
        },
        ["curl", options @ .., "|", "grep", pattern] => grep(curl(machine, options), pattern),
        ["curl", options @ ..] => curl(machine, options),
        _ => Said::ill(127, format!("sh: {text:?}: a simulated machine does not know this script")),
    }
}

fn curl(machine: &Machine, options: &[&str]) -> Said {
    let mut url = None;
    let mut words = options.iter();
    while let Some(word) = words.next() {
        match *word {
            "--cacert" => {
                let path = words.next().copied().unwrap_or_default();
                if machine.read(path).is_none() {
                    return Said::ill(77, format!("curl: (77) error setting certificate file: {path}"));
                }
            }
            word if word.starts_with("--") => {}
            word => url = Some(word),
        }
    }
    let Some(url) = url.and_then(|url| url.parse::<http::Uri>().ok()) else {
        return Said::ill(3, "curl: (3) URL rejected");
    };
    let address = match url.host().unwrap_or_default() {
        "localhost" | "127.0.0.1" | "[::1]" => Some(machine.address),
        other => other.parse().ok(),
    };
    let Some(address) = address else { return Said::ill(6, "curl: (6) Could not resolve host") };
    let port = url.port_u16().unwrap_or(443);
    match machine.ground.network.get(machine.address, (address, port), url.path()) {
        Ok(reply) if (200..300).contains(&reply.status) => Said::well(reply.body),
        Ok(reply) => Said::ill(22, format!("curl: (22) The requested URL returned error: {}", reply.status)),
        Err(error) => Said::ill(7, format!("curl: (7) {error}")),
    }
}

/// Lines with a word in them; the code of a pipe is that of its last program.
fn grep(before: Said, pattern: &str) -> Said {
    let lines: String =
        before.stdout.lines().filter(|line| line.contains(pattern)).map(|line| format!("{line}\n")).collect();
    let code = if lines.is_empty() { 1 } else { 0 };
    Said { stdout: lines, stderr: before.stderr, code }
}
