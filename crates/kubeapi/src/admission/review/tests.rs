use super::*;

fn answer(response: Value) -> Value {
    json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response})
}

#[test]
fn answers_are_checked() {
    use ReviewVersion::{V1, V1beta1};
    let patch = STANDARD.encode(r#"[{"op": "remove", "path": "/a"}]"#);
    let yes = Answer { allowed: true, ..Answer::default() };
    let patched = Answer { patch: Some(json!([{"op": "remove", "path": "/a"}])), ..yes.clone() };
    let invalid = |why: &str| Err(format!("received invalid webhook response: {why}"));
    let plain = json!({"uid": "u", "allowed": true});
    let with = |more: Value| {
        let mut response = plain.clone();
        more.as_object().unwrap().iter().for_each(|(key, value)| response[key] = value.clone());
        answer(response)
    };
    let older = json!({"response": {"allowed": true, "patch": patch}});
    for (review, version, mutating, wanted) in [
        (answer(plain.clone()), V1, false, Ok(yes.clone())),
        (json!({}), V1, false, invalid("webhook response was absent")),
        (with(json!({"uid": "v"})), V1, false, invalid(r#"expected response.uid="u", got "v""#)),
        (
            json!({"response": plain.clone()}),
            V1,
            false,
            invalid("expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind="),
        ),
        (with(json!({"patch": patch, "patchType": "JSONPatch"})), V1, true, Ok(patched.clone())),
        (
            with(json!({"patch": patch})),
            V1,
            true,
            invalid("webhook returned response.patch but not response.patchType"),
        ),
        (
            with(json!({"patchType": "JSONPatch"})),
            V1,
            true,
            invalid("webhook returned response.patchType but not response.patch"),
        ),
        (
            with(json!({"patch": patch, "patchType": ""})),
            V1,
            true,
            invalid("webhook returned invalid response.patchType of \"\""),
        ),
        (
            with(json!({"patch": patch, "patchType": "Odd"})),
            V1,
            true,
            Err("unsupported patch type \"Odd\"".into()),
        ),
        (
            with(json!({"patch": patch, "patchType": "JSONPatch"})),
            V1,
            false,
            invalid("validating webhook may not return response.patch"),
        ),
        (
            with(json!({"patchType": "JSONPatch"})),
            V1,
            false,
            invalid("validating webhook may not return response.patchType"),
        ),
        (older.clone(), V1beta1, true, Ok(patched)),
        (older, V1beta1, false, Ok(yes.clone())),
        (with(json!({"patch": STANDARD.encode("[]"), "patchType": "JSONPatch"})), V1, true, Ok(yes)),
    ] {
        assert_eq!(read(&review, version, "u", mutating), wanted, "{review}");
    }
    let nonsense = with(json!({"patch": STANDARD.encode("{"), "patchType": "JSONPatch"}));
    let why = read(&nonsense, V1, "u", true).unwrap_err();
    assert!(why.starts_with("received undecodable patch in webhook response: "), "{why}");
}

#[test]
fn denials_say_who_and_why() {
    let by = "admission webhook \"w\" denied the request";
    for (result, code, reason, message) in [
        (Value::Null, 400, "", format!("{by} without explanation")),
        (json!({"message": "no"}), 400, "", format!("{by}: no")),
        (json!({"reason": "NoWay"}), 400, "NoWay", format!("{by}: NoWay")),
        (json!({"message": "no", "reason": "Forbidden", "code": 403}), 403, "Forbidden", format!("{by}: no")),
        (json!({"message": "no", "code": 200, "status": "Success"}), 400, "", format!("{by}: no")),
        (json!({"message": "no", "code": 70000}), 400, "", format!("{by}: no")),
    ] {
        let status = denied("w", &result);
        assert_eq!(
            (status.code, status.reason.as_str(), &status.message, status.status.as_str()),
            (code, reason, &message, "Failure"),
            "{result}"
        );
    }
}

#[test]
fn the_first_known_version_is_spoken() {
    let texts = |versions: &[&str]| versions.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
    for (versions, wanted) in [
        (&["v2", "v1beta1", "v1"][..], Some(ReviewVersion::V1beta1)),
        (&["v1"], Some(ReviewVersion::V1)),
        (&["v2"], None),
    ] {
        assert_eq!(ReviewVersion::choose(&texts(versions)), wanted, "{versions:?}");
    }
}
