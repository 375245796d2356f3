//! Protobuf: the envelope and the objects in it. What is read can be written and read again.

use setpoint_codec::protobuf::{self, TypeMeta, builtin, envelope};
use setpoint_schema::{Pack, Shape, Tree};

use super::Target;
use crate::corpus;

pub(super) const TARGET: Target = Target {
    name: "protobuf",
    cost: 2,
    seeds,
    run,
};

fn seeds() -> Vec<Vec<u8>> {
    let objects = corpus::files("json");
    objects
        .iter()
        .filter_map(|object| builtin::seal_json(object))
        .collect()
}

fn run(bytes: &[u8]) {
    let Ok(opened) = envelope::open(bytes) else { return };
    let type_meta = opened.type_meta.clone();
    if let Ok(object) = builtin::BuiltinObject::open(bytes) {
        object.to_json();
    }
    if let Ok(list) = builtin::BuiltinList::open(bytes) {
        list.items().for_each(drop);
    }
    let (group, version) = type_meta
        .api_version
        .rsplit_once('/')
        .unwrap_or(("", &type_meta.api_version));
    let Some(shape) = Pack::builtin().shape_of(group, version, &type_meta.kind) else {
        return;
    };
    let Ok((_, tree)) = protobuf::decode(bytes, shape) else {
        return;
    };
    // Fields are written in the order of the shape, whatever their order was.
    let again = reread(&type_meta, &tree, shape);
    assert_eq!(
        reread(&type_meta, &again, shape),
        again,
        "it is read as something else again"
    );
}

fn reread(type_meta: &TypeMeta, tree: &Tree, shape: &Shape) -> Tree {
    let written = envelope::seal(type_meta, &protobuf::encode(shape, tree));
    let read = protobuf::decode(&written, shape);
    read.expect("what was written can be read").1
}
