//! JSON patches, merge patches and strategic merge patches of a Deployment. A merge patch that is applied again changes
//! nothing, and a JSON patch does not multiply its object.

use setpoint_codec::json;
use setpoint_schema::{Pack, Tree, patch};

use super::Target;
use crate::corpus;

pub(super) const TARGET: Target = Target {
    name: "patches",
    cost: 3,
    seeds: || corpus::files("patches"),
    run,
};

/// The object that is patched.
pub(super) const OBJECT: &str = r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","labels":{"app":"web"},
    "finalizers":["a","b"]},"spec":{"replicas":2,"template":{"spec":{"containers":[
    {"name":"a","image":"a:1","ports":[{"containerPort":80,"protocol":"TCP"}],"env":[{"name":"A","value":"1"}]},
    {"name":"b","image":"b:1","args":["x","y"]}],"tolerations":[{"key":"k"}],"volumes":[{"name":"v","emptyDir":{}}]}}}}"#;

fn run(bytes: &[u8]) {
    let Ok(change) = json::parse(bytes) else { return };
    let object = json::parse(OBJECT.as_bytes()).expect("the object is JSON");
    apply_json(&object, &change, bytes.len());
    apply_merge(&object, &change);
    let shape = Pack::builtin().shape_of("apps", "v1", "Deployment");
    let shape = shape.expect("Deployment is a built-in kind");
    let mut patched = object.clone();
    if patch::apply_strategic(&mut patched, &change, shape).is_ok() {
        check_readable(&patched);
    }
    patch::json_strict_errors(&change);
    patch::merge_strict_errors(&change);
}

fn apply_json(object: &Tree, change: &Tree, bytes: usize) {
    let mut patched = object.clone();
    if patch::apply_json(&mut patched, change).is_err() {
        return;
    }
    check_readable(&patched);
    let limit = OBJECT.len() + patch::MAX_COPIED_BYTES + 8 * bytes;
    assert!(json::write(&patched).len() <= limit, "the object was multiplied");
}

fn apply_merge(object: &Tree, change: &Tree) {
    let mut once = object.clone();
    if patch::apply_merge(&mut once, change).is_err() {
        return;
    }
    check_readable(&once);
    let mut twice = once.clone();
    let applied = patch::apply_merge(&mut twice, change);
    assert!(
        applied.is_ok() && twice == once,
        "the patch changes its own result"
    );
}

/// Numbers may take another form when they are written: 8e0 is read as 8 again.
fn check_readable(tree: &Tree) {
    json::parse(&json::write(tree)).expect("the result can be written and read");
}
