//! The provenance of a build: an in-toto statement (<https://in-toto.io/Statement/v1>) with a SLSA predicate
//! (<https://slsa.dev/spec/v1.0/provenance>).

use serde_json::{Value, json};

use super::{BINARY, PROFILE};

/// What a binary was built from, and by what.
#[derive(Debug)]
pub(super) struct Build {
    pub(super) commit: String,
    /// Whether the source differed from the commit.
    pub(super) is_modified: bool,
    /// The output of `rustc -vV`.
    pub(super) rustc: String,
    pub(super) lock_digest: String,
    pub(super) binary_digest: String,
}

impl Build {
    pub(super) fn statement(&self) -> Value {
        let source = json!({
            "name": "source",
            "digest": {"gitCommit": self.commit},
            "annotations": {"modified": self.is_modified},
        });
        let compiler = json!({
            "name": "rustc",
            "uri": format!("pkg:generic/rustc@{}", field(&self.rustc, "release")),
            "digest": {"gitCommit": field(&self.rustc, "commit-hash")},
        });
        json!({
            "_type": "https://in-toto.io/Statement/v1",
            "subject": [{"name": BINARY, "digest": {"sha256": self.binary_digest}}],
            "predicateType": "https://slsa.dev/provenance/v1",
            "predicate": {
                "buildDefinition": {
                    "buildType": "https://doc.rust-lang.org/cargo/commands/cargo-build.html",
                    "externalParameters": {
                        "profile": PROFILE,
                        "package": BINARY,
                        "target": field(&self.rustc, "host"),
                        "locked": true,
                    },
                    "resolvedDependencies": [
                        source,
                        {"name": "Cargo.lock", "digest": {"sha256": self.lock_digest}},
                        compiler,
                    ],
                },
                "runDetails": {"builder": {"id": "cargo xtask dist"}},
            },
        })
    }
}

/// The value of a field in the output of `rustc -vV`.
pub(super) fn field<'a>(rustc: &'a str, name: &str) -> &'a str {
    let mut fields = rustc.lines().filter_map(|line| line.split_once(": "));
    fields
        .find(|(key, _)| *key == name)
        .map_or("unknown", |(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_names_source_tools_and_binary() {
        let build = Build {
            commit: "c0".to_owned(),
            is_modified: false,
            rustc: "rustc 1.95.0\ncommit-hash: 59\nhost: x86_64-unknown-linux-gnu\nrelease: 1.95.0\n"
                .to_owned(),
            lock_digest: "10".to_owned(),
            binary_digest: "b1".to_owned(),
        };
        let statement = build.statement();
        assert_eq!(statement["subject"][0]["digest"]["sha256"], "b1");
        let definition = &statement["predicate"]["buildDefinition"];
        assert_eq!(
            definition["externalParameters"]["target"],
            "x86_64-unknown-linux-gnu"
        );
        let digests: Vec<&Value> = definition["resolvedDependencies"]
            .as_array()
            .unwrap()
            .iter()
            .map(|dependency| &dependency["digest"])
            .collect();
        let expected = [
            json!({"gitCommit": "c0"}),
            json!({"sha256": "10"}),
            json!({"gitCommit": "59"}),
        ];
        assert!(digests.into_iter().eq(&expected));
    }

    #[test]
    fn an_absent_field_is_unknown() {
        assert_eq!(field("release: 1", "host"), "unknown");
    }
}
