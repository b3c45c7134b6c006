//! What is wrong with a plan, with the place of it, in the words that Kubernetes uses for fields:
//! `files[2].permissions: Invalid value: "9z": must be an octal number`.
//!
//! An error is what no agent can do; a warning is what an agent does otherwise than the plan seems to ask. Contents of
//! files and environments are never shown: they hold secrets.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::document::{
    Extra, File, HttpGet, Instruction, OneTimeInstruction, PeriodicInstruction, Plan, Probe,
};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// No agent can do it.
    Error,
    /// An agent does something else than the plan seems to ask.
    Warning,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad.
    pub severity: Severity,
    /// Where: `files[2].permissions`.
    pub path: String,
    /// What: `Invalid value: "9z": must be an octal number`.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// Everything that is wrong with a plan, in the order of its fields.
pub fn validate(plan: &Plan) -> Vec<Finding> {
    let mut findings = Findings::default();
    let f = &mut findings;
    f.unknown("", &plan.extra, &["files", "instructions", "periodicInstructions", "error", "probes"]);
    let mut paths = BTreeMap::new();
    for (index, file) in plan.files.iter().enumerate() {
        check_file(f, &format!("files[{index}]"), file);
        if let Some(first) = paths.insert(&file.path, index).filter(|_| !file.path.is_empty()) {
            let same = format!("is also the path of files[{first}]; the last one counts");
            f.warn(&format!("files[{index}].path"), format!("Duplicate value: {:?}: {same}", file.path));
        }
    }
    let mut names = BTreeSet::new();
    for (index, instruction) in plan.instructions.iter().enumerate() {
        check_one_time(f, &format!("instructions[{index}]"), instruction, &mut names);
    }
    let mut names = BTreeSet::new();
    for (index, instruction) in plan.periodic_instructions.iter().enumerate() {
        check_periodic(f, &format!("periodicInstructions[{index}]"), instruction, &mut names);
    }
    for (name, probe) in &plan.probes {
        check_probe(f, &format!("probes[{name}]"), probe);
    }
    findings.0
}

#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn error(&mut self, path: &str, message: impl Into<String>) {
        self.0.push(Finding { severity: Severity::Error, path: path.to_owned(), message: message.into() });
    }

    fn warn(&mut self, path: &str, message: impl Into<String>) {
        self.0.push(Finding { severity: Severity::Warning, path: path.to_owned(), message: message.into() });
    }

    fn invalid(&mut self, path: &str, value: impl fmt::Debug, detail: &str) {
        self.error(path, format!("Invalid value: {value:?}: {detail}"));
    }

    /// A number that may not be negative.
    fn not_negative(&mut self, path: &str, field: &str, value: i64) {
        if value < 0 {
            self.invalid(&format!("{path}.{field}"), value, "must be greater than or equal to 0");
        }
    }

    /// Fields that we do not know; Go reads names whatever their case, we do not.
    fn unknown(&mut self, path: &str, extra: &Extra, known: &[&str]) {
        for name in extra.keys() {
            let place = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            match known.iter().find(|known| known.eq_ignore_ascii_case(name)) {
                Some(known) => self.warn(&place, format!("unknown field: did you mean {known:?}?")),
                None => self.warn(&place, "unknown field"),
            }
        }
    }
}

fn check_file(f: &mut Findings, path: &str, file: &File) {
    let at = |field: &str| format!("{path}.{field}");
    let known = ["content", "directory", "uid", "gid", "path", "permissions", "action", "dynamic", "minor"];
    f.unknown(path, &file.extra, &known);
    match file.path.as_str() {
        "" => f.error(&at("path"), "Required value"),
        text if text.contains('\0') => f.invalid(&at("path"), text, "must not contain a NUL byte"),
        text if !is_absolute(text) => f.invalid(&at("path"), text, "must be an absolute path"),
        text if text.split(['/', '\\']).any(|part| part == "..") => {
            f.warn(&at("path"), format!("Invalid value: {text:?}: contains \"..\""));
        }
        _ => {}
    }
    if file.decoded().is_err() {
        f.error(&at("content"), "Invalid value: must be standard base64 with padding");
    }
    match i32::from_str_radix(&file.permissions, 8) {
        _ if file.permissions.is_empty() => {}
        Ok(mode) if mode > 0o777 => {
            let text = &file.permissions;
            f.warn(
                &at("permissions"),
                format!("Invalid value: {text:?}: only the last nine bits have an effect"),
            );
        }
        Ok(mode) if mode >= 0 => {}
        _ => f.invalid(&at("permissions"), &file.permissions, "must be an octal number"),
    }
    for (field, id) in [("uid", file.uid), ("gid", file.gid)] {
        if !(-1..i64::from(u32::MAX)).contains(&id) {
            f.invalid(&at(field), id, "must be a user or group id, or -1 to leave it as it is");
        }
    }
    if !matches!(file.action.as_str(), "" | "delete") {
        let text = &file.action;
        f.warn(
            &at("action"),
            format!("Unsupported value: {text:?}: supported values: \"delete\"; the file is written"),
        );
    }
    if !file.content.is_empty() && (file.directory || file.is_delete()) {
        f.warn(&at("content"), "Forbidden: has no effect on a directory or on a file that is removed");
    }
}

/// As on the machine, which may run Windows.
fn is_absolute(path: &str) -> bool {
    let drive = path.as_bytes();
    path.starts_with('/')
        || (drive.len() > 2
            && drive[0].is_ascii_alphabetic()
            && drive[1] == b':'
            && matches!(drive[2], b'/' | b'\\'))
}

fn check_one_time<'a>(
    f: &mut Findings,
    path: &str,
    instruction: &'a OneTimeInstruction,
    names: &mut BTreeSet<&'a str>,
) {
    let name = instruction.common.name.as_str();
    check_instruction(f, path, &instruction.common, &instruction.extra, &["saveOutput"]);
    if instruction.save_output && name.is_empty() {
        f.warn(&format!("{path}.name"), "Required value: output is saved under the name");
    }
    if instruction.save_output && !name.is_empty() && !names.insert(name) {
        f.warn(&format!("{path}.name"), format!("Duplicate value: {name:?}: the last output counts"));
    }
}

fn check_periodic<'a>(
    f: &mut Findings,
    path: &str,
    instruction: &'a PeriodicInstruction,
    names: &mut BTreeSet<&'a str>,
) {
    let name = instruction.common.name.as_str();
    check_instruction(
        f,
        path,
        &instruction.common,
        &instruction.extra,
        &["periodSeconds", "saveStderrOutput"],
    );
    if name.is_empty() {
        f.error(&format!("{path}.name"), "Required value: it is not run without a name");
    } else if !names.insert(name) {
        f.error(&format!("{path}.name"), format!("Duplicate value: {name:?}"));
    }
    f.not_negative(path, "periodSeconds", instruction.period_seconds);
}

fn check_instruction(f: &mut Findings, path: &str, instruction: &Instruction, extra: &Extra, more: &[&str]) {
    let at = |field: &str| format!("{path}.{field}");
    let known = [&["name", "image", "env", "args", "command", "script"], more].concat();
    f.unknown(path, extra, &known);
    let Instruction { image, command, script, .. } = instruction;
    if image.is_empty() && command.is_empty() && script.is_empty() {
        f.error(&at("command"), "Required value: there is no image that could bring a run.sh");
    }
    if !script.is_empty() {
        f.warn(&at("script"), "Go agents up to v0.15.0 ignore it and run the command");
    }
    if command.contains('\0') {
        f.invalid(&at("command"), command, "must not contain a NUL byte");
    }
    for (index, arg) in instruction.args.iter().enumerate() {
        if arg.contains('\0') {
            f.error(&at(&format!("args[{index}]")), "Invalid value: must not contain a NUL byte");
        }
    }
    for (index, entry) in instruction.env.iter().enumerate() {
        let place = at(&format!("env[{index}]"));
        match entry.split_once('=') {
            _ if entry.contains('\0') => f.error(&place, "Invalid value: must not contain a NUL byte"),
            None | Some(("", _)) => f.warn(&place, "Invalid value: must be NAME=value; it has no effect"),
            Some((name @ ("PATH" | "CATTLE_AGENT_EXECUTION_PWD" | "CATTLE_AGENT_ATTEMPT_NUMBER"), _)) => {
                f.warn(&place, format!("Forbidden: the agent sets {name} itself"));
            }
            Some(_) => {}
        }
    }
}

fn check_probe(f: &mut Findings, path: &str, probe: &Probe) {
    let fields = [
        ("initialDelaySeconds", probe.initial_delay_seconds),
        ("timeoutSeconds", probe.timeout_seconds),
        ("successThreshold", probe.success_threshold),
        ("failureThreshold", probe.failure_threshold),
    ];
    let known: Vec<&str> = fields.iter().map(|(name, _)| *name).chain(["name", "httpGet"]).collect();
    f.unknown(path, &probe.extra, &known);
    for (field, value) in fields {
        f.not_negative(path, field, value);
    }
    check_http_get(f, &format!("{path}.httpGet"), &probe.http_get);
}

fn check_http_get(f: &mut Findings, path: &str, get: &HttpGet) {
    let at = |field: &str| format!("{path}.{field}");
    f.unknown(path, &get.extra, &["url", "insecure", "clientCert", "clientKey", "caCert"]);
    let rest = get.url.strip_prefix("http://").or_else(|| get.url.strip_prefix("https://"));
    let host = rest.and_then(|rest| rest.split(['/', '?', '#']).next()).filter(|host| !host.is_empty());
    if get.url.is_empty() {
        f.error(&at("url"), "Required value");
    } else if host.is_none_or(|host| host.contains(char::is_whitespace)) {
        f.invalid(&at("url"), &get.url, "must be an http or https URL");
    }
    if get.client_cert.is_empty() != get.client_key.is_empty() {
        let missing = if get.client_cert.is_empty() { "clientCert" } else { "clientKey" };
        f.warn(&at(missing), "Required value: certificate and key are used together or not at all");
    }
    let trust = [&get.client_cert, &get.client_key, &get.ca_cert];
    if get.insecure && trust.iter().any(|file| !file.is_empty()) {
        f.warn(&at("insecure"), "Invalid value: true: client certificate and CA are then ignored");
    }
}
