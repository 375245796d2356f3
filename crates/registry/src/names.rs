//! Name generation for objects with `metadata.generateName`.

use rand::Rng;

use setpoint_schema::Tree;
use setpoint_strategy::meta;

/// No vowels and no look-alikes, so that no word comes out.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_CHARS: usize = 5;
const BASE_BYTES: usize = 63 - SUFFIX_CHARS;
/// How many further names are tried when a generated one is taken.
pub(crate) const MAX_ATTEMPTS: usize = 8;

/// Whether the server has to generate the name.
pub(crate) fn is_generated(object: &Tree) -> bool {
    meta::name(object).is_empty() && !meta::str(object, "generateName").is_empty()
}

/// The base, cut to length, and five random characters.
pub(crate) fn generate(base: &str) -> String {
    let mut end = base.len().min(BASE_BYTES);
    while !base.is_char_boundary(end) {
        end -= 1;
    }
    let mut name = base[..end].to_owned();
    let mut random = rand::rng();
    for _ in 0..SUFFIX_CHARS {
        name.push(char::from(ALPHABET[random.random_range(0..ALPHABET.len())]));
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generated_name_is_the_base_and_five_characters() {
        let name = generate("web-");
        let suffix = name.strip_prefix("web-").unwrap();
        assert_eq!(suffix.len(), 5);
        assert!(suffix.bytes().all(|byte| ALPHABET.contains(&byte)));
    }

    #[test]
    fn a_long_base_is_cut_so_that_the_name_is_a_label() {
        assert_eq!(generate(&"x".repeat(100)).len(), 63);
        assert_eq!(generate(&"ä".repeat(40)).len(), 58 + 5);
    }
}
