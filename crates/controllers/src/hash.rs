//! Short names for templates: stable, safe in labels and names, and free of words.

/// Letters and digits of which no word can be made by accident.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// A short name for these bytes. Others may have the same; `collisions` counts how often that has happened, and gives
/// another name each time.
pub(crate) fn short(bytes: &[u8], collisions: Option<i32>) -> String {
    let mut sum = fnv(0x811c_9dc5, bytes);
    if let Some(collisions) = collisions {
        sum = fnv(sum, &collisions.to_le_bytes());
    }
    let letter = |digit: u8| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()]);
    sum.to_string().bytes().map(letter).collect()
}

/// The FNV-1a hash of 32 bits, going on from a sum.
fn fnv(sum: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(sum, |sum, byte| {
        (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_stable_safe_and_changes_with_collisions() {
        let name = short(b"template", None);
        assert_eq!(name, short(b"template", None));
        assert_ne!(name, short(b"template", Some(1)));
        assert_ne!(name, short(b"another", None));
        assert!(name.bytes().all(|letter| ALPHABET.contains(&letter)));
    }

    #[test]
    fn the_sum_is_fnv() {
        assert_eq!(fnv(0x811c_9dc5, b"a"), 0xe40c_292c);
    }
}
