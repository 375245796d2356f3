//! Levels of the Pod Security Standards, their versions, and the namespace labels that set them.

use std::fmt;

use setpoint_api::Status;
use setpoint_api::field::Errors;
use setpoint_registry_api::Review;
use setpoint_schema::fields;
use setpoint_strategy::meta;

const PREFIX: &str = "pod-security.kubernetes.io/";
/// The newest version of the standards.
const LATEST: u32 = 37;

/// A level of the Pod Security Standards.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// No restrictions.
    #[default]
    Privileged,
    /// Prevents known privilege escalations.
    Baseline,
    /// Requires hardening best practices.
    Restricted,
}

/// A level in one version of the standards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Standard {
    pub level: Level,
    /// The minor version of Kubernetes.
    pub version: u32,
    latest: bool,
}

/// The levels set by a namespace's labels.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Policy {
    pub enforce: Standard,
    pub warn: Standard,
}

impl Default for Standard {
    fn default() -> Self {
        Self {
            level: Level::default(),
            version: LATEST,
            latest: true,
        }
    }
}

impl fmt::Display for Standard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        };
        match self.latest {
            true => write!(f, "{level}:latest"),
            false => write!(f, "{level}:v1.{}", self.version),
        }
    }
}

impl Policy {
    /// The policy of a namespace; the enforced level is also the default for warnings.
    pub(super) fn of<'a>(label: impl Fn(&str) -> Option<&'a str>) -> Self {
        let level = |mode: &str| label(&format!("{PREFIX}{mode}"));
        let version = |mode: &str| {
            let text = label(&format!("{PREFIX}{mode}-version"));
            text.map(|text| parse_version(text).unwrap_or((LATEST, true)))
        };
        let standard = |level: Level, version: Option<(u32, bool)>| {
            let (version, latest) = version.unwrap_or((LATEST, true));
            Standard {
                level,
                version: version.min(LATEST),
                latest,
            }
        };
        // What is to be enforced and names no level is taken for the strictest, so that a slip of the pen opens
        // nothing; a warning is only a warning.
        let enforced = level("enforce").map(parse_level);
        let enforce = match enforced {
            Some(level) => level.unwrap_or(Level::Restricted),
            None => Level::default(),
        };
        let enforce = standard(enforce, version("enforce"));
        let warn = match (level("warn"), enforced) {
            (Some(level), _) => standard(parse_level(level).unwrap_or_default(), version("warn")),
            (None, Some(Some(level))) if level > Level::Privileged => match version("warn") {
                None => enforce,
                own => standard(level, own),
            },
            (None, _) => standard(Level::default(), version("warn")),
        };
        Self { enforce, warn }
    }
}

fn parse_level(text: &str) -> Option<Level> {
    match text {
        "privileged" => Some(Level::Privileged),
        "baseline" => Some(Level::Baseline),
        "restricted" => Some(Level::Restricted),
        _ => None,
    }
}

fn parse_version(text: &str) -> Option<(u32, bool)> {
    if text == "latest" {
        return Some((LATEST, true));
    }
    let minor = text.strip_prefix("v1.")?;
    let plain = minor == "0" || !minor.starts_with('0');
    let digits = minor.bytes().all(|byte| byte.is_ascii_digit());
    (plain && digits).then(|| minor.parse().ok().map(|minor| (minor, false)))?
}

/// Rejects changed labels whose value is not a level or a version.
pub(super) fn check_labels(review: &Review<'_>) -> Result<(), Status> {
    let Some(namespace) = review.object.as_deref() else {
        return Ok(());
    };
    let errors = Errors::default();
    let labels = errors.at(fields::METADATA).at(fields::LABELS);
    for mode in ["enforce", "audit", "warn"] {
        for (key, is_version) in [
            (format!("{PREFIX}{mode}"), false),
            (format!("{PREFIX}{mode}-version"), true),
        ] {
            let Some(value) = meta::entry(namespace, "labels", &key) else {
                continue;
            };
            if review.old.is_some_and(|old| old.label(&key) == Some(value)) {
                continue;
            }
            if is_version && parse_version(value).is_none() {
                labels.key(&key).invalid(value, "must be \"latest\" or \"v1.x\"");
            }
            if !is_version && parse_level(value).is_none() {
                labels
                    .key(&key)
                    .invalid(value, "must be one of privileged, baseline, restricted");
            }
        }
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&review.kind.gvk, review.name, &errors.into_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(labels: &[(&str, &str)], enforce: &str, warn: &str) {
        let policy = Policy::of(|label| {
            let own = label.strip_prefix(PREFIX)?;
            labels
                .iter()
                .find(|(key, _)| *key == own)
                .map(|(_, value)| *value)
        });
        assert_eq!(
            (
                policy.enforce.to_string().as_str(),
                policy.warn.to_string().as_str()
            ),
            (enforce, warn)
        );
    }

    #[test]
    fn labels_name_levels_and_versions() {
        check(&[], "privileged:latest", "privileged:latest");
        check(&[("enforce", "baseline")], "baseline:latest", "baseline:latest");
        check(
            &[
                ("enforce", "baseline"),
                ("warn", "restricted"),
                ("warn-version", "v1.30"),
            ],
            "baseline:latest",
            "restricted:v1.30",
        );
        check(
            &[("enforce", "restricted"), ("warn", "privileged")],
            "restricted:latest",
            "privileged:latest",
        );
    }

    #[test]
    fn an_invalid_level_is_enforced_as_restricted() {
        check(
            &[("enforce", "basline")],
            "restricted:latest",
            "privileged:latest",
        );
    }
}
