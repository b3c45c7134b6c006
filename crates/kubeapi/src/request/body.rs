//! `DeleteOptions` as they come, in a body or in a query.

use serde_json::Value;

use super::{Preconditions, Query};

/// Options that have been read, but not checked.
#[derive(Debug, Default)]
pub(super) struct Raw {
    pub(super) grace_period_seconds: Option<i64>,
    pub(super) preconditions: Preconditions,
    pub(super) orphan_dependents: Option<bool>,
    pub(super) propagation: Option<String>,
    pub(super) dry_run: Vec<String>,
}

pub(super) fn from_query(query: &Query) -> Result<Raw, String> {
    let text = |parameter: &str| query.first(parameter).filter(|value| !value.is_empty()).map(str::to_owned);
    Ok(Raw {
        grace_period_seconds: query.number("gracePeriodSeconds")?,
        preconditions: Preconditions { uid: text("uid"), resource_version: text("resourceVersion") },
        orphan_dependents: query.flag("orphanDependents"),
        propagation: query.first("propagationPolicy").map(str::to_owned),
        dry_run: query.all("dryRun").to_vec(),
    })
}

pub(super) fn delete_options(body: &Value) -> Result<Raw, String> {
    if !body.is_object() {
        let what = json_name(body);
        return Err(format!("json: cannot unmarshal {what} into Go value of type v1.DeleteOptions"));
    }
    let version = body["apiVersion"].as_str().filter(|version| !version.is_empty()).unwrap_or("v1");
    match body["kind"].as_str() {
        None | Some("" | "DeleteOptions") => {}
        Some(other) => return Err(format!("no kind {other:?} is registered for version {version:?}")),
    }
    let preconditions = &body["preconditions"];
    Ok(Raw {
        grace_period_seconds: field(body, "gracePeriodSeconds", "int64", Value::as_i64)?,
        preconditions: Preconditions {
            uid: field(preconditions, "uid", "types.UID", owned)?,
            resource_version: field(preconditions, "resourceVersion", "string", owned)?,
        },
        orphan_dependents: field(body, "orphanDependents", "bool", Value::as_bool)?,
        propagation: field(body, "propagationPolicy", "v1.DeletionPropagation", owned)?,
        dry_run: field(body, "dryRun", "[]string", texts)?.unwrap_or_default(),
    })
}

fn owned(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn texts(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(owned).collect()
}

/// A field of the right type, or none, or why not in the words of Go's decoder.
fn field<T>(
    object: &Value,
    name: &str,
    go_type: &str,
    read: impl Fn(&Value) -> Option<T>,
) -> Result<Option<T>, String> {
    match &object[name] {
        Value::Null => Ok(None),
        value => read(value).map(Some).ok_or_else(|| {
            let what = json_name(value);
            format!(
                "json: cannot unmarshal {what} into Go struct field DeleteOptions.{name} of type {go_type}"
            )
        }),
    }
}

fn json_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::*;

    #[test]
    fn list_options_that_do_not_go_together_are_refused() {
        let invalid = "ListOptions.meta.k8s.io \"\" is invalid: ";
        for (query, code, message) in [
            (
                "resourceVersionMatch=Exact",
                422,
                format!(
                    "{invalid}resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
                ),
            ),
            (
                "resourceVersionMatch=Exact&resourceVersion=1&continue=x",
                422,
                format!(
                    "{invalid}resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided"
                ),
            ),
            (
                "resourceVersionMatch=foo&resourceVersion=1",
                422,
                format!(
                    "{invalid}resourceVersionMatch: Unsupported value: \"foo\": supported values: \"Exact\", \"NotOlderThan\", \"\""
                ),
            ),
            (
                "resourceVersionMatch=Exact&resourceVersion=0",
                422,
                format!(
                    "{invalid}resourceVersionMatch: Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""
                ),
            ),
            (
                "sendInitialEvents=true",
                422,
                format!("{invalid}sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list"),
            ),
            (
                "watch=1&sendInitialEvents=true",
                422,
                format!(
                    "{invalid}resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
                ),
            ),
            (
                "watch=1&resourceVersion=5&resourceVersionMatch=NotOlderThan",
                422,
                format!(
                    "{invalid}resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
                ),
            ),
            (
                "watch=1&sendInitialEvents=0&resourceVersionMatch=Exact",
                422,
                format!(
                    "{invalid}[resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan, resourceVersionMatch: Unsupported value: \"Exact\": supported values: \"NotOlderThan\"]"
                ),
            ),
            (
                "watch=1&sendInitialEvents=1&resourceVersionMatch=NotOlderThan&continue=a",
                422,
                format!(
                    "{invalid}resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided"
                ),
            ),
            ("limit=x", 400, "strconv.ParseInt: parsing \"x\": invalid syntax".into()),
            ("timeoutSeconds=1.5", 400, "strconv.ParseInt: parsing \"1.5\": invalid syntax".into()),
            ("fieldSelector=x", 400, "invalid selector: 'x'; can't understand 'x'".into()),
            (
                "labelSelector=a+b",
                400,
                "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt".into(),
            ),
        ] {
            let status = ListOptions::parse(&Query::parse(query)).unwrap_err();
            assert_eq!((status.code, status.message.as_str()), (code, message.as_str()), "{query}");
        }
    }

    #[test]
    fn list_options_are_read() {
        let query =
            "labelSelector=a&fieldSelector=b%3Dc&limit=500&continue=x&resourceVersion=7&timeoutSeconds=9";
        let options = ListOptions::parse(&Query::parse(query)).unwrap();
        assert_eq!(options.label_selector.to_string(), "a");
        assert_eq!(options.field_selector.to_string(), "b=c");
        assert_eq!((options.limit, options.continue_token.as_str()), (500, "x"));
        assert_eq!((options.resource_version.as_str(), options.timeout_seconds), ("7", Some(9)));
        assert_eq!((options.watch, options.send_initial_events), (false, None));
    }

    #[test]
    fn a_watch_from_the_start_sends_what_is_there() {
        for (query, sends, matches) in [
            ("watch=1", Some(true), Some(Match::NotOlderThan)),
            ("watch=1&resourceVersion=0", Some(true), Some(Match::NotOlderThan)),
            ("watch=1&resourceVersion=5", None, None),
            (
                "watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan",
                Some(false),
                Some(Match::NotOlderThan),
            ),
        ] {
            let options = ListOptions::parse(&Query::parse(query)).unwrap();
            assert_eq!(
                (options.send_initial_events, options.resource_version_match),
                (sends, matches),
                "{query}"
            );
        }
    }

    #[test]
    fn write_options_are_checked() {
        let read = |query: &str| WriteOptions::create(&Query::parse(query));
        let good = read("dryRun=All&fieldManager=me&fieldValidation=Strict").unwrap();
        let wanted = WriteOptions {
            dry_run: true,
            field_manager: "me".into(),
            field_validation: FieldValidation::Strict,
        };
        assert_eq!(good, wanted);
        assert_eq!(read("").unwrap(), WriteOptions::default());
        let invalid = "CreateOptions.meta.k8s.io \"\" is invalid: ";
        for (query, message) in [
            ("dryRun=Some&dryRun=All", "dryRun: Unsupported value: [\"Some\",\"All\"]: supported values: \"All\"".to_owned()),
            ("fieldValidation=no", "fieldValidation: Unsupported value: \"no\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"".into()),
            (&format!("fieldManager={}", "a".repeat(129)), "fieldManager: Too long: may not be more than 128 bytes".into()),
            ("fieldManager=a%07", "fieldManager: Invalid value: \"a\\u0007\": invalid character U+0007 (at position 1)".into()),
            ("fieldManager=a%C2%A0", "fieldManager: Invalid value: \"a\u{a0}\": invalid character U+00A0 (at position 1)".into()),
        ] {
            let status = read(query).unwrap_err();
            assert_eq!((status.code, status.message), (422, format!("{invalid}{message}")), "{query}");
        }
        assert!(read("fieldManager=%C3%A9%CC%81+x").is_ok());
    }

    #[test]
    fn patch_options_depend_on_the_patch() {
        let invalid = "PatchOptions.meta.k8s.io \"\" is invalid: ";
        for (query, apply, wanted) in [
            ("", true, Err("fieldManager: Required value: is required for apply patch")),
            ("force=false", false, Err("force: Forbidden: may not be specified for non-apply patch")),
            ("force=true&fieldManager=a", true, Ok(true)),
            ("", false, Ok(false)),
        ] {
            let found = PatchOptions::parse(&Query::parse(query), apply).map(|options| options.force);
            assert_eq!(
                found.map_err(|status| status.message),
                wanted.map_err(|why| format!("{invalid}{why}"))
            );
        }
    }

    #[test]
    fn delete_options_come_from_the_body_or_the_query() {
        let query = Query::parse("gracePeriodSeconds=5&propagationPolicy=Orphan&uid=u&dryRun=All");
        let options = DeleteOptions::parse(&query, None).unwrap();
        assert_eq!(options.grace_period_seconds, Some(5));
        assert_eq!(options.propagation, Some(Propagation::Orphan));
        assert_eq!(options.preconditions.uid.as_deref(), Some("u"));
        assert!(options.dry_run);
        let body = json!({
            "kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background",
            "preconditions": {"resourceVersion": "7"}, "ignoreStoreReadErrorWithClusterBreakingPotential": true,
        });
        let options = DeleteOptions::parse(&query, Some(&body)).unwrap();
        assert_eq!(options.grace_period_seconds, None);
        assert_eq!(options.propagation, Some(Propagation::Background));
        assert_eq!(options.preconditions.resource_version.as_deref(), Some("7"));
        assert!(!options.dry_run);
    }

    #[test]
    fn wrong_delete_options_are_refused() {
        let invalid = "DeleteOptions.meta.k8s.io \"\" is invalid: ";
        for (body, code, message) in [
            (json!({"propagationPolicy": "x"}), 422, format!("{invalid}propagationPolicy: Unsupported value: \"x\": supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"")),
            (json!({"propagationPolicy": "Orphan", "orphanDependents": true}), 422, format!("{invalid}propagationPolicy: Invalid value: \"Orphan\": orphanDependents and deletionPropagation cannot be both set")),
            (json!({"dryRun": ["x"]}), 422, format!("{invalid}dryRun: Unsupported value: [\"x\"]: supported values: \"All\"")),
            (json!({"gracePeriodSeconds": "x"}), 400, "json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds of type int64".into()),
            (json!({"kind": "Pod"}), 400, "no kind \"Pod\" is registered for version \"v1\"".into()),
            (json!([]), 400, "json: cannot unmarshal array into Go value of type v1.DeleteOptions".into()),
        ] {
            let status = DeleteOptions::parse(&Query::default(), Some(&body)).unwrap_err();
            assert_eq!((status.code, status.message), (code, message), "{body}");
        }
    }

    #[test]
    fn answers_for_people_are_pretty() {
        for (query, agent, wanted) in [
            ("", "curl/8", true),
            ("", "kubectl/v1.34.4", false),
            ("pretty=0", "curl/8", false),
            ("pretty=true", "kubectl", true),
            ("pretty=yes", "kubectl", false),
        ] {
            assert_eq!(pretty(&Query::parse(query), agent), wanted, "{query} {agent}");
        }
        let wrong = TableOptions::parse(&Query::parse("includeObject=x")).unwrap_err();
        assert_eq!(
            wrong.message,
            "Unable to convert to Table as requested: includeObject: Invalid value: \"x\": must be 'Metadata', 'Object', 'None', or empty"
        );
    }
}
