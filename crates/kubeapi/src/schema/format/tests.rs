use super::*;

#[test]
fn what_is_of_a_format_and_what_is_not() {
    let cases: [(&str, &[&str], &[&str]); 24] = [
        ("bsonobjectid", &["507f1f77bcf86cd799439011"], &["507f1f77bcf86cd79943901", "x"]),
        (
            "uri",
            &["https://a.b/c?d", "/path", "urn:x", "http://[::1]:80/"],
            &["", "a b", "x", "http://a:b/", "/%zz"],
        ),
        ("email", &["a@b", "A <a@b.c>", "a.b+c@d.e"], &["", "a", "@b", "a@", "a b@c"]),
        ("hostname", &["a", "a.example.com", "1a"], &["", "-a", "a_b", "a..b"]),
        ("ipv4", &["1.2.3.4", "01.2.3.4", "::ffff:1.2.3.4"], &["1.2.3", "1.2.3.256", "::1", ""]),
        ("ipv6", &["::1", "fe80::1"], &["1.2.3.4", ":::", ""]),
        ("cidr", &["10.0.0.0/8", "fd00::/64"], &["10.0.0.0", "10.0.0.0/33", "x/8", "10.0.0.0/"]),
        ("mac", &["01:23:45:67:89:ab", "0123.4567.89ab"], &["01:23", "zz:23:45:67:89:ab"]),
        ("uuid", &["123e4567-e89b-12d3-a456-426614174000"], &["123", ""]),
        ("uuid3", &["123e4567-e89b-32d3-a456-426614174000"], &["123e4567-e89b-12d3-a456-426614174000"]),
        ("uuid4", &["123e4567-e89b-42d3-a456-426614174000"], &["123e4567-e89b-12d3-a456-426614174000"]),
        ("uuid5", &["123e4567-e89b-52d3-a456-426614174000"], &["123e4567-e89b-12d3-a456-426614174000"]),
        ("isbn", &["0321751043", "978-0321751041"], &["0321751044"]),
        ("isbn10", &["0321751043"], &["978-0321751041"]),
        ("isbn13", &["978-0321751041"], &["0321751043", "978-0321751042"]),
        ("creditcard", &["4111-1111-1111-1111"], &["4111-1111-1111-1112", "1"]),
        ("ssn", &["111-11-1111"], &["1111"]),
        ("hexcolor", &["#fff", "AABBCC"], &["#ffff"]),
        ("rgbcolor", &["rgb(0, 12,255)"], &["rgb(0,0,256)"]),
        ("byte", &["aGk=", "aGkh"], &["", "a", "aGk"]),
        ("date", &["2024-02-29"], &["2023-02-29", "2024-2-2", "20240229"]),
        (
            "date-time",
            &["2024-01-01T00:00:00Z", "2024-01-01t23:59:59.5+01:00"],
            &["2024-01-01", "2024-01-01T24:00:00Z", "2024-01-01T00:00:00", ""],
        ),
        ("duration", &["1h30m", "0", "-1.5s", "3 days", "2 weeks", "1us"], &["", "x", "5", "3 parsecs"]),
        ("k8s-long-name", &["a.b-c"], &["A", "a..b", ""]),
    ];
    for (name, good, bad) in cases {
        let format = Format::parse(name).unwrap_or_else(|| panic!("{name} is not known"));
        assert_eq!(format.name(), name);
        for text in good {
            assert!(format.accepts(text), "{name} has to accept {text:?}");
        }
        for text in bad {
            assert!(!format.accepts(text), "{name} must not accept {text:?}");
        }
    }
    assert!(Format::parse("k8s-short-name").is_some_and(|name| name.accepts("a-b") && !name.accepts("a.b")));
    assert!(Format::parse("password").is_some_and(|name| name.accepts("")));
}

#[test]
fn names_are_looked_up_without_dashes_and_others_are_ignored() {
    assert_eq!(Format::parse("datetime"), Format::parse("date-time"));
    for unknown in ["", "int32", "int64", "float", "quantity"] {
        assert_eq!(Format::parse(unknown), None);
    }
}
