//! Image references: `registry.example:5000/team/app:1.2@sha256:...`.
//!
//! The grammar is that of <https://github.com/distribution/reference/blob/main/reference.go>.

const TAG_BYTES: usize = 128;
const DIGEST_DIGITS: usize = 32;
const PATH_BYTES: usize = 255;
const LIBRARY: &str = "library/";

/// The default pull policy: `Always` for the tag `latest`, else `IfNotPresent`, also for an invalid reference.
pub(super) fn pull_policy(image: &str) -> &'static str {
    match tag(image) {
        Some("latest") => "Always",
        _ => "IfNotPresent",
    }
}

/// The tag; `latest` without a tag and a digest. `None` if there is only a digest, or the reference is invalid.
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

/// A path of lower-case components, with an optional registry host.
fn is_name(name: &str) -> bool {
    let path = match name.split_once('/') {
        Some((host, path)) if is_host(host) => path,
        _ => name,
    };
    // A name without a host and a slash is in the `library/` of the default registry.
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

/// Letters and digits, separated by a dot, one or two underscores, or dashes.
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
    fn images_with_the_latest_tag_are_always_pulled() {
        check("app", "Always");
        check("registry.example:5000/team/app", "Always");
        check("app:latest", "Always");
        check("localhost/a__b/c-d.e", "Always");
    }

    #[test]
    fn images_with_a_fixed_tag_are_pulled_if_not_present() {
        check("app:1", "IfNotPresent");
        check("app@sha256:0123456789abcdef0123456789abcdef", "IfNotPresent");
        check("registry.example:5000/app:1.2", "IfNotPresent");
    }

    #[test]
    fn invalid_images_are_pulled_if_not_present() {
        check("", "IfNotPresent");
        check(" app ", "IfNotPresent");
        check("team/App", "IfNotPresent");
        check("a..b", "IfNotPresent");
    }
}
