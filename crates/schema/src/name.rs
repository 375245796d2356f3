//! Comparison of names: keys of objects and members of types, which are mostly shorter than 17 bytes.

/// Whether two names are equal. Short ones are compared as two words that may overlap, without a call.
#[inline]
pub(crate) fn is_same(left: &str, right: &str) -> bool {
    left.len() == right.len() && have_same_bytes(left.as_bytes(), right.as_bytes())
}

/// Whether two names of one length are equal.
#[inline]
fn have_same_bytes(left: &[u8], right: &[u8]) -> bool {
    match left.len() {
        8..=16 => words::<8>(left) == words::<8>(right),
        4..8 => words::<4>(left) == words::<4>(right),
        2..4 => words::<2>(left) == words::<2>(right),
        _ => left == right,
    }
}

/// The first and the last `N` bytes.
#[inline]
fn words<const N: usize>(bytes: &[u8]) -> Option<([u8; N], [u8; N])> {
    Some((*bytes.first_chunk()?, *bytes.last_chunk()?))
}

/// A hash of the first and the last eight bytes, which distinguish nearly all names within a type.
#[inline]
pub(crate) fn hash(name: &str) -> u32 {
    let bytes = name.as_bytes();
    let (first, last) = match bytes.len() {
        8.. => words::<8>(bytes).map_or((0, 0), |(first, last)| {
            (u64::from_le_bytes(first), u64::from_le_bytes(last))
        }),
        4..8 => words::<4>(bytes).map_or((0, 0), |(first, last)| {
            (u32::from_le_bytes(first).into(), u32::from_le_bytes(last).into())
        }),
        _ => (bytes.iter().fold(0, |all, byte| all << 8 | u64::from(*byte)), 0),
    };
    let mixed = (first ^ last.rotate_left(23)).wrapping_add(bytes.len() as u64);
    (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_every_length_differ_in_every_byte() {
        for length in 0..40 {
            let name = "x".repeat(length);
            assert!(is_same(&name, &"x".repeat(length)));
            assert!(!is_same(&name, &"x".repeat(length + 1)));
            for at in 0..length {
                let mut other = name.clone();
                other.replace_range(at..=at, "y");
                assert!(!is_same(&name, &other), "{other}");
            }
        }
    }
}
