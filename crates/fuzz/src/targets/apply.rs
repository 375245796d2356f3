//! Server-side apply to a Deployment: configurations, and the `managedFields` of the live object. A configuration that
//! was applied can be applied again.

use setpoint_codec::json;
use setpoint_schema::apply::{self, FieldManager, FieldSet, Force, ManagedFields};
use setpoint_schema::{Pack, Shape, Tree};

use super::{Target, patch};
use crate::corpus;

pub(super) const TARGET: Target = Target {
    name: "apply",
    cost: 5,
    seeds: || corpus::files("patches"),
    run,
};

fn run(bytes: &[u8]) {
    let Ok(applied) = json::parse(bytes) else { return };
    ManagedFields::of(&applied).ok();
    if let Ok(fields) = FieldSet::from_fields_v1(&applied) {
        let again = FieldSet::from_fields_v1(&fields.to_fields_v1());
        assert_eq!(
            again.as_ref().ok(),
            Some(&fields),
            "fields are read as others again"
        );
        fields.paths();
    }
    let shape = Pack::builtin().shape_of("apps", "v1", "Deployment");
    let shape = shape.expect("Deployment is a built-in kind");
    let live = json::parse(patch::OBJECT.as_bytes()).expect("the object is JSON");
    let Some(once) = apply(&live, &applied, shape) else {
        return;
    };
    let again = apply(&stored(&once, shape), &applied, shape);
    assert!(again.is_some(), "the configuration cannot be applied again");
    // An object whose managedFields a client wrote.
    apply(&applied, &live, shape);
}

/// The object as it is stored: without nulls, and with its fields in order.
fn stored(tree: &Tree, shape: &Shape) -> Tree {
    let mut written = Vec::new();
    setpoint_schema::write_into(shape, tree, &mut written);
    json::parse(&written).expect("what was written can be read")
}

fn apply(live: &Tree, applied: &Tree, shape: &Shape) -> Option<Tree> {
    let reset = FieldSet::default();
    let manager = FieldManager {
        name: "fuzz",
        api_version: "apps/v1",
        subresource: "",
        now: "2026-01-01T00:00:00Z",
        reset: &reset,
        converter: None,
    };
    apply::apply(live, applied, shape, &manager, Force::Yes).ok()
}
