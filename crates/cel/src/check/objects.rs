//! The object types that struct literals may construct: declared ones, and those of patches.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Environment;
use crate::cel_type::{ObjectType, Type};

/// The type of an object under review; that of its field `spec` is `Object.spec`, and so on.
const OBJECT: &str = "Object";
/// The type of an operation of a JSON patch.
const JSON_PATCH: &str = "JSONPatch";

impl Environment {
    /// The object type of a name.
    pub(super) fn find_object(&self, name: &str) -> Option<Arc<ObjectType>> {
        let declared = self.objects.get(name).cloned();
        declared.or_else(|| patch_type(name).filter(|_| self.has_patch_types))
    }
}

fn patch_type(name: &str) -> Option<Arc<ObjectType>> {
    let is_object = name
        .strip_prefix(OBJECT)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    let fields = match name {
        JSON_PATCH => operation_fields(),
        _ if is_object => BTreeMap::new(),
        _ => return None,
    };
    Some(Arc::new(ObjectType {
        name: name.to_owned(),
        fields,
        has_any_field: is_object,
    }))
}

fn operation_fields() -> BTreeMap<String, Type> {
    let texts = ["op", "path", "from"].map(|name| (name.to_owned(), Type::String));
    texts
        .into_iter()
        .chain([("value".to_owned(), Type::Dyn)])
        .collect()
}
