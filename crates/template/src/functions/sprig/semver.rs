//! `semver` and `semverCompare`: versions and constraints, by the rules of `github.com/Masterminds/semver`.

use std::cmp::Ordering;
use std::rc::Rc;
use std::sync::LazyLock;

use regex::Regex;

use super::super::Type::String as Text;
use super::super::{Context, Row, row};
use crate::value::{Operand, Value, Version};

pub(super) const ROWS: &[Row] = &[
    row("semver", &[Text], semver),
    row("semverCompare", &[Text, Text], semver_compare),
];

fn semver(_: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    Version::parse(args[0].as_str()).map(|version| Value::Version(Rc::new(version)))
}

fn semver_compare(context: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    let text = args[0].as_str();
    context.charge(text.len())?;
    let alternatives = parse_constraints(text)?;
    let version = Version::parse(args[1].as_str())?;
    let is_met = alternatives
        .iter()
        .any(|all| all.iter().all(|constraint| constraint.is_met_by(&version)));
    Ok(Value::Bool(is_met))
}

const OPERATORS: &str = r"=||!=|>|<|>=|=>|<=|=<|~|~>|\^";
const PATTERN: &str = r"v?([0-9|x|X|\*]+)(\.[0-9|x|X|\*]+)?(\.[0-9|x|X|\*]+)?(-([0-9A-Za-z\-]+(\.[0-9A-Za-z\-]+)*))?(\+([0-9A-Za-z\-]+(\.[0-9A-Za-z\-]+)*))?";

fn compile(pattern: String) -> Regex {
    Regex::new(&pattern).expect("the pattern is constant")
}

static ONE: LazyLock<Regex> = LazyLock::new(|| compile(format!(r"^\s*({OPERATORS})\s*({PATTERN})\s*$")));
static RANGE: LazyLock<Regex> = LazyLock::new(|| compile(format!(r"\s*({PATTERN})\s+-\s+({PATTERN})\s*")));
static EACH: LazyLock<Regex> = LazyLock::new(|| compile(format!(r"({OPERATORS})\s*({PATTERN})")));
static ALL: LazyLock<Regex> = LazyLock::new(|| {
    let one = format!(r"({OPERATORS})\s*({PATTERN})\s*");
    compile(format!(r"^(\s*{one})((?:\s+|,\s*){one})*$"))
});

/// The constraints of a text: alternatives, of each of which all must be met.
fn parse_constraints(text: &str) -> Result<Vec<Vec<Constraint>>, String> {
    let text = RANGE.replace_all(text, ">= $1, <= $11 ");
    let alternative = |text: &str| {
        if !ALL.is_match(text) {
            return Err(format!("improper constraint: {text}"));
        }
        EACH.find_iter(text)
            .map(|found| Constraint::parse(found.as_str()))
            .collect()
    };
    text.split("||").map(alternative).collect()
}

/// An operator with a version, of which the last numbers may be wildcards or absent.
#[derive(Debug)]
struct Constraint {
    operator: String,
    version: Version,
    wildcard: Wildcard,
}

/// The first number of a constraint's version that may have any value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wildcard {
    None,
    Major,
    Minor,
    Patch,
}

impl Constraint {
    fn parse(text: &str) -> Result<Self, String> {
        let captures = ONE
            .captures(text)
            .ok_or_else(|| format!("improper constraint: {text}"))?;
        let group = |i| captures.get(i).map_or("", |group| group.as_str());
        let is_any = |number: &str| matches!(number, "" | "x" | "X" | "*");
        let (major, minor, patch) = (
            group(3),
            group(4).trim_start_matches('.'),
            group(5).trim_start_matches('.'),
        );
        let prerelease = group(6);
        let (wildcard, version) = if is_any(major) {
            (Wildcard::Major, format!("0.0.0{prerelease}"))
        } else if is_any(minor) {
            (Wildcard::Minor, format!("{major}.0.0{prerelease}"))
        } else if is_any(patch) {
            (Wildcard::Patch, format!("{major}.{minor}.0{prerelease}"))
        } else {
            (Wildcard::None, group(2).to_owned())
        };
        Ok(Self {
            operator: group(1).to_owned(),
            version: Version::parse(&version).map_err(|_| "constraint Parser Error")?,
            wildcard,
        })
    }

    fn is_met_by(&self, version: &Version) -> bool {
        let is_hidden = !version.prerelease.is_empty() && self.version.prerelease.is_empty();
        if self.operator == "!=" {
            return self.differs_from(version, is_hidden);
        }
        if is_hidden {
            return false;
        }
        let order = version.compare(&self.version);
        match self.operator.as_str() {
            "" | "=" if self.wildcard == Wildcard::None => order == Ordering::Equal,
            "" | "=" | "~" | "~>" => self.has_same_minor(version, order),
            ">" => self.is_below(version, order),
            "<" => order == Ordering::Less,
            ">=" | "=>" => order != Ordering::Less,
            "<=" | "=<" => self.is_not_below(version, order),
            _ => self.is_compatible_with(version, order),
        }
    }

    fn differs_from(&self, version: &Version, is_hidden: bool) -> bool {
        if self.wildcard == Wildcard::None {
            return version.compare(&self.version) != Ordering::Equal;
        }
        if is_hidden {
            return false;
        }
        if self.version.major != version.major {
            return true;
        }
        match self.wildcard {
            Wildcard::Minor => false,
            _ if self.version.minor != version.minor => true,
            Wildcard::Patch => version.prerelease != self.version.prerelease,
            _ if self.version.patch != version.patch => true,
            _ => version.compare(&self.version) != Ordering::Equal,
        }
    }

    /// The operator `>`.
    fn is_below(&self, version: &Version, order: Ordering) -> bool {
        match self.wildcard {
            Wildcard::Minor => version.major > self.version.major,
            Wildcard::Patch => (version.major, version.minor) > (self.version.major, self.version.minor),
            _ => order == Ordering::Greater,
        }
    }

    /// The operator `<=`.
    fn is_not_below(&self, version: &Version, order: Ordering) -> bool {
        match self.wildcard {
            Wildcard::None => order != Ordering::Greater,
            Wildcard::Minor => version.major <= self.version.major,
            _ => (version.major, version.minor) <= (self.version.major, self.version.minor),
        }
    }

    /// The operator `~`.
    fn has_same_minor(&self, version: &Version, order: Ordering) -> bool {
        if order == Ordering::Less {
            return false;
        }
        let numbers = (self.version.major, self.version.minor, self.version.patch);
        if numbers == (0, 0, 0) && !matches!(self.wildcard, Wildcard::Minor | Wildcard::Patch) {
            return true;
        }
        version.major == self.version.major
            && (version.minor == self.version.minor || self.wildcard == Wildcard::Minor)
    }

    /// The operator `^`.
    fn is_compatible_with(&self, version: &Version, order: Ordering) -> bool {
        if order == Ordering::Less || version.major != self.version.major {
            return false;
        }
        if self.version.major > 0 || self.wildcard == Wildcard::Minor {
            return true;
        }
        if self.version.minor > 0 || self.wildcard == Wildcard::Patch {
            return version.minor == self.version.minor;
        }
        version.minor == 0 && version.patch == self.version.patch
    }
}
