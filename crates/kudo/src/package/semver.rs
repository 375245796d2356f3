//! Versions of operators: semantic versions, in which minor and patch may be left out.

use std::cmp::Ordering;

/// A semantic version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    numbers: [u64; 3],
    /// The identifiers after the first dash.
    prerelease: Vec<String>,
}

impl Version {
    /// Parses a version such as `1.2`, `v1.2.3` or `1.2.3-beta1`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let invalid = || "Invalid Semantic Version".to_owned();
        let core = text.strip_prefix('v').unwrap_or(text);
        let core = core.split_once('+').map_or(core, |(core, _)| core);
        let (core, prerelease) = core.split_once('-').unwrap_or((core, ""));
        let mut numbers = [0; 3];
        let parts: Vec<&str> = core.split('.').collect();
        if parts.len() > 3 {
            return Err(invalid());
        }
        for (number, part) in numbers.iter_mut().zip(parts) {
            let is_number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            *number = part.parse().ok().filter(|_| is_number).ok_or_else(invalid)?;
        }
        let prerelease = prerelease
            .split('.')
            .filter(|part| !part.is_empty())
            .map(str::to_owned);
        Ok(Self {
            numbers,
            prerelease: prerelease.collect(),
        })
    }

    /// Major and minor.
    pub fn major_minor(&self) -> [u64; 2] {
        [self.numbers[0], self.numbers[1]]
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_numbers = self.numbers.cmp(&other.numbers);
        by_numbers.then_with(
            || match (self.prerelease.is_empty(), other.prerelease.is_empty()) {
                (true, true) => Ordering::Equal,
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                (false, false) => compare_identifiers(&self.prerelease, &other.prerelease),
            },
        )
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Numbers are less than other identifiers.
fn compare_identifiers(left: &[String], right: &[String]) -> Ordering {
    for (left, right) in left.iter().zip(right) {
        let order = match (left.parse::<u64>(), right.parse::<u64>()) {
            (Ok(left), Ok(right)) => left.cmp(&right),
            (Ok(_), Err(_)) => Ordering::Less,
            (Err(_), Ok(_)) => Ordering::Greater,
            (Err(_), Err(_)) => left.cmp(right),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
    left.len().cmp(&right.len())
}

/// The order of two versions. Texts that are no semantic version come before those that are.
pub fn compare(left: &str, right: &str) -> Ordering {
    match (Version::parse(left), Version::parse(right)) {
        (Ok(left), Ok(right)) => left.cmp(&right),
        (Ok(_), Err(_)) => Ordering::Greater,
        (Err(_), Ok(_)) => Ordering::Less,
        (Err(_), Err(_)) => left.cmp(right),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(ordered: &[&str]) {
        for pair in ordered.windows(2) {
            assert_eq!(compare(pair[0], pair[1]), Ordering::Less, "{pair:?}");
        }
    }

    #[test]
    fn versions_are_ordered_by_their_numbers() {
        check(&[
            "abc",
            "cde",
            "0.9",
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0",
            "1.0.1",
            "2.1",
            "10.0.0",
        ]);
        assert_eq!(compare("1.0", "1.0.0"), Ordering::Equal);
    }

    #[test]
    fn a_text_without_numbers_is_no_version() {
        assert_eq!(Version::parse("1.x"), Err("Invalid Semantic Version".to_owned()));
        assert_eq!(Version::parse(""), Err("Invalid Semantic Version".to_owned()));
    }
}
