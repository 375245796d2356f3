//! Names of images: `registry.example:5000/team/app:1.2@sha256:...`.
//!
//! The grammar is that of <https://github.com/distribution/reference/blob/main/reference.go>.

const TAG_BYTES: usize = 128;
const DIGEST_DIGITS: usize = 32;
const PATH_BYTES: usize = 255;
const LIBRARY: &str = "library/";

/// An image that may change under its name is pulled each time. What is no name at all is never asked for again.
pub(super) fn pull_policy(image: &str) -> &'static str {
    match tag(image) {
        Some("latest") => "Always",
        _ => "IfNotPresent",
    }
}

/// The tag: without one and without a digest it is the latest. `None` if there is a digest only, or no name.
fn tag(image: &str) -> Option<&str> {
    let (rest, digest) = match image.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (image, None),
    };
    let at = rest.rfind('/').map_or(0, |slash| slash + 1);
    let (name, tag) = match rest[at..].split_once(':') {
        Some((last, tag)) => (&rest[..at + last.len()], Some(tag)),
        None => (rest, None),
    };
    let good = is_name(name) && tag.is_none_or(is_tag) && digest.is_none_or(is_digest);
    match (tag, digest) {
        _ if !good => None,
        (None, None) => Some("latest"),
        (tag, _) => tag,
    }
}

/// A path of lower-case words, perhaps behind the host that has it.
fn is_name(name: &str) -> bool {
    let path = match name.split_once('/') {
        Some((host, path)) if is_host(host) => path,
        _ => name,
    };
    // What names no host and no team is in the library of the usual host.
    let library = if path == name && !path.contains('/') {
        LIBRARY.len()
    } else {
        0
    };
    if path.len() + library > PATH_BYTES {
        return false;
    }
    let is_id = name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    !is_id && path.split('/').all(is_word)
}

fn is_host(text: &str) -> bool {
    text.contains(['.', ':']) || text == "localhost" || text.bytes().any(|byte| byte.is_ascii_uppercase())
}

/// Letters and digits, with a dot, one or two underscores, or dashes between them.
fn is_word(word: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = word.as_bytes();
    let edges = bytes
        .first()
        .zip(bytes.last())
        .is_some_and(|(first, last)| plain(*first) && plain(*last));
    let mut runs = word
        .split(|char: char| char.is_ascii() && plain(char as u8))
        .filter(|run| !run.is_empty());
    edges && runs.all(|run| matches!(run, "." | "_" | "__") || run.bytes().all(|byte| byte == b'-'))
}

fn is_tag(tag: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let starts = tag.bytes().next().is_some_and(word);
    starts && tag.len() <= TAG_BYTES && tag.bytes().all(|byte| word(byte) || b".-".contains(&byte))
}

fn is_digest(digest: &str) -> bool {
    let Some((algorithm, number)) = digest.split_once(':') else {
        return false;
    };
    let named = !algorithm.is_empty()
        && algorithm
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_+.".contains(&byte));
    named && number.len() >= DIGEST_DIGITS && number.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(image: &str, expected: &str) {
        assert_eq!(pull_policy(image), expected, "{image}");
    }

    #[test]
    fn what_may_change_is_pulled_each_time() {
        check("app", "Always");
        check("registry.example:5000/team/app", "Always");
        check("app:latest", "Always");
        check("localhost/a__b/c-d.e", "Always");
    }

    #[test]
    fn what_is_fixed_is_pulled_once() {
        check("app:1", "IfNotPresent");
        check("app@sha256:0123456789abcdef0123456789abcdef", "IfNotPresent");
        check("registry.example:5000/app:1.2", "IfNotPresent");
    }

    #[test]
    fn what_is_no_name_is_pulled_once() {
        check("", "IfNotPresent");
        check(" app ", "IfNotPresent");
        check("team/App", "IfNotPresent");
        check("a..b", "IfNotPresent");
    }
}
