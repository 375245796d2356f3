//! Writes the schema pack: interface facts of every built-in type, from the published data into our own format.
//!
//! The format is described in `crates/schema/src/pack.rs`, which reads it. Facts only: whatever column the source has
//! that this file does not know is an error, so that no fact is lost in silence.

mod encode;
mod names;
mod source;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use source::Source;

const SOURCE: &str = "../shared/ref/types.json";
const TARGET: &str = "crates/schema/src/builtin.pack";

/// Writes the pack; with `--check` only compares it with what is committed.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let root = root();
    let fresh = fresh(&root.join(SOURCE))?;
    let target = root.join(TARGET);
    if args.iter().any(|arg| arg == "--check") {
        return compare(&fresh, &target);
    }
    fs::write(&target, &fresh).with_context(|| format!("cannot write {}", target.display()))
}

fn fresh(source: &Path) -> Result<Vec<u8>> {
    let text = fs::read_to_string(source).with_context(|| format!("cannot read {}", source.display()))?;
    let mut source: Source =
        serde_json::from_str(&text).context("the source has a column this tool does not know")?;
    names::add(&mut source)?;
    encode::pack(&source)
}

fn compare(fresh: &[u8], target: &Path) -> Result<()> {
    let committed = fs::read(target).with_context(|| format!("cannot read {}", target.display()))?;
    if committed != fresh {
        bail!("{} is not what `cargo xtask pack` writes", target.display());
    }
    Ok(())
}

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors()
        .nth(2)
        .expect("the crate lies two folders below the root")
        .to_path_buf()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_pack_is_what_the_source_gives() {
        let source = root().join(SOURCE);
        if !source.exists() {
            println!("skipped: {} is absent", source.display());
            return;
        }
        run(&["--check".to_string()]).unwrap();
    }

    #[test]
    fn an_unknown_column_is_refused() {
        let text = r#"{"kubernetes":"v1","groupVersions":{},"enums":{},"types":{"a":{"fields":[],"new":1}}}"#;
        let error = serde_json::from_str::<Source>(text).unwrap_err();
        assert!(error.to_string().contains("unknown field `new`"), "{error}");
    }

    #[test]
    fn a_type_that_is_not_there_is_refused() {
        let text = r#"{"kubernetes":"v1","groupVersions":{},"enums":{},
            "types":{"a":{"fields":[{"name":"f","type":"b.Missing"}]}}}"#;
        let source: Source = serde_json::from_str(text).unwrap();
        let error = encode::pack(&source).unwrap_err();
        assert!(format!("{error:#}").contains("b.Missing"), "{error:#}");
    }
}
