//! The `/version` object: the Kubernetes release whose API is served, and the build.

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

/// The minor release of Kubernetes whose API is served.
const MINOR: &str = "37";
/// The release of Kubernetes whose API is served.
pub const SERVED: &str = "v1.37.0";

/// The version that the server reports, if it is not its own.
static REPORTED: OnceLock<Version> = OnceLock::new();

/// Kubernetes' `version.Info`. The fields named after Go hold the Rust toolchain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    pub major: String,
    pub minor: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub emulation_major: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub emulation_minor: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub min_compatibility_major: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub min_compatibility_minor: String,
    pub git_version: String,
    pub git_commit: String,
    pub git_tree_state: String,
    pub build_date: String,
    pub go_version: String,
    pub compiler: String,
    pub platform: String,
}

impl Version {
    /// The server's version.
    pub fn server() -> Self {
        REPORTED.get().cloned().unwrap_or_else(Self::built)
    }

    /// Sets the version that the server reports, before it starts: another version of the same release, or the commit of
    /// another build. Clients with `--match-server-version` compare both (upstream: `SetDynamicVersion`).
    pub fn report(git_version: Option<String>, git_commit: Option<String>) {
        let built = Self::built();
        let tree_state = git_commit.is_some().then(|| "clean".to_owned());
        let reported = Self {
            git_version: git_version.unwrap_or(built.git_version),
            git_commit: git_commit.unwrap_or(built.git_commit),
            git_tree_state: tree_state.unwrap_or(built.git_tree_state),
            ..built
        };
        REPORTED.get_or_init(|| reported);
    }

    fn built() -> Self {
        Self {
            emulation_major: "1".to_owned(),
            emulation_minor: MINOR.to_owned(),
            min_compatibility_major: "1".to_owned(),
            min_compatibility_minor: "36".to_owned(),
            ..Self::client()
        }
    }

    /// The version of a client: the same program, which emulates nothing.
    pub fn client() -> Self {
        Self {
            major: "1".to_owned(),
            minor: MINOR.to_owned(),
            emulation_major: String::new(),
            emulation_minor: String::new(),
            min_compatibility_major: String::new(),
            min_compatibility_minor: String::new(),
            git_version: format!("{SERVED}+setpoint.{}", env!("CARGO_PKG_VERSION")),
            git_commit: option_env!("SETPOINT_COMMIT").unwrap_or("unknown").to_owned(),
            git_tree_state: option_env!("SETPOINT_TREE_STATE").unwrap_or("unknown").to_owned(),
            build_date: option_env!("SETPOINT_BUILD_DATE")
                .unwrap_or("1970-01-01T00:00:00Z")
                .to_owned(),
            go_version: format!("rust{}", env!("CARGO_PKG_RUST_VERSION")),
            compiler: "rustc".to_owned(),
            platform: platform(),
        }
    }
}

/// System and processor as Kubernetes spells them: `linux/amd64`.
fn platform() -> String {
    let processor = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{}/{processor}", std::env::consts::OS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TO9
    #[test]
    fn to9_the_version_has_every_field_kubectl_shows() {
        let json = serde_json::to_value(Version::server()).unwrap();
        let keys: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(
            keys,
            [
                "major",
                "minor",
                "emulationMajor",
                "emulationMinor",
                "minCompatibilityMajor",
                "minCompatibilityMinor",
                "gitVersion",
                "gitCommit",
                "gitTreeState",
                "buildDate",
                "goVersion",
                "compiler",
                "platform",
            ]
        );
        assert!(json["gitVersion"].as_str().unwrap().starts_with("v1.37.0"));
        assert_eq!(json["emulationMinor"], "37");
        assert!(serde_json::to_value(Version::client()).unwrap()["emulationMinor"].is_null());
    }
}
