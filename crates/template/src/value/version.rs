//! Semantic versions, as `github.com/Masterminds/semver` reads and compares them.

use std::cmp::Ordering;
use std::fmt;
use std::sync::LazyLock;

use regex::Regex;

/// A version: three numbers, a pre-release and build metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Version {
    pub(crate) major: u64,
    pub(crate) minor: u64,
    pub(crate) patch: u64,
    pub(crate) prerelease: String,
    pub(crate) metadata: String,
    pub(crate) original: String,
}

/// The pattern of a version, whose minor and patch numbers may be absent.
static PATTERN: LazyLock<Regex> = LazyLock::new(|| {
    let identifiers = r"([0-9A-Za-z\-]+(?:\.[0-9A-Za-z\-]+)*)";
    let pattern = format!(r"^v?([0-9]+)(\.[0-9]+)?(\.[0-9]+)?(?:-{identifiers})?(?:\+{identifiers})?$");
    Regex::new(&pattern).expect("the pattern is constant")
});

impl Version {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let captures = PATTERN.captures(text).ok_or("Invalid Semantic Version")?;
        let group = |i| captures.get(i).map_or("", |group| group.as_str());
        let number = |i| {
            match group(i).trim_start_matches('.') {
            "" => Ok(0),
            digits => digits.parse().map_err(|_| {
                format!("Error parsing version segment: strconv.ParseUint: parsing \"{digits}\": value out of range")
            }),
        }
        };
        let prerelease = group(4);
        for identifier in prerelease.split('.') {
            let is_number = identifier.bytes().all(|byte| byte.is_ascii_digit());
            if is_number && identifier.len() > 1 && identifier.starts_with('0') {
                return Err("Version segment starts with 0".to_owned());
            }
        }
        Ok(Self {
            major: number(1)?,
            minor: number(2)?,
            patch: number(3)?,
            prerelease: prerelease.to_owned(),
            metadata: group(5).to_owned(),
            original: text.to_owned(),
        })
    }

    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        let numbers = |version: &Self| (version.major, version.minor, version.patch);
        let order = numbers(self).cmp(&numbers(other));
        order.then_with(
            || match (self.prerelease.is_empty(), other.prerelease.is_empty()) {
                (true, true) => Ordering::Equal,
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                (false, false) => compare_prerelease(&self.prerelease, &other.prerelease),
            },
        )
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        if !self.prerelease.is_empty() {
            write!(f, "-{}", self.prerelease)?;
        }
        if !self.metadata.is_empty() {
            write!(f, "+{}", self.metadata)?;
        }
        Ok(())
    }
}

/// Identifiers are compared one by one; numbers come before names, and fewer identifiers before more.
pub(crate) fn compare_prerelease(a: &str, b: &str) -> Ordering {
    let mut left = a.split('.');
    let mut right = b.split('.');
    loop {
        let order = match (left.next(), right.next()) {
            (None, None) => return Ordering::Equal,
            (a, b) => compare_identifier(a.unwrap_or(""), b.unwrap_or("")),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

fn compare_identifier(a: &str, b: &str) -> Ordering {
    match (a.parse::<u64>(), b.parse::<u64>()) {
        _ if a == b => Ordering::Equal,
        _ if a.is_empty() => Ordering::Less,
        _ if b.is_empty() => Ordering::Greater,
        (Ok(a), Ok(b)) => a.cmp(&b),
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => a.cmp(b),
    }
}
