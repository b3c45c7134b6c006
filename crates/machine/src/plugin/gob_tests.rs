//! What Go's own encoder wrote.

use super::*;

const HEAD: &str = "3aff8303010108526573706f6e736501ff84000103010d536572766963654d6574686f64010c0001035365710106000105\
4572726f72010c0000001fff84011a5250435365727665724472697665722e47657456657273696f6e0003040002";
const FLAGS: &str = "25ff84011e5250435365727665724472697665722e476574437265617465466c6167730101000cff85020102ff8600011000\
0058ff860006132a6d636e666c61672e537472696e67466c6167ff870301010a537472696e67466c616701ff8800010401044e616d65010c00010555\
73616765010c000106456e76566172010c00010556616c7565010c00000068ff88170103782d61010575736520610103585f41010364656600102a6d\
636e666c61672e496e74466c6167ff8903010107496e74466c616701ff8a00010401044e616d65010c0001055573616765010c000106456e76566172\
010c00010556616c7565010400000071ff8a0f0103782d6e01036e756d02fe025700182a6d636e666c61672e537472696e67536c696365466c6167ff\
8b0301010f537472696e67536c696365466c616701ff8c00010401044e616d65010c0001055573616765010c000106456e76566172010c0001055661\
6c756501ff8e00000016ff8d020101085b5d737472696e6701ff8e00010c00005bff8c120103782d6c01046c69737402020170017100112a6d636e66\
6c61672e426f6f6c466c6167ff8f03010108426f6f6c466c616701ff9000010301044e616d65010c0001055573616765010c000106456e7656617201\
0c00000050ff900e0103782d62010673776974636800132a6d636e666c61672e537472696e67466c6167ff88060103782d7a00182a6d636e666c6167\
2e537472696e67536c696365466c6167ff8c060103782d6500";
const REFUSAL: &str = "32ff8401135250435365727665724472697665722e466f6f010201167270633a2063616e27742066696e64206d6574686f64\
000aff81030102ff8200000003ff8200";

fn bytes(hex: &str) -> Vec<u8> {
    hex.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

#[test]
fn requests_are_written_as_go_writes_them() {
    let first = "2e7f030101075265717565737401ff80000102010d536572766963654d6574686f64010c00010353657101060000001fff80011a\
5250435365727665724472697665722e47657456657273696f6e000aff81030102ff8200000003ff8200";
    // Go sends the second definition behind the first head; the order does not matter.
    let (head, argument) = DEFINITIONS.split_at(0x2f);
    let version = request("RPCServerDriver.GetVersion", 0);
    let (request_head, empty) = version.split_at(version.len() - 4);
    assert_eq!([head, request_head, argument, empty].concat(), bytes(first));
    let second = "25ff80011e5250435365727665724472697665722e476574437265617465466c61677301010003ff8200";
    assert_eq!(request("RPCServerDriver.GetCreateFlags", 1), bytes(second));
}

#[test]
fn answers_are_read() {
    let stream = bytes(&[HEAD, FLAGS, REFUSAL].concat());
    let mut decoder = Decoder::new(stream.as_slice());
    let head = decoder.read().unwrap();
    assert_eq!(head.field("ServiceMethod").and_then(Value::text), Some("RPCServerDriver.GetVersion"));
    assert_eq!(decoder.read().unwrap(), Value::Int(1));
    assert_eq!(decoder.read().unwrap().field("Seq"), Some(&Value::Uint(1)));
    let Value::List(flags) = decoder.read().unwrap() else { panic!() };
    let flags: Vec<(&str, &Value)> = flags
        .iter()
        .map(|flag| match flag {
            Value::Named(name, value) => (name.as_str(), &**value),
            other => panic!("{other:?}"),
        })
        .collect();
    let kinds: Vec<&str> = flags.iter().map(|(name, _)| *name).collect();
    let expected = ["StringFlag", "IntFlag", "StringSliceFlag", "BoolFlag", "StringFlag", "StringSliceFlag"];
    assert_eq!(kinds, expected.map(|kind| format!("*mcnflag.{kind}")));
    assert_eq!(flags[0].1.field("Value"), Some(&Value::Text("def".into())));
    assert_eq!(flags[1].1.field("Value"), Some(&Value::Int(-300)));
    let list = ["p", "q"].map(|text| Value::Text(text.into())).to_vec();
    assert_eq!(flags[2].1.field("Value"), Some(&Value::List(list)));
    assert_eq!(flags[3].1.field("Name").and_then(Value::text), Some("x-b"));
    assert_eq!(
        (flags[4].1.field("Name").and_then(Value::text), flags[4].1.field("Value")),
        (Some("x-z"), None)
    );
    let refusal = decoder.read().unwrap();
    assert_eq!(refusal.field("Error").and_then(Value::text), Some("rpc: can't find method"));
    assert_eq!(decoder.read().unwrap(), Value::Struct(BTreeMap::new()));
    assert!(matches!(decoder.read(), Err(Error::Io(_))), "that was all");
}

#[test]
fn whatever_comes_is_read_or_refused() {
    let good = bytes(&[HEAD, FLAGS, REFUSAL].concat());
    // Every byte, changed in a few ways, and every place to break off.
    for at in 0..good.len() {
        for change in [0x01, 0x80, 0xff] {
            let mut bad = good.clone();
            bad[at] ^= change;
            let mut decoder = Decoder::new(bad.as_slice());
            while decoder.read().is_ok() {}
        }
        let mut decoder = Decoder::new(&good[..at]);
        while decoder.read().is_ok() {}
    }
}
