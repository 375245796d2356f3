//! Validation as data: one file per case, in the kind's `testdata` folder.
//!
//! A file has two YAML documents: an object, and the outcome of its create. With three, the first is the old object,
//! the second the update, and the third its outcome. An outcome is an object or a list of `errors`. `UPDATE=1`
//! rewrites the outcomes; review reads the diff. A first line `# subresource: NAME` makes the update one of that
//! subresource, of an object that has the status in the file.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use setpoint_api::User;
use setpoint_api::field::Errors;
use setpoint_schema::{Tree, prune};
use setpoint_strategy::{Kind, Kinds, RequestFacts, UpdateContext, meta};

#[test]
fn every_case_has_the_outcome_in_its_file() {
    let builtin = setpoint_kinds::builtin();
    let kinds: Kinds = builtin
        .iter()
        .cloned()
        .chain(setpoint_kinds::metrics::all())
        .collect();
    let mut files = Vec::new();
    collect(Path::new("src"), false, &mut files);
    files.sort();
    assert!(!files.is_empty());
    let wrong: Vec<String> = files.iter().filter_map(|file| check(&kinds, file)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The mismatch of a case, if there is one.
fn check(kinds: &Kinds, file: &Path) -> Option<String> {
    let text = std::fs::read_to_string(file).unwrap();
    let documents: Vec<&str> = text.split("\n---\n").collect();
    let (expected, inputs) = documents.split_last().unwrap();
    let actual = match inputs {
        [new] => create(kinds, new),
        [old, new] => update(kinds, old, new, subresource(&text)),
        _ => panic!("{}: two or three documents", file.display()),
    };
    if std::env::var("UPDATE").is_ok_and(|value| value == "1") {
        let inputs = inputs.join("\n---\n");
        std::fs::write(file, format!("{inputs}\n---\n{:#}\n", actual)).unwrap();
        return None;
    }
    let expected = value(&read(expected));
    (actual != expected).then(|| format!("{}:\n{actual:#}\nnot\n{expected:#}", file.display()))
}

fn create(kinds: &Kinds, document: &str) -> Value {
    let (kind, prepared) = prepare(kinds, document);
    let mut object = match prepared {
        Ok(object) => object,
        Err(errors) => return errors,
    };
    kind.prepare_create(&mut object, &facts());
    let errors = Errors::default();
    kind.validate(&object, &facts(), &errors);
    outcome(&*kind, &object, errors)
}

/// The subresource of the case.
fn subresource(text: &str) -> Option<&str> {
    text.lines().next()?.strip_prefix("# subresource: ")
}

/// The update starts from the old object, merged with the second YAML document.
fn update(kinds: &Kinds, old: &str, new: &str, subresource: Option<&str>) -> Value {
    let (kind, old) = prepare(kinds, old);
    let mut old = old.unwrap();
    let status = old.get("status").cloned();
    kind.prepare_create(&mut old, &facts());
    if let (Some(_), Some(status)) = (subresource, status) {
        old.set(&["status"], status);
    }
    let (kind, new) = prepare(kinds, new);
    let mut new = match new {
        Ok(new) => new,
        Err(errors) => return errors,
    };
    meta::copy(&mut new, &old, "generation");
    let subresource = subresource
        .map(|name| kind.info().find_subresource(name).unwrap())
        .map(|subresource| subresource.kind);
    let update = UpdateContext {
        old: &old,
        subresource,
        facts: &facts(),
    };
    kind.prepare_update(&mut new, &update);
    let errors = Errors::default();
    kind.validate_update(&new, &update, &errors);
    outcome(&*kind, &new, errors)
}

fn prepare(kinds: &Kinds, document: &str) -> (Arc<dyn Kind>, Result<Tree, Value>) {
    let mut tree = read(document);
    let kind = kind_of(kinds, &tree);
    let problems = prune(kind.shape(), &mut tree);
    assert!(problems.strict.is_empty(), "{problems:?}");
    if let Some(mismatch) = problems.type_error {
        return (kind, Err(json!({"errors": [mismatch]})));
    }
    let prepared = kind.prepare_input(&mut tree);
    kind.default_for_request(&mut tree, &facts());
    let prepared = prepared.map_err(|problem| json!({"errors": [problem.to_string()]}));
    (kind, prepared.map(|()| tree))
}

fn outcome(kind: &dyn Kind, object: &Tree, errors: Errors) -> Value {
    if !errors.is_empty() {
        let lines: Vec<String> = errors.into_vec().iter().map(ToString::to_string).collect();
        return json!({"errors": lines});
    }
    let written = kind.write(object);
    let mut object: Value = serde_json::from_slice(&written.unwrap().bytes).unwrap();
    object["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("resourceVersion");
    object
}

fn kind_of(kinds: &Kinds, tree: &Tree) -> Arc<dyn Kind> {
    let name = tree.str_at(&["kind"]).unwrap();
    let version = tree.str_at(&["apiVersion"]).unwrap();
    let actual = kinds.iter().find(|kind| {
        let gvk = &kind.info().gvk;
        gvk.kind == name && gvk.api_version() == version
    });
    actual.unwrap().clone()
}

fn read(document: &str) -> Tree {
    setpoint_codec::yaml::parse(document.as_bytes()).unwrap()
}

fn value(tree: &Tree) -> Value {
    serde_json::from_slice(&setpoint_codec::json::write(tree)).unwrap()
}

fn facts() -> RequestFacts {
    RequestFacts {
        now: "2026-01-02T03:04:05Z".parse().unwrap(),
        user: Arc::new(User::component("tester")),
        event_ttl: Duration::from_secs(3600),
        allow_privileged: false,
    }
}

fn collect(folder: &Path, in_testdata: bool, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let in_testdata = in_testdata || path.ends_with("testdata");
        if path.is_dir() {
            collect(&path, in_testdata, files);
        } else if in_testdata && path.extension().is_some_and(|extension| extension == "yaml") {
            files.push(path);
        }
    }
}
