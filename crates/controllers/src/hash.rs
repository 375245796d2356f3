//! Hashes of pod templates: stable, and safe in labels and names.

/// Letters and digits without vowels, so that no bad words are formed by accident (upstream's `SafeEncodeString`).
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// The hash of these bytes. `collisions` counts the earlier collisions of the name, and changes the hash.
pub(crate) fn compute_hash(bytes: &[u8], collisions: Option<i32>) -> String {
    let mut sum = fnv(0x811c_9dc5, bytes);
    if let Some(collisions) = collisions {
        sum = fnv(sum, &collisions.to_le_bytes());
    }
    let letter = |digit: u8| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()]);
    sum.to_string().bytes().map(letter).collect()
}

/// The 32-bit FNV-1a hash, continued from a previous sum.
fn fnv(sum: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(sum, |sum, byte| {
        (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_stable_safe_and_changes_with_collisions() {
        let name = compute_hash(b"template", None);
        assert_eq!(name, compute_hash(b"template", None));
        assert_ne!(name, compute_hash(b"template", Some(1)));
        assert_ne!(name, compute_hash(b"another", None));
        assert!(name.bytes().all(|letter| ALPHABET.contains(&letter)));
    }

    #[test]
    fn the_sum_is_fnv() {
        assert_eq!(fnv(0x811c_9dc5, b"a"), 0xe40c_292c);
    }
}
