use serde_json::json;

use super::*;

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
    }
    headers
}

fn names(headers: &HeaderMap) -> Vec<&str> {
    let mut names: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
    names.sort_unstable();
    names
}

#[test]
fn tokens_are_read() {
    for (value, token) in [
        ("Bearer abc", Some("abc")),
        ("bearer  abc ", Some("abc")),
        ("Basic abc", None),
        ("Bearer", None),
        ("Bearer ", None),
    ] {
        assert_eq!(bearer(&headers(&[("authorization", value)])), token, "{value}");
    }
    assert_eq!(bearer(&HeaderMap::new()), None);
}

#[test]
fn tokens_among_websocket_protocols_go_no_further() {
    let token = "base64url.bearer.authorization.k8s.io.c2VjcmV0";
    for (sent, kept) in [
        (
            vec![format!("{token}, v4.channel.k8s.io"), "v5.channel.k8s.io".to_owned()],
            vec!["v4.channel.k8s.io", "v5.channel.k8s.io"],
        ),
        (vec![token.to_owned()], vec![]),
        (vec!["v4.channel.k8s.io".to_owned(), token.to_owned()], vec!["v4.channel.k8s.io"]),
    ] {
        let pairs: Vec<(&str, &str)> =
            sent.iter().map(|value| ("sec-websocket-protocol", value.as_str())).collect();
        let mut headers = headers(&pairs);
        strip_identity(&mut headers);
        let left: Vec<&str> =
            headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().map(|value| value.to_str().unwrap()).collect();
        assert_eq!(left, kept, "{sent:?}");
    }
}

#[test]
fn a_hosts_headers_become_json() {
    let said = headers(&[
        ("X-Cattle-Id", "0123"),
        ("X-Cattle-Role-Etcd", "true"),
        ("x-cattle-labels", "a=b"),
        ("x-cattle-labels", "c=d"),
        ("Authorization", "Bearer secret"),
    ]);
    assert_eq!(introduction(&said), json!({"id": ["0123"], "role-etcd": ["true"], "labels": ["a=b", "c=d"]}));
    assert_eq!(machine_id(&said), Some("0123"));
    assert_eq!(machine_id(&headers(&[("X-Cattle-Id", " ")])), None);
}

#[test]
fn what_belongs_to_a_connection_stays_there() {
    let mut plain =
        headers(&[("connection", "close, X-Mine"), ("x-mine", "1"), ("te", "x"), ("accept", "*/*")]);
    strip_hop(&mut plain);
    assert_eq!(names(&plain), ["accept"]);
    let mut exec = headers(&[("connection", "Upgrade"), ("upgrade", "SPDY/3.1"), ("keep-alive", "1")]);
    strip_hop(&mut exec);
    assert_eq!(names(&exec), ["connection", "upgrade"]);
    assert_eq!(exec["upgrade"], "SPDY/3.1");
    // Without being asked for, it is none.
    let mut odd = headers(&[("upgrade", "websocket")]);
    strip_hop(&mut odd);
    assert!(odd.is_empty());
}

#[test]
fn nobody_acts_as_somebody_else() {
    let theirs = headers(&[
        ("authorization", "Bearer x"),
        ("cookie", "R_SESS=x"),
        ("host", "h"),
        ("impersonate-user", "admin"),
        ("impersonate-group", "system:masters"),
        ("impersonate-uid", "1"),
        ("impersonate-extra-scopes", "all"),
        ("x-remote-user", "admin"),
        ("x-remote-group", "system:masters"),
        ("x-remote-extra-a", "b"),
        ("accept", "*/*"),
    ]);
    let mut other = theirs.clone();
    strip_identity(&mut other);
    assert_eq!(names(&other), ["accept"]);
    let mut own = theirs;
    strip_front_proxy(&mut own);
    let kept = [
        "accept",
        "authorization",
        "cookie",
        "impersonate-extra-scopes",
        "impersonate-group",
        "impersonate-uid",
        "impersonate-user",
    ];
    assert_eq!(names(&own), kept);
}

#[test]
fn a_request_acts_as_a_user() {
    let mut set = HeaderMap::new();
    let user = User { name: "jane".into(), groups: vec!["x".into(), "y".into()], ..User::default() };
    assert!(act_as(&mut set, &user));
    assert_eq!(set["impersonate-user"], "jane");
    let groups: Vec<_> = set.get_all("impersonate-group").iter().collect();
    assert_eq!(groups, ["x", "y"]);
    // What follows from an account's name is not said: saying it takes a right of its own.
    let account = User { name: "system:serviceaccount:a:b".into(), uid: "u".into(), ..user };
    let mut set = HeaderMap::new();
    assert!(act_as(&mut set, &account));
    assert_eq!(names(&set), ["impersonate-user"]);
    for bad in [
        User { name: "a\nb".into(), ..User::default() },
        User { name: "a".into(), groups: vec!["x\ny".into()], ..User::default() },
        User { name: "a\nb".into(), groups: vec!["x".into()], ..User::default() },
    ] {
        let mut set = HeaderMap::new();
        assert!(!act_as(&mut set, &bad) && set.is_empty(), "{bad:?}");
    }
}

#[test]
fn only_an_administrator_acts_as_somebody_else() {
    let theirs = headers(&[
        ("authorization", "Bearer x"),
        ("impersonate-user", "jane"),
        ("impersonate-group", "devs"),
    ]);
    let node = User { name: "node".into(), groups: vec!["nodes".into()], ..User::default() };
    let mut asked = theirs.clone();
    assert!(become_user(&mut asked, node.clone()));
    assert_eq!(
        (&asked["impersonate-user"], &asked["impersonate-group"]),
        (&"node".parse().unwrap(), &"nodes".parse().unwrap())
    );
    let admin = User { name: "admin".into(), groups: vec![MASTERS.into()], ..User::default() };
    let mut asked = theirs;
    assert!(become_user(&mut asked, admin.clone()));
    assert_eq!(
        (&asked["impersonate-user"], &asked["impersonate-group"]),
        (&"jane".parse().unwrap(), &"devs".parse().unwrap())
    );
    assert!(!asked.contains_key("authorization"));
    let mut plain = HeaderMap::new();
    assert!(become_user(&mut plain, admin.clone()));
    assert_eq!(
        (&plain["impersonate-user"], &plain["impersonate-group"]),
        (&"admin".parse().unwrap(), &MASTERS.parse().unwrap())
    );
    let mut groups = headers(&[("impersonate-group", "devs")]);
    assert!(!become_user(&mut groups, admin));
}

#[test]
fn nobody_has_our_headers_taken_away_again() {
    let node = User { name: "node".into(), groups: vec!["nodes".into()], ..User::default() };
    for named in
        ["impersonate-user", "Impersonate-User, Impersonate-Group, close", "authorization", "upgrade"]
    {
        let mut theirs = headers(&[("connection", named), ("upgrade", "websocket"), ("accept", "*/*")]);
        assert!(become_user(&mut theirs, node.clone()));
        // What `forward` does last.
        strip_hop(&mut theirs);
        assert_eq!(theirs["impersonate-user"], "node", "{named}");
        assert_eq!(theirs["impersonate-group"], "nodes", "{named}");
    }
}

#[test]
fn only_a_load_balancers_word_counts() {
    let proxies = Proxies::new(&["10.0.0.0/8".into(), "fd00::1".into()]).unwrap();
    for (peer, forwarded, origin) in [
        ("203.0.113.9", "1.1.1.1", "203.0.113.9"),
        ("10.1.2.3", "", "10.1.2.3"),
        ("10.1.2.3", "1.1.1.1", "1.1.1.1"),
        ("10.1.2.3", "9.9.9.9, 1.1.1.1, 10.4.4.4", "1.1.1.1"),
        ("::ffff:10.1.2.3", "1.1.1.1", "1.1.1.1"),
        ("fd00::1", "2001:db8::7", "2001:db8::7"),
        ("fd00::2", "2001:db8::7", "fd00::2"),
        ("10.1.2.3", "nonsense", "10.1.2.3"),
        ("10.1.2.3", "nonsense, 1.1.1.1", "1.1.1.1"),
    ] {
        let said = headers(&[("x-forwarded-for", forwarded)]);
        assert_eq!(proxies.origin(&said, peer.parse().unwrap()).to_string(), origin, "{peer} {forwarded}");
    }
    for bad in ["10.0.0.0/33", "x", "10.0.0.0/x", "fd00::/129"] {
        assert!(Proxies::new(&[bad.into()]).is_err(), "{bad}");
    }
    assert!(Proxies::new(&["0.0.0.0/0".into()]).unwrap().contain("1.2.3.4".parse().unwrap()));
}
