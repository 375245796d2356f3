//! Extracts the descriptions of the built-in types, which `kubectl explain` shows, from the source of `k8s-openapi`.
//!
//! That crate is a dependency already, and its generated source has every description of Kubernetes' OpenAPI as text. The
//! result is a table that the server embeds (`src/openapi/descriptions.rs`). Nothing is compiled for this but this file,
//! and nothing is downloaded. `SETPOINT_DESCRIPTIONS=none` leaves the table empty; so does a source that is not found, with
//! a warning.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

const DEPENDENCY: &str = "k8s-openapi";
/// The directory of the types of the Kubernetes release that is served.
const RELEASE: &str = "src/v1_37";
const LOCK_FILE: &str = "../../Cargo.lock";

// The format of the table: see `src/openapi/descriptions.rs`.
const SEPARATOR: &str = "\u{1f}";
const SECTION: &str = "\u{1e}";

/// The description of a type, under an empty name, and those of its fields.
type TypeDescriptions = Vec<(String, String)>;

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={LOCK_FILE}");
    println!("cargo::rerun-if-env-changed=SETPOINT_DESCRIPTIONS");
    let out = env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default();
    let is_wanted = env::var("SETPOINT_DESCRIPTIONS").as_deref() != Ok("none");
    let source = is_wanted.then(find_source).flatten();
    if is_wanted && source.is_none() {
        println!("cargo::warning=the source of {DEPENDENCY} is not found: OpenAPI will have no descriptions");
    }
    let mut types = BTreeMap::new();
    if let Some(source) = source {
        read_types(&source, &mut types)?;
    }
    fs::write(out.join("descriptions.txt"), table(&types))
}

/// The directory of the types: in cargo's registry, or else where `cargo metadata` finds the dependency.
fn find_source() -> Option<PathBuf> {
    let lock = fs::read_to_string(LOCK_FILE).ok()?;
    let entry = lock.split_once(&format!("name = \"{DEPENDENCY}\"\nversion = \""))?;
    let version = entry.1.split('"').next()?;
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")));
    let registries = home.and_then(|home| fs::read_dir(home.join("registry/src")).ok());
    let in_registry = registries
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .map(|registry| {
            registry
                .path()
                .join(format!("{DEPENDENCY}-{version}"))
                .join(RELEASE)
        })
        .find(|path| path.is_dir());
    in_registry.or_else(find_by_metadata)
}

/// By `cargo metadata`, which also knows dependencies that are vendored or replaced.
fn find_by_metadata() -> Option<PathBuf> {
    let metadata = Command::new(env::var_os("CARGO")?)
        .args(["metadata", "--format-version", "1", "--offline", "--locked"])
        .output()
        .ok()?;
    let metadata = String::from_utf8(metadata.stdout).ok()?;
    let package = metadata
        .split_once(&format!("{{\"name\":\"{DEPENDENCY}\",\"version\":"))?
        .1;
    let manifest = package.split_once("\"manifest_path\":\"")?.1.split('"').next()?;
    let manifest = manifest.replace("\\\\", "\\");
    let source = Path::new(&manifest).parent()?.join(RELEASE);
    source.is_dir().then_some(source)
}

/// Reads all files of a directory, each of which has one type.
fn read_types(directory: &Path, types: &mut BTreeMap<String, TypeDescriptions>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            read_types(&path, types)?;
        } else if let Some((name, described)) = read_type(&fs::read_to_string(&path)?) {
            types.insert(name, described);
        }
    }
    Ok(())
}

/// Reads the JSON schema of a type from the code that would build it:
///
/// ```text
///         "io.k8s.api.core.v1.Pod".into()
///         ...
///             "description": "Pod is ...",
///                 "kind": {
///                     "description": "Kind is ...",
///                 "spec": ({
///                     schema_obj.ensure_object().insert("description".into(), "Specification ...".into());
/// ```
fn read_type(source: &str) -> Option<(String, TypeDescriptions)> {
    let (_, schema) = source.split_once("fn schema_name()")?;
    let (name, schema) = schema.split_once(".into()")?;
    let name = name.split('"').nth(1)?.to_owned();
    let mut described = TypeDescriptions::new();
    let mut field = String::new();
    for line in schema.lines() {
        let depth = line.len() - line.trim_start().len();
        let line = line.trim_start();
        match depth {
            12 => {
                if let Some(text) = line.strip_prefix("\"description\": ").and_then(literal) {
                    described.push((String::new(), text));
                }
            }
            16 if line.ends_with('{') => field = literal(line).unwrap_or_default(),
            20 if !field.is_empty() => {
                let text = line.strip_prefix("\"description\": ").or_else(|| {
                    line.strip_prefix("schema_obj.ensure_object().insert(\"description\".into(), ")
                });
                if let Some(text) = text.and_then(literal) {
                    described.push((field.clone(), text));
                }
            }
            _ => {}
        }
    }
    Some((name, described))
}

/// The value of the string literal at the start of some code.
fn literal(code: &str) -> Option<String> {
    let mut text = String::new();
    let mut rest = code.strip_prefix('"')?.chars();
    loop {
        match rest.next()? {
            '"' => return Some(text),
            '\\' => text.push(match rest.next()? {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                'u' => {
                    let digits: String = rest.by_ref().skip(1).take_while(|digit| *digit != '}').collect();
                    u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32)?
                }
                other => other,
            }),
            other => text.push(other),
        }
    }
}

/// Writes the table, with every text once.
fn table(types: &BTreeMap<String, TypeDescriptions>) -> String {
    let mut texts: Vec<&str> = Vec::new();
    let mut indexes: HashMap<&str, usize> = HashMap::new();
    let mut lines: Vec<String> = Vec::new();
    for (name, described) in types {
        let mut line = name.clone();
        for (field, text) in described {
            let index = *indexes.entry(text).or_insert_with(|| {
                texts.push(text);
                texts.len() - 1
            });
            line.push_str(&format!("\n{field} {index}"));
        }
        lines.push(line);
    }
    format!("{}{SECTION}{}", texts.join(SEPARATOR), lines.join(SEPARATOR))
}
