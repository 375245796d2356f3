//! `version`: the version of this program, in the form of upstream's.

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};

use super::plan::print_as;

/// The flags of `version`.
#[derive(Debug, Args)]
pub struct VersionArgs {
    /// Print the version as json or yaml.
    #[arg(long, short)]
    output: Option<String>,
}

pub(super) fn run(args: &VersionArgs) -> Result<()> {
    let version = version();
    match &args.output {
        Some(format) => print_as(&json!({"clientVersion": version}), format),
        None => {
            println!("KUDO Version: {}", text(&version));
            Ok(())
        }
    }
}

/// The fields of upstream's version that this program has.
pub(super) fn version() -> Value {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    json!({
        "gitVersion": env!("CARGO_PKG_VERSION"),
        "compiler": "rustc",
        "platform": format!("{}/{architecture}", std::env::consts::OS),
    })
}

fn text(version: &Value) -> String {
    let field = |name: &str| version[name].as_str().unwrap_or_default().to_owned();
    format!(
        "version.Info{{GitVersion:{:?}, Compiler:{:?}, Platform:{:?}}}",
        field("gitVersion"),
        field("compiler"),
        field("platform")
    )
}
