//! Protobuf's own rules: tags, varints, lengths.

use super::Error;

/// The value of one field on the wire.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Wire<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

/// Splits a message into its fields, in the order of their numbers; those of one number stay in their order.
pub(super) fn fields(mut bytes: &[u8]) -> Result<Vec<(u32, Wire<'_>)>, Error> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes)?;
        let number = u32::try_from(tag >> 3).map_err(|_| Error::Malformed("field number"))?;
        if number == 0 {
            return Err(Error::Malformed("field number"));
        }
        let value = match tag & 7 {
            0 => Wire::Varint(varint(&mut bytes)?),
            1 => Wire::Fixed64(u64::from_le_bytes(fixed(&mut bytes)?)),
            2 => {
                let length = varint(&mut bytes)?;
                let length = usize::try_from(length).map_err(|_| Error::Malformed("length"))?;
                Wire::Bytes(take(&mut bytes, length)?)
            }
            5 => Wire::Fixed32(u32::from_le_bytes(fixed(&mut bytes)?)),
            _ => return Err(Error::Malformed("wire type")),
        };
        found.push((number, value));
    }
    found.sort_by_key(|(number, _)| *number);
    Ok(found)
}

/// Reads one varint and moves past it.
pub(super) fn varint(bytes: &mut &[u8]) -> Result<u64, Error> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let [byte] = fixed(bytes)?;
        // Of the tenth byte one bit is left.
        if shift == 63 && byte > 1 {
            break;
        }
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(Error::Malformed("varint"))
}

fn fixed<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], Error> {
    let (first, rest) = bytes.split_first_chunk::<N>().ok_or(Error::Truncated)?;
    *bytes = rest;
    Ok(*first)
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Result<&'a [u8], Error> {
    let (first, rest) = bytes.split_at_checked(length).ok_or(Error::Truncated)?;
    *bytes = rest;
    Ok(first)
}

/// Appends a varint.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        // The mask keeps it within a byte.
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a number field.
pub(crate) fn put_number(out: &mut Vec<u8>, number: u32, value: u64) {
    put_varint(out, u64::from(number) << 3);
    put_varint(out, value);
}

/// Appends a floating-point field.
pub(crate) fn put_double(out: &mut Vec<u8>, number: u32, value: f64) {
    put_varint(out, u64::from(number) << 3 | 1);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a field that has a length: text, bytes, a message.
pub(crate) fn put_bytes(out: &mut Vec<u8>, number: u32, value: &[u8]) {
    put_varint(out, u64::from(number) << 3 | 2);
    put_varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_back_in_the_order_of_their_numbers() {
        let mut bytes = Vec::new();
        put_bytes(&mut bytes, 9, b"x");
        put_number(&mut bytes, 2, u64::MAX);
        put_double(&mut bytes, 3, 1.5);
        put_number(&mut bytes, 2, 300);
        assert_eq!(
            fields(&bytes).unwrap(),
            [
                (2, Wire::Varint(u64::MAX)),
                (2, Wire::Varint(300)),
                (3, Wire::Fixed64(1.5f64.to_bits())),
                (9, Wire::Bytes(b"x"))
            ]
        );
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let cases: [(&[u8], Error); 7] = [
            (&[0x08], Error::Truncated),
            (&[0x08, 0x80], Error::Truncated),
            (&[0x0a, 2, 1], Error::Truncated),
            (&[0x09, 1, 2, 3], Error::Truncated),
            (&[0x00, 0x00], Error::Malformed("field number")),
            (&[0x0b], Error::Malformed("wire type")),
            (&[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02], Error::Malformed("varint")),
        ];
        for (bytes, error) in cases {
            assert_eq!(fields(bytes), Err(error), "{bytes:?}");
        }
    }
}
