//! Generates the schema pack, which holds the schema of every built-in type in our own format, and the module of their
//! field names, from the published API types.
//!
//! The format is described in `crates/schema/src/pack.rs`, which reads it. A column of the source that
//! is not known here is an error, so that no data is dropped silently.

mod encode;
mod fields;
mod names;
mod source;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use source::Source;

const SOURCE: &str = "reference/types.json";
const PACK: &str = "crates/schema/src/builtin.pack";
const FIELDS: &str = "crates/schema/src/fields.rs";

/// Writes the pack and the field names; with `--check` only compares them with the committed files.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let root = root();
    let source = read(&root.join(SOURCE))?;
    let generated = [
        (PACK, encode::pack(&source)?),
        (FIELDS, fields::module(&source)?.into_bytes()),
    ];
    for (path, fresh) in generated {
        let target = root.join(path);
        if args.iter().any(|arg| arg == "--check") {
            compare(&fresh, &target)?;
        } else {
            fs::write(&target, &fresh).with_context(|| format!("cannot write {}", target.display()))?;
        }
    }
    Ok(())
}

fn read(source: &Path) -> Result<Source> {
    let text = fs::read_to_string(source).with_context(|| format!("cannot read {}", source.display()))?;
    let mut source: Source = serde_json::from_str(&text).context("the source has an unknown column")?;
    names::add(&mut source)?;
    Ok(source)
}

fn compare(fresh: &[u8], target: &Path) -> Result<()> {
    let committed = fs::read(target).with_context(|| format!("cannot read {}", target.display()))?;
    if committed != fresh {
        bail!("{} is out of date; run `cargo xtask pack`", target.display());
    }
    Ok(())
}

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors()
        .nth(2)
        .expect("the crate is two directories below the root")
        .to_path_buf()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_pack_and_field_names_are_up_to_date() {
        run(&["--check".to_string()]).unwrap();
    }

    #[test]
    fn an_unknown_column_is_rejected() {
        let text = r#"{"kubernetes":"v1","groupVersions":{},"enums":{},"types":{"a":{"fields":[],"new":1}}}"#;
        let error = serde_json::from_str::<Source>(text).unwrap_err();
        assert!(error.to_string().contains("unknown field `new`"), "{error}");
    }

    #[test]
    fn an_unknown_type_is_rejected() {
        let text = r#"{"kubernetes":"v1","groupVersions":{},"enums":{},
            "types":{"a":{"fields":[{"name":"f","type":"b.Missing"}]}}}"#;
        let source: Source = serde_json::from_str(text).unwrap();
        let error = encode::pack(&source).unwrap_err();
        assert!(format!("{error:#}").contains("b.Missing"), "{error:#}");
    }
}
