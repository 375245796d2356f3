//! The rules of the kinds, as data: one file, one case, in the kind's `testdata` folder.
//!
//! A file has two documents: an object, and what a create makes of it. With three, the first is the object as it was,
//! the second the update, and the third what comes of that. The outcome is an object or a list of `errors`. `UPDATE=1`
//! rewrites the outcomes; the difference is for a person to read. A first line `# part: NAME` makes the update one of
//! that subresource, of an object that has the status the file gives it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use setpoint_api::User;
use setpoint_api::field::Errors;
use setpoint_kinds::{Facts, Kind, Kinds, meta};
use setpoint_schema::{Tree, prune};

#[test]
fn every_case_comes_out_as_its_file_says() {
    let kinds = Kinds::builtin();
    let mut files = Vec::new();
    collect(Path::new("src"), false, &mut files);
    files.sort();
    assert!(!files.is_empty());
    let wrong: Vec<String> = files.iter().filter_map(|file| check(&kinds, file)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is wrong with a case, if something is.
fn check(kinds: &Kinds, file: &Path) -> Option<String> {
    let text = std::fs::read_to_string(file).unwrap();
    let documents: Vec<&str> = text.split("\n---\n").collect();
    let (expected, given) = documents.split_last().unwrap();
    let found = match given {
        [new] => create(kinds, new),
        [old, new] => update(kinds, old, new, part(&text)),
        _ => panic!("{}: two or three documents", file.display()),
    };
    if std::env::var("UPDATE").is_ok_and(|value| value == "1") {
        let given = given.join("\n---\n");
        std::fs::write(file, format!("{given}\n---\n{:#}\n", found)).unwrap();
        return None;
    }
    let expected = value(&read(expected));
    (found != expected).then(|| format!("{}:\n{found:#}\nnot\n{expected:#}", file.display()))
}

fn create(kinds: &Kinds, document: &str) -> Value {
    let (kind, taken) = take_in(kinds, document);
    let mut object = match taken {
        Ok(object) => object,
        Err(errors) => return errors,
    };
    kind.prepare_create(&mut object, &facts());
    let errors = Errors::default();
    kind.validate(&object, &errors);
    outcome(&*kind, &object, errors)
}

/// The subresource that the case is about.
fn part(text: &str) -> Option<&str> {
    text.lines().next()?.strip_prefix("# part: ")
}

/// The update starts from the old object with everything that the new document says laid over it.
fn update(kinds: &Kinds, old: &str, new: &str, part: Option<&str>) -> Value {
    let (kind, old) = take_in(kinds, old);
    let mut old = old.unwrap();
    let status = old.get("status").cloned();
    kind.prepare_create(&mut old, &facts());
    if let (Some(_), Some(status)) = (part, status) {
        old.set(&["status"], status);
    }
    let (kind, new) = take_in(kinds, new);
    let mut new = match new {
        Ok(new) => new,
        Err(errors) => return errors,
    };
    meta::copy(&mut new, &old, "generation");
    let part = part.map(|name| kind.about().find_subresource(name).unwrap());
    let part = part.map(|subresource| (subresource.part, subresource.name));
    kind.prepare_update(&mut new, &old, part, &facts());
    let errors = Errors::default();
    kind.validate_update(&new, &old, part, &errors);
    outcome(&*kind, &new, errors)
}

type Taken = Result<Tree, Value>;

fn take_in(kinds: &Kinds, document: &str) -> (Arc<dyn Kind>, Taken) {
    let mut tree = read(document);
    let kind = kind_of(kinds, &tree);
    let problems = prune(kind.shape(), &mut tree);
    assert!(problems.list.is_empty(), "{problems:?}");
    if let Some(mismatch) = problems.mismatch {
        return (kind, Err(json!({"errors": [mismatch]})));
    }
    let taken = kind.take_in(&mut tree);
    kind.fill_in(&mut tree, &facts());
    let taken = taken.map_err(|problem| json!({"errors": [problem.to_string()]}));
    (kind, taken.map(|()| tree))
}

fn outcome(kind: &dyn Kind, object: &Tree, errors: Errors) -> Value {
    if !errors.is_empty() {
        let lines: Vec<String> = errors.into_vec().iter().map(ToString::to_string).collect();
        return json!({"errors": lines});
    }
    let written = kind.write(object);
    let mut object: Value = serde_json::from_slice(&written.bytes).unwrap();
    object["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("resourceVersion");
    object
}

fn kind_of(kinds: &Kinds, tree: &Tree) -> Arc<dyn Kind> {
    let name = tree.str_at(&["kind"]).unwrap();
    let version = tree.str_at(&["apiVersion"]).unwrap();
    let found = kinds.iter().find(|kind| {
        let gvk = &kind.about().gvk;
        gvk.kind == name && gvk.api_version() == version
    });
    found.unwrap().clone()
}

fn read(document: &str) -> Tree {
    setpoint_codec::yaml::parse(document.as_bytes()).unwrap()
}

fn value(tree: &Tree) -> Value {
    serde_json::from_slice(&setpoint_codec::json::write(tree)).unwrap()
}

fn facts() -> Facts {
    Facts {
        now: "2026-01-02T03:04:05Z".parse().unwrap(),
        user: Arc::new(User::component("tester")),
        event_ttl: Duration::from_secs(3600),
    }
}

fn collect(folder: &Path, within: bool, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let within = within || path.ends_with("testdata");
        if path.is_dir() {
            collect(&path, within, files);
        } else if within && path.extension().is_some_and(|extension| extension == "yaml") {
            files.push(path);
        }
    }
}
