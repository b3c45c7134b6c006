//! Signed numbers as Go's `encoding/binary` writes them: zig-zag, then seven bits a byte, the lowest first.

use bytes::{Buf as _, BufMut, Bytes};

/// No number takes more bytes.
pub(crate) const LONGEST: usize = 10;

/// Appends a number.
pub(crate) fn put(to: &mut impl BufMut, number: i64) {
    let mut rest = ((number << 1) ^ (number >> 63)).cast_unsigned();
    while rest >= 0x80 {
        to.put_u8((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    to.put_u8(rest as u8);
}

/// Takes a number off the front; `None` if there is none, or one that 64 bits cannot hold.
pub(crate) fn take(from: &mut Bytes) -> Option<i64> {
    let mut number = 0u64;
    for position in 0..LONGEST {
        let byte = from.try_get_u8().ok()?;
        // The tenth byte has room for one bit.
        if position == LONGEST - 1 && byte > 1 {
            return None;
        }
        number |= u64::from(byte & 0x7f) << (7 * position);
        if byte < 0x80 {
            return Some((number >> 1).cast_signed() ^ -(number & 1).cast_signed());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(number: i64) -> Vec<u8> {
        let mut bytes = Vec::new();
        put(&mut bytes, number);
        bytes
    }

    #[test]
    fn as_go_writes_them() {
        let table: [(i64, &[u8]); 8] = [
            (0, &[0]),
            (-1, &[1]),
            (1, &[2]),
            (63, &[0x7e]),
            (64, &[0x80, 1]),
            (15_000, &[0xb0, 0xea, 1]),
            (i64::MAX, &[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]),
            (i64::MIN, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]),
        ];
        for (number, bytes) in table {
            assert_eq!(written(number), bytes, "{number}");
            assert_eq!(take(&mut Bytes::copy_from_slice(bytes)), Some(number));
        }
    }

    #[test]
    fn what_is_no_number() {
        for bytes in [
            &[][..],
            &[0x80],
            &[0xff; 9],
            &[0xff; 10],
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2],
        ] {
            assert_eq!(take(&mut Bytes::copy_from_slice(bytes)), None, "{bytes:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn what_is_written_is_read(number: i64, rest: Vec<u8>) {
            let mut bytes = written(number);
            bytes.extend(&rest);
            let mut bytes = Bytes::from(bytes);
            proptest::prop_assert_eq!(take(&mut bytes), Some(number));
            proptest::prop_assert_eq!(bytes, rest);
        }
    }
}
